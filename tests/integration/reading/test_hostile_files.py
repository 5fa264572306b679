"""The zoo: hostile files are read by our own readers in worker processes, under their limits."""

import os
from collections.abc import AsyncIterator

import pytest

from crawler.parsing import sniff
from crawler.parsing.document import Document, DocumentLimits, Unreadable
from crawler.parsing.documents import HEAVY, read_document
from crawler.reading.pool import DocumentPool, PoolLimits
from demo.hostile_files import ZOO, Hostile

URL = "http://h.test/file"
IS_STORM = bool(os.environ.get("STORM"))
# Those that take long are read by `make storm` only.
FILES = [file for file in ZOO if IS_STORM or not file.is_slow]


@pytest.fixture
async def pool() -> AsyncIterator[DocumentPool]:
    found = DocumentPool(PoolLimits(workers=1, timeout_s=60, nice=0), {})
    yield found
    await found.close()


async def read(pool: DocumentPool, file: Hostile) -> Document | str:
    """Read a file as the spider does; return its document, or why there is none."""
    body = file.make()
    kind = sniff.sniff(body, file.media_type, URL)
    try:
        if kind in HEAVY:
            return await pool.read(kind, body, URL)
        return read_document(kind, body, URL, limits=DocumentLimits())
    except Unreadable as unreadable:
        return f"unread:{unreadable.reason}"


@pytest.mark.timeout(300)
async def test_each_hostile_file_is_read_in_part_or_has_its_reason(pool: DocumentPool) -> None:
    found = {file.name: await read(pool, file) for file in FILES}
    flags = {
        name: f"cut:{each.cut}" if isinstance(each, Document) and each.cut else each
        for name, each in found.items()
    }
    wanted = {file.name: file.flag for file in FILES}
    assert {
        name: "" if isinstance(flag, Document) else flag for name, flag in flags.items()
    } == wanted


async def test_nothing_is_loaded_for_a_file(pool: DocumentPool) -> None:
    (file,) = [file for file in ZOO if file.name == "external-entity.docx"]
    found = await read(pool, file)
    assert isinstance(found, Document)
    assert found.text == ""
