"""Complete WARC files go to an object store, and are removed here only when it has all of them."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crawler.servers import objects
from crawler.servers.objects import ObjectStore
from crawler.storage.warc.files import locked
from crawler.storage.warc.upload import Uploads
from tests.support.s3_front import Front, front_of
from tests.support.s3_server import S3Server, use_server
from tests.support.waiting import until

STEM = "web-20260102030405-host.1-0000"
FILE, INDEX = f"{STEM}1.warc.gz", f"{STEM}1.cdxj"
# Two parts.
DATA = os.urandom(objects._PART_BYTES) + b"end"

CHILD = """
import asyncio, sys
from pathlib import Path
from crawler.servers.objects import ObjectStore
from crawler.storage.warc.upload import Uploads

asyncio.run(Uploads(ObjectStore.from_url(sys.argv[1], what="URL"), Path(sys.argv[2])).run())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a complete file."""
    folder = tmp_path / "archive"
    folder.mkdir()
    (folder / FILE).write_bytes(DATA)
    (folder / INDEX).write_bytes(b"index\n")
    return folder


@pytest.fixture
async def front(
    s3_url: str, s3_server: S3Server, s3_environment: pytest.MonkeyPatch
) -> AsyncIterator[Front]:
    async with front_of(s3_server.endpoint) as front:
        use_server(s3_environment, front.endpoint)
        yield front


def store_of(url: str) -> ObjectStore:
    return ObjectStore.from_url(url, what="WARC_UPLOAD")


async def stored(url: str) -> dict[str, bytes]:
    store = store_of(url)
    return {name: await store.get(name) async for name, _ in store.list()}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def sent(front: Front) -> set[str]:
    """The names of what was sent to the store."""
    paths = {path.partition("?")[0] for method, path, _ in front.requests if method == "PUT"}
    return {path.rpartition("/")[2] for path in paths}


async def test_what_is_complete_is_uploaded_and_removed(s3_url: str, folder: Path) -> None:
    others = {f"{STEM}2.warc.gz.open", f"{STEM}2.cdxj.open", f"{STEM}3.warc.gz", "note.txt"}
    for name in others:
        (folder / name).write_bytes(b"other")
    uploads = Uploads(store_of(s3_url), folder)
    await uploads.open()
    assert await uploads.run() == 0
    assert await stored(s3_url) == {FILE: DATA, INDEX: b"index\n"}
    # Those that are being written, have no index yet, or are of somebody else.
    assert names(folder) == others


@pytest.mark.parametrize(
    ("held", "again"),
    [
        # In the middle of the file; between it and its index; when both are there.
        (("PUT", "partNumber=2"), {FILE, INDEX}),
        (("HEAD", INDEX), {INDEX}),
        (("PUT", INDEX), set()),
    ],
)
async def test_a_process_that_is_killed_leaves_the_rest_to_the_next(
    front: Front, s3_url: str, folder: Path, held: tuple[str, str], again: set[str]
) -> None:
    front.held = held
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", CHILD, s3_url, str(folder))
    await until(lambda: front.is_holding, "the child waits for the answer")
    # Another process leaves the file to it.
    assert await Uploads(store_of(s3_url), folder).run() == 0
    assert names(folder) == {FILE, INDEX}
    child.kill()
    await child.wait()
    # What the store had when it was killed is whole, or not there.
    assert set((await stored(s3_url)).items()) <= {(FILE, DATA), (INDEX, b"index\n")}
    assert names(folder) == {FILE, INDEX}
    front.held = None
    front.requests.clear()
    assert await Uploads(store_of(s3_url), folder).run() == 0
    assert sent(front) == again
    assert await stored(s3_url) == {FILE: DATA, INDEX: b"index\n"}
    assert names(folder) == set()


async def test_a_store_that_is_away_keeps_everything_here_until_it_is_back(
    front: Front, s3_url: str, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in (2, 3):
        (folder / f"{STEM}{number}.warc.gz").write_bytes(b"other")
        (folder / f"{STEM}{number}.cdxj").write_bytes(b"index\n")
    uploads = Uploads(store_of(s3_url), folder)
    front.answer = (503, "SlowDown")
    await uploads.finish()
    assert len(names(folder)) == 6
    # The first one is tried, with its repetitions.
    assert len(front.requests) == 3
    assert "is not uploaded yet" in caplog.text
    assert "3 files in " in caplog.text
    assert "could not be uploaded" in caplog.text
    front.answer = None
    await uploads.finish()
    assert names(folder) == set()
    assert len(await stored(s3_url)) == 6


async def test_a_failure_in_the_middle_of_a_file_keeps_it_here(
    front: Front, s3_url: str, folder: Path
) -> None:
    # The size is asked for, the upload is begun, and then no part is taken.
    uploads = Uploads(store_of(s3_url), folder)
    front.damages = True
    assert await uploads.run() == 1
    assert names(folder) == {FILE, INDEX}
    assert await stored(s3_url) == {}
    front.damages = False
    assert await uploads.run() == 0
    assert await stored(s3_url) == {FILE: DATA, INDEX: b"index\n"}


async def test_a_file_that_another_process_has_locked_is_left_to_it(
    s3_url: str, folder: Path
) -> None:
    with locked(folder / FILE) as file:
        assert file is not None
        assert await Uploads(store_of(s3_url), folder).run() == 0
    assert names(folder) == {FILE, INDEX}
    assert await stored(s3_url) == {}


async def test_two_processes_upload_each_file_once(front: Front, s3_url: str, folder: Path) -> None:
    for number in range(2, 6):
        (folder / f"{STEM}{number}.warc.gz").write_bytes(b"other")
        (folder / f"{STEM}{number}.cdxj").write_bytes(b"index\n")
    both = [Uploads(store_of(s3_url), folder) for _ in range(2)]
    assert await asyncio.gather(*(uploads.run() for uploads in both)) == [0, 0]
    assert names(folder) == set()
    assert len(await stored(s3_url)) == 10
    # Eight small objects, and one of two parts with its index.
    assert len(front.headers("PUT")) == 8 + 3


async def test_an_archive_of_the_same_name_is_never_overwritten(
    s3_url: str, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await store_of(s3_url).put(FILE, b"another archive")
    assert await Uploads(store_of(s3_url), folder).run() == 1
    assert names(folder) == {FILE, INDEX}
    assert await stored(s3_url) == {FILE: b"another archive"}
    assert "they are different archives. Upload this one to another prefix." in caplog.text


async def test_a_folder_may_be_the_store(tmp_path: Path, folder: Path) -> None:
    url = f"file://{tmp_path}/store"
    assert await Uploads(store_of(url), folder).run() == 0
    assert names(folder) == set()
    assert names(tmp_path / "store") == {FILE, INDEX}
