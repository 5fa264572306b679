"""WARC files: what is in them after crashes, full disks, rotations and repairs."""

import errno
import gzip
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from crawler.storage.warc import files as warc_files
from crawler.storage.warc.files import WarcFiles, WarcName, repair, scan
from crawler.storage.warc.index import Line, whole_lines
from crawler.storage.warc.records import CODECS, RecordMaker, Records, capture_of
from tests.support.archives import audit, merged_index
from tests.unit.storage.warc.pages import exchange, page

NOW_S = 1_794_983_353.0
MakeFiles = Callable[..., WarcFiles]


def records(maker: RecordMaker, *numbers: int) -> list[Records]:
    """Records of pages that are like no other."""
    found = []
    for number in numbers:
        body = os.urandom(300 + number)
        capture = capture_of(page(f"http://a.test/{number}", exchange(body=body)))
        assert capture is not None
        found.append(maker.records(capture, {}))
    return found


@pytest.fixture(params=["gzip"])
def codec(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def maker(codec: str) -> RecordMaker:
    return RecordMaker(codec, 2, what="a test")


@pytest.fixture
def make(tmp_path: Path, maker: RecordMaker, codec: str) -> MakeFiles:
    def make(**given: Any) -> WarcFiles:
        values: dict[str, Any] = {
            "codec": codec,
            "info": {"software": "a test"},
            "max_bytes": 10**9,
            "max_age_s": 3600.0,
        }
        return WarcFiles(tmp_path / "archive", "web", maker, **{**values, **given})

    (tmp_path / "archive").mkdir()
    return make


def die(files: WarcFiles) -> None:
    """Let go of the files as a process does that is killed."""
    files._abandon()


def complete(files: WarcFiles) -> WarcName:
    end = files.rotate(NOW_S, at_end=True)
    assert end is not None
    return end()


@pytest.mark.parametrize("codec", list(CODECS), indirect=True)
def test_records_are_read_by_their_places(
    make: MakeFiles, maker: RecordMaker, codec: str, tmp_path: Path
) -> None:
    files = make()
    given = records(maker, 1, 2, 3)
    places = files.append(given[:2], NOW_S) + files.append(given[2:], NOW_S)
    name = complete(files)
    assert name.file.startswith("web-20261118062913-")
    assert name.file.endswith(f"-00001.warc{CODECS[codec]}")
    assert {path.name for path in files.folder.iterdir()} == {name.file, name.index}
    data = (files.folder / name.file).read_bytes()
    for record, place in zip(given, places, strict=True):
        assert place["file"] == name.file
        start = int(place["offset"])
        assert data[start : start + int(place["length"])] == record.data[-record.length :]
    # An index that is made from the file alone is the same.
    kept = [Line.decoded(line) for line in whole_lines(files.folder / name.index)]
    assert sorted(scan(files.folder / name.file, name)) == kept
    if codec == "gzip":
        assert audit(files.folder).unindexed == 0


def test_files_are_rotated_by_size_and_age(make: MakeFiles, maker: RecordMaker) -> None:
    files = make(max_bytes=5000, max_age_s=60.0)
    assert files.rotate(NOW_S) is None
    files.append(records(maker, 1), NOW_S)
    assert files.rotate(NOW_S + 59) is None
    for size, now_s in ((5000, NOW_S + 60), (1, NOW_S + 61)):
        end = files.rotate(now_s)
        assert end is not None
        end()
        files.append(records(maker, size), now_s)
    die(files)
    assert files.rotate(NOW_S + 62, at_end=True) is None


def test_a_file_that_its_process_writes_is_left_alone(make: MakeFiles, maker: RecordMaker) -> None:
    files = make()
    files.append(records(maker, 1), NOW_S)
    before = {path.name for path in files.folder.iterdir()}
    assert not repair(files.folder).closed
    assert {path.name for path in files.folder.iterdir()} == before
    files.append(records(maker, 2), NOW_S)
    complete(files)
    assert len(audit(files.folder).lines) == 2


def test_a_file_that_ends_anywhere_is_cut_after_the_last_stored_page(
    make: MakeFiles, maker: RecordMaker, tmp_path: Path
) -> None:
    """A process dies at any byte of the third page: in its records, or in the line of its index."""
    files = make()
    files.append(records(maker, 1, 2), NOW_S)
    first = _open_files(files.folder)
    files.append(records(maker, 3), NOW_S)
    second = _open_files(files.folder)
    die(files)
    index, warc = sorted(second)
    moments = [
        {warc: second[warc][:at], index: first[index]}
        for at in range(len(first[warc]), len(second[warc]), 37)
    ]
    moments += [
        {warc: second[warc], index: second[index][:at]}
        for at in range(len(first[index]), len(second[index]), 11)
    ]
    for number, moment in enumerate(moments):
        folder = tmp_path / f"died{number}"
        folder.mkdir()
        for name, data in moment.items():
            (folder / name).write_bytes(data)
        looked = repair(folder, dry_run=True)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == moment
        mended = repair(folder)
        assert (looked.closed, looked.cut_bytes) == (mended.closed, mended.cut_bytes)
        assert mended.cut_bytes == len(moment[warc]) - len(first[warc])
        name = WarcName.of(warc)
        assert name is not None
        assert {path.name for path in folder.iterdir()} == {name.file, name.index}
        assert (folder / name.file).read_bytes() == first[warc]
        assert [line["url"] for line in merged_index(folder)] == [
            "http://a.test/1",
            "http://a.test/2",
        ]
        assert repair(folder) == warc_files.FolderRepair()


def _open_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_repair_that_is_killed_anywhere_is_done_by_the_next(
    make: MakeFiles, maker: RecordMaker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = make()
    files.append(records(maker, 1, 2), NOW_S)
    (open_file,) = files.folder.glob("*.warc.gz.open")
    die(files)
    with open_file.open("ab") as file:
        file.write(b"torn")

    class Killed(BaseException):
        """A death, which nothing catches."""

    calls = 0
    for steps in range(1, 100):
        folder = tmp_path / f"killed{steps}"
        shutil.copytree(files.folder, folder)
        with monkeypatch.context() as dying:
            calls = 0

            def counted(function: Callable[..., Any], steps: int = steps) -> Callable[..., Any]:
                def call(*given: Any, **named: Any) -> Any:
                    nonlocal calls
                    calls += 1
                    if calls == steps:
                        raise Killed
                    return function(*given, **named)

                return call

            # Whatever changes a file or a name.
            dying.setattr(os, "fsync", counted(os.fsync))
            for name in ("rename", "replace", "unlink"):
                dying.setattr(Path, name, counted(getattr(Path, name)))
            try:
                repair(folder)
            except Killed:
                pass
            else:
                break
        repair(folder)
        found = audit(folder)
        assert [line["url"] for line in found.lines] == ["http://a.test/1", "http://a.test/2"]
    assert calls >= 5


def test_a_file_that_a_repair_removes_while_it_is_begun_is_not_used(
    make: MakeFiles, maker: RecordMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = make()
    real, repaired = warc_files._created, []

    def create_and_repair(path: Path) -> Any:
        file = real(path)
        if not repaired:
            # Another process sees it before it is locked.
            repaired.append(repair(files.folder))
        return file

    monkeypatch.setattr(warc_files, "_created", create_and_repair)
    files.append(records(maker, 1), NOW_S)
    assert len(repaired[0].closed) == 1
    name = complete(files)
    assert name.file.endswith("-00002.warc.gz")
    assert [line["url"] for line in audit(files.folder).lines] == ["http://a.test/1"]


def test_a_new_file_that_a_repair_has_locked_is_not_used(
    make: MakeFiles, maker: RecordMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = make()
    real, held = warc_files._created, ExitStack()

    def create_locked(path: Path) -> Any:
        file = real(path)
        if path.name.endswith("-00001.warc.gz.open"):
            assert held.enter_context(warc_files.locked(path))
        return file

    monkeypatch.setattr(warc_files, "_created", create_locked)
    with held:
        files.append(records(maker, 1), NOW_S)
    assert complete(files).file.endswith("-00002.warc.gz")
    repair(files.folder)
    assert len(audit(files.folder).lines) == 1


@pytest.mark.parametrize("damage", [b"\0\0\0 {\n", b"test,a)/ 2026 {}\n"])
def test_a_damaged_index_is_made_again_from_the_file(
    make: MakeFiles, maker: RecordMaker, damage: bytes
) -> None:
    files = make()
    files.append(records(maker, 1, 2), NOW_S)
    (index,) = files.folder.glob("*.cdxj.open")
    die(files)
    lines = index.read_bytes().splitlines(keepends=True)
    index.write_bytes(lines[0] + damage)
    repair(files.folder)
    assert len(audit(files.folder).lines) == 2


@pytest.mark.parametrize(
    "headers",
    [
        b"WARC-Type: response\r\nWARC-Target-URI: http://a.test/",
        b"WARC-Type: response\r\nWARC-Target-URI: http://[\r\nWARC-Date: 2026-01-01T00:00:00Z",
        b"WARC-Type: response\r\nWARC-Target-URI: http://a b.test:x/\r\nWARC-Date: never",
        b"WARC-Type: response\r\nWARC-Target-URI: http://a/\r\nWARC-Date: 2026\r\nWARC-Visit: 1-1",
        b"Some: thing",
    ],
)
def test_a_file_of_another_program_stops_no_repair(
    make: MakeFiles, maker: RecordMaker, headers: bytes
) -> None:
    files = make()
    foreign = files.folder / "another.warc.gz"
    record = b"WARC/1.0\r\n" + headers + b"\r\nContent-Length: 4\r\n\r\nbody\r\n\r\n"
    foreign.write_bytes(gzip.compress(record))
    files.append(records(maker, 1), NOW_S)
    die(files)
    assert len(repair(files.folder).closed) == 1
    assert foreign.exists()
    assert "http://a.test/1" in {line["url"] for line in merged_index(files.folder)}


def test_a_file_without_a_stored_page_is_removed(make: MakeFiles, maker: RecordMaker) -> None:
    files = make()
    files._begin(NOW_S)
    die(files)
    assert len(repair(files.folder).closed) == 1
    assert not list(files.folder.iterdir())


def test_an_index_that_somebody_deleted_is_made_again(make: MakeFiles, maker: RecordMaker) -> None:
    files = make()
    files.append(records(maker, 1, 2), NOW_S)
    name = complete(files)
    before = (files.folder / name.index).read_bytes()
    (files.folder / name.index).unlink()
    for dry_run in (True, False):
        (indexed,) = repair(files.folder, dry_run=dry_run).indexed
        assert indexed.file == name.file
    assert (files.folder / name.index).read_bytes() == before
    # That of a file that was never completed: all whole records count.
    files.append(records(maker, 3), NOW_S)
    die(files)
    (index,) = files.folder.glob("*.cdxj.open")
    index.unlink()
    assert len(repair(files.folder).closed) == 1
    assert len(audit(files.folder).lines) == 3


def test_a_disk_that_lost_what_it_confirmed_is_reported(
    make: MakeFiles, maker: RecordMaker, caplog: pytest.LogCaptureFixture
) -> None:
    files = make()
    files.append(records(maker, 1, 2), NOW_S)
    (path,) = files.folder.glob("*.warc.gz.open")
    die(files)
    os.truncate(path, path.stat().st_size - 10)
    repair(files.folder)
    assert "has lost 1 pages" in caplog.text
    assert len(audit(files.folder).lines) == 1


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """Let every write beyond this size fail, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_whole_files(make: MakeFiles, maker: RecordMaker) -> None:
    files = make()
    with files_of_at_most(100), pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
        files.append(records(maker, 1), NOW_S)
    assert not list(files.folder.iterdir())
    files.append(records(maker, 1), NOW_S)
    (path,) = files.folder.glob("*.warc.gz.open")
    for _ in range(3):
        with (
            files_of_at_most(path.stat().st_size + 500),
            pytest.raises(OSError, match=os.strerror(errno.EFBIG)),
        ):
            files.append(records(maker, 20_000), NOW_S)
    files.append(records(maker, 2), NOW_S)
    complete(files)
    assert [line["url"] for line in audit(files.folder).lines] == [
        "http://a.test/1",
        "http://a.test/2",
    ]


def test_an_index_that_cannot_be_written_costs_no_record(
    make: MakeFiles, maker: RecordMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = make()
    files.append(records(maker, 1), NOW_S)
    real, calls = warc_files.append_synced, 0

    def fail_second(file: Any, data: bytes) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(file, data)

    with monkeypatch.context() as full:
        full.setattr(warc_files, "append_synced", fail_second)
        with pytest.raises(OSError, match="No space"):
            files.append(records(maker, 2), NOW_S)
    files.append(records(maker, 3), NOW_S)
    complete(files)
    found = audit(files.folder)
    assert [line["url"] for line in found.lines] == ["http://a.test/1", "http://a.test/3"]
    assert found.unindexed == 0


def test_names_are_read_back() -> None:
    for text in ("a-b.warc.gz", "a.warc", "a.warc.zst.open"):
        name = WarcName.of(text)
        assert name is not None
        assert f"{name.file}{'.open' if name.is_open else ''}" == text
    assert WarcName.of("a.cdxj") is None
    assert WarcName.of("a.warc.gz.part") is None


def test_a_crawl_may_have_a_long_name(tmp_path: Path, maker: RecordMaker) -> None:
    options: dict[str, Any] = {"codec": "gzip", "info": {}, "max_bytes": 1, "max_age_s": 1.0}
    names = set()
    for crawl in ("\u65e5" * 90, "\u65e5" * 91):
        files = WarcFiles(tmp_path, crawl, maker, **options)
        files.append(records(maker, 1), NOW_S)
        names.add(complete(files).file.partition("-")[0])
    assert len(names) == 2


def test_a_folder_that_takes_no_files_is_refused(tmp_path: Path) -> None:
    warc_files.check_writable(tmp_path)
    with pytest.raises(OSError, match="No such file"):
        warc_files.check_writable(tmp_path / "none")
    with pytest.raises(OSError, match=r"Read-only|Permission|No such|not permitted"):
        warc_files.check_writable(Path("/proc"))


def test_a_capture_with_a_header_too_long_for_the_library_is_found_by_a_scan(
    tmp_path: Path, maker: RecordMaker
) -> None:
    head = b"HTTP/1.1 200 OK\r\nX-Long: %b\r\n\r\n" % (b"a" * 60_000)
    capture = capture_of(page("http://a.test/", exchange(head=head)))
    assert capture is not None
    path = tmp_path / "web.warc.gz"
    path.write_bytes(maker.records(capture, {}).data)
    (line,) = scan(path, WarcName("web", ".gz", is_open=False))
    assert line.fields["url"] == "http://a.test/"
    assert line.fields["digest"].startswith("sha1:")
