"""Captures that are read back: packed ones, revisits, odd heads, and files that change."""

import gzip
import zlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import brotli
import pytest
import zstandard

from crawler.errors import ConfigurationError, NotFound
from crawler.items import NOT_MODIFIED, Page
from crawler.servers.objects import ObjectStore
from crawler.storage.warc.files import WarcFiles, repair
from crawler.storage.warc.reader import (
    Archive,
    ArchiveFile,
    FolderSource,
    StoreSource,
    Verified,
    unpacked_body,
)
from crawler.storage.warc.records import Original, RecordMaker, capture_of
from crawler.storage.warc.upload import Uploads
from tests.unit.storage.warc.pages import AT, exchange, page

URL = "http://a.test/"
BODY = b"<p>hello</p>" * 100


class Writer:
    """Writer of an archive, with the captures that it knows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._maker = RecordMaker("gzip", 2, what="a test")
        options: dict[str, Any] = {"codec": "gzip", "info": {}, "max_bytes": 10**9}
        self._files = WarcFiles(folder, "web", self._maker, max_age_s=3600.0, **options)
        self._known: dict[str, Original] = {}

    def add(self, found: Page, *, after_s: float = 0.0) -> None:
        """Write a page that was fetched so many seconds later."""
        assert found.exchange is not None
        began_s = (AT + timedelta(seconds=after_s)).timestamp()
        found.exchange = found.exchange._replace(began_s=began_s)
        capture = capture_of(found)
        assert capture is not None
        records = self._maker.records(capture, self._known)
        self._files.append([records], AT.timestamp())
        self._known.setdefault(records.digest, Original(capture.uri, capture.date))

    def complete(self) -> None:
        end = self._files.rotate(0.0, at_end=True)
        assert end is not None
        end()

    def close(self) -> None:
        self._files._abandon()

    @property
    def archive(self) -> Archive:
        return Archive([FolderSource(self.folder)])

    async def body(self, url: str = URL) -> bytes:
        """The body of the newest capture, as people see it."""
        lines = await self.archive.find([url])
        return unpacked_body(*await self.archive.payload(lines[-1]))


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    (tmp_path / "archive").mkdir()
    writer = Writer(tmp_path / "archive")
    yield writer
    writer.close()


def packed(encoding: str, body: bytes) -> Page:
    head = f"HTTP/1.1 200 OK\r\nCONTENT-encoding: {encoding}\r\n\r\n".encode()
    return page(URL, exchange(head=head, body=body))


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(BODY, mtime=0)),
        ("x-gzip", gzip.compress(BODY[:500], mtime=0) + gzip.compress(BODY[500:], mtime=0)),
        ("deflate", zlib.compress(BODY)),
        ("deflate", zlib.compress(BODY)[2:-4]),
        ("br", brotli.compress(BODY)),
        ("zstd", zstandard.compress(BODY)),
        ("gzip, br", brotli.compress(gzip.compress(BODY, mtime=0))),
        ("gzip", BODY),
        ("utf-8", BODY),
        ("identity", BODY),
    ],
)
async def test_a_packed_body_is_unpacked(writer: Writer, encoding: str, body: bytes) -> None:
    writer.add(packed(encoding, body))
    assert await writer.body() == BODY
    writer.complete()
    assert await writer.body() == BODY


@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
async def test_a_head_may_end_its_lines_in_any_way(writer: Writer, end: bytes) -> None:
    writer.add(page(URL, exchange(head=b"HTTP/1.1 200 OK" + end + b"A: b" + end * 2, body=BODY)))
    assert await writer.body() == BODY


def not_modified(visits: int) -> Page:
    wire = exchange(head=b"HTTP/1.1 304 Not Modified\r\n\r\n", body=b"")
    return page(URL, wire, status=304, flags=[NOT_MODIFIED], visits=visits)


async def test_a_page_that_is_not_modified_has_the_body_of_the_last_good_visit(
    writer: Writer,
) -> None:
    writer.add(page(URL, exchange(body=BODY)))
    error = exchange(head=b"HTTP/1.1 500 Oops\r\n\r\n", body=b"sorry")
    writer.add(page(URL, error, status=500, visits=2), after_s=1)
    writer.add(not_modified(3), after_s=2)
    writer.add(page(URL, exchange(body=b"later"), visits=4), after_s=3)
    lines = await writer.archive.find([URL])
    assert (await writer.archive.payload(lines[2]))[1] == BODY


async def test_a_page_that_is_not_modified_may_have_been_a_duplicate(writer: Writer) -> None:
    writer.add(page("http://a.test/first", exchange(body=BODY)))
    writer.add(page(URL, exchange(body=b"old" * 200)), after_s=1)
    writer.add(page(URL, exchange(body=BODY), visits=2), after_s=2)
    writer.add(not_modified(3), after_s=3)
    assert await writer.body() == BODY


async def test_a_page_that_is_not_modified_since_before_the_archive_is_told(
    writer: Writer,
) -> None:
    writer.add(not_modified(2))
    with pytest.raises(NotFound, match="was not modified"):
        await writer.body()


async def test_the_known_capture_of_a_page_dates_its_revisits(writer: Writer) -> None:
    known = {not_modified(2).url_hash: Original(URL, "2026-11-18T04:20:00Z")}
    capture = capture_of(not_modified(2))
    assert capture is not None
    maker = RecordMaker("none", 1, what="a test")
    data = maker.records(capture, known).data
    assert b"WARC-Refers-To-Date: 2026-11-18T04:20:00Z\r\n" in data


@pytest.mark.parametrize("is_uploaded", [False, True])
async def test_files_may_be_completed_and_uploaded_while_they_are_read(
    writer: Writer, tmp_path: Path, is_uploaded: bool
) -> None:
    writer.add(page(URL, exchange(body=BODY)))
    store = ObjectStore.from_url(f"file://{tmp_path / 'store'}", what="a test")
    changed: list[ArchiveFile] = []

    class Changing(Archive):
        """Archive whose file changes as soon as it has been listed."""

        async def files(self) -> list[ArchiveFile]:
            found = await super().files()
            if not changed:
                changed.extend(found)
                writer.complete()
                if is_uploaded:
                    assert await Uploads(store, writer.folder).run() == 0
            return found

    def archive() -> Archive:
        changed.clear()
        return Changing([FolderSource(writer.folder), StoreSource(store)])

    total = Verified()
    assert len([file async for file in archive().verify(total)]) == 1
    assert (total.captures, total.indexed, total.damage) == (1, 1, [])


async def test_an_archive_below_a_prefix_is_verified(writer: Writer, tmp_path: Path) -> None:
    writer.add(page(URL, exchange(body=BODY)))
    writer.complete()
    store = ObjectStore.from_url(f"file://{tmp_path}", what="a test")
    total = Verified()
    async for _ in Archive([StoreSource(store)]).verify(total):
        pass
    assert (total.captures, total.indexed, total.damage) == (1, 1, [])


async def test_an_archive_is_not_uploaded_onto_itself(writer: Writer, tmp_path: Path) -> None:
    writer.add(page(URL, exchange(body=BODY)))
    writer.complete()
    (tmp_path / "link").symlink_to(writer.folder)
    store = ObjectStore.from_url(f"file://{tmp_path / 'link'}", what="a test")
    with pytest.raises(ConfigurationError, match="is the folder of the archive itself"):
        Uploads(store, writer.folder)


def test_a_folder_that_is_only_read_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        ObjectStore.from_url(f"file://{tmp_path / 'typo'}", what="--in", create=False)
    assert not (tmp_path / "typo").exists()


async def verified(folder: Path) -> Verified:
    total = Verified()
    async for _ in Archive([FolderSource(folder)]).verify(total):
        pass
    return total


def damage_lines(path: Path, *, keep: int = 1, add: bytes = b"") -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:keep]) + add)


async def test_what_an_index_lacks_is_found(writer: Writer) -> None:
    for number in range(3):
        writer.add(page(f"http://a.test/{number}", exchange(body=BODY + bytes([number]))))
    # The same visit twice, of which the index has one.
    writer.add(page("http://a.test/0", exchange(body=b"again")), after_s=1)
    writer.complete()
    (index,) = writer.folder.glob("*.cdxj")
    assert (await verified(writer.folder)).damage == []
    damage_lines(index)
    total = await verified(writer.folder)
    assert total.damaged == 1
    assert "its index lacks 2 captures; delete" in total.damage[0]


async def test_an_index_without_its_file_is_found(writer: Writer) -> None:
    writer.add(page(URL))
    writer.complete()
    (path,) = writer.folder.glob("*.warc.gz")
    path.unlink()
    total = await verified(writer.folder)
    assert total.damaged == 1
    assert total.damage[0].endswith(".cdxj: its WARC file is gone")


@pytest.mark.parametrize("line", [b"garbage\n", b"test,a)/ 2026 {\n", bytes(5) + b"\n"])
async def test_a_damaged_index_is_named_and_never_merged(writer: Writer, line: bytes) -> None:
    writer.add(page(URL))
    writer.complete()
    (index,) = writer.folder.glob("*.cdxj")
    damage_lines(index, add=line)
    total = await verified(writer.folder)
    assert any("its index is damaged" in text for text in total.damage)
    with pytest.raises(NotFound, match=rf"{index.name} is damaged"):
        async with writer.archive.indexes():
            pass


async def test_a_file_that_is_no_archive_is_damaged_and_stops_nothing(writer: Writer) -> None:
    writer.add(page(URL))
    writer.complete()
    (writer.folder / "other.warc.gz").write_bytes(gzip.compress(b"root:x:0:0\n" * 100))
    assert len(repair(writer.folder).indexed) == 1
    total = await verified(writer.folder)
    assert total.damage == ["other.warc.gz: the record at 0 is damaged"]
    assert total.captures == 1
