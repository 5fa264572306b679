"""The log on disk: durable, bounded, checked, and taken over from processes that died."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from crawler.storage.disk_log import DiskLog, LogFull, records
from tests.support.full_disk import files_of_at_most


@pytest.fixture
def log_in() -> Iterator[Callable[..., DiskLog]]:
    """Opens logs in folders, and closes them after the test."""
    with ExitStack() as opened:

        def open_log(
            folder: Path, *, max_bytes: int = 10**6, segment_bytes: int = 10**6
        ) -> DiskLog:
            log = DiskLog(folder, max_bytes=max_bytes, segment_bytes=segment_bytes)
            log.open()
            opened.callback(log.close)
            return log

        yield open_log


LogIn = Callable[..., DiskLog]


def drained(log: DiskLog) -> list[bytes]:
    found = []
    while (segment := log.oldest()) is not None:
        found += list(records(segment))
        log.remove(segment)
    return found


def test_records_come_back_in_their_order(log_in: LogIn, tmp_path: Path) -> None:
    log = log_in(tmp_path)
    for number in range(5):
        log.append(b"%d" % number, 2)
    assert (log.count, log.size_bytes > 0) == (10, True)
    assert drained(log) == [b"0", b"1", b"2", b"3", b"4"]
    assert (log.count, log.size_bytes) == (0, 0)
    assert list(tmp_path.glob("*.log")) == []


def test_what_is_appended_while_the_oldest_is_read_is_in_another_segment(
    log_in: LogIn, tmp_path: Path
) -> None:
    log = log_in(tmp_path)
    log.append(b"1", 1)
    segment = log.oldest()
    assert segment is not None
    log.append(b"2", 1)
    assert list(records(segment)) == [b"1"]
    log.remove(segment)
    assert drained(log) == [b"2"]


def test_a_segment_has_so_many_bytes(log_in: LogIn, tmp_path: Path) -> None:
    log = log_in(tmp_path, segment_bytes=120)
    for _ in range(6):
        log.append(b"x" * 30, 1)
    assert len(list(tmp_path.glob("*.log"))) == 3
    # A record may be larger than that.
    log.append(b"y" * 500, 1)
    assert drained(log)[-1] == b"y" * 500


def test_all_processes_together_have_so_many_bytes(log_in: LogIn, tmp_path: Path) -> None:
    first, second = log_in(tmp_path, max_bytes=1000), log_in(tmp_path, max_bytes=1000)
    first.append(b"x" * 600, 1)
    with pytest.raises(LogFull, match=str(tmp_path)):
        second.append(b"x" * 600, 1)
    drained(first)
    second.append(b"x" * 600, 1)


def test_a_living_process_keeps_its_segments(log_in: LogIn, tmp_path: Path) -> None:
    first = log_in(tmp_path)
    first.append(b"1", 1)
    second = log_in(tmp_path)
    assert (second.count, second.adopt()) == (0, [])
    first.close()
    assert second.adopt() != []
    assert drained(second) == [b"1"]
    # Nothing of the first one is left.
    assert {path.name for path in tmp_path.iterdir()} == {"id", f"{second.owner}.lock"}


DYING = """
import os, sys
from pathlib import Path
from crawler.storage.disk_log import DiskLog

log = DiskLog(Path(sys.argv[1]), max_bytes=10**6)
log.open()
log.append(b"safe", 3)
log._file.write(b"LOG1 half a record")
log._file.flush()
os.kill(os.getpid(), 9)
"""


def test_a_process_that_is_killed_leaves_what_was_acknowledged(
    log_in: LogIn, tmp_path: Path
) -> None:
    root = Path(__file__).parents[3]
    process = subprocess.run(
        [sys.executable, "-c", DYING, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(root)},
        check=False,
    )
    assert process.returncode == -9
    log = log_in(tmp_path)
    assert log.count == 3
    assert drained(log) == [b"safe"]


@pytest.mark.parametrize("at", [0, 30, 45, 50, 70, 100, 131])
def test_damage_by_the_disk_is_told_and_a_copy_is_kept(
    log_in: LogIn, tmp_path: Path, at: int, caplog: pytest.LogCaptureFixture
) -> None:
    log = log_in(tmp_path)
    for payload in (b"a" * 20, b"b" * 20, b"c" * 20):
        log.append(payload, 1)
    segment = log.oldest()
    assert segment is not None
    data = bytearray(segment.path.read_bytes())
    data[at] ^= 1
    segment.path.write_bytes(data)
    found = list(records(segment))
    assert set(found) < {b"a" * 20, b"b" * 20, b"c" * 20}
    assert f"{segment.path} is damaged" in caplog.text
    assert segment.path.with_suffix(".damaged").read_bytes() == data


def test_records_of_another_tag_are_in_another_segment(log_in: LogIn, tmp_path: Path) -> None:
    log = log_in(tmp_path)
    for tag in ("a", "a", "b,c-2", "a"):
        log.append(b"x", 1, tag)
    assert log.tags == {"a", "b,c-2"}
    log.close()
    other = log_in(tmp_path)
    assert other.tags == {"a", "b,c-2"}
    assert len(drained(other)) == 4


def test_a_log_that_is_closed_takes_nothing(log_in: LogIn, tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.close()
    with pytest.raises(LogFull, match="closed"):
        log.append(b"x", 1)


def test_a_folder_that_takes_no_file_is_full(
    log_in: LogIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_in(tmp_path)
    for name in ("sync_folder", "append_synced"):
        with monkeypatch.context() as broken:

            def fail(*_: object) -> None:
                raise OSError(28, "No space left on device")

            broken.setattr(f"crawler.storage.disk_log.{name}", fail)
            with pytest.raises(LogFull, match="No space left"):
                log.append(b"lost", 1)
        log.append(b"kept", 1)
    assert [payload for payload in drained(log) if payload == b"kept"] == [b"kept"] * 2
    assert log.count == 0


def test_a_lock_on_a_file_that_was_deleted_is_none(
    log_in: LogIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock
    stolen: list[DiskLog] = []

    def steal_first(file: object, how: int) -> None:
        """Let another process take the new lock file for one of a dead process, and delete it."""
        if not stolen:
            stolen.append(DiskLog(tmp_path, max_bytes=10**6))
            stolen[0].open()
        flock(file, how)  # type: ignore[arg-type]

    monkeypatch.setattr("crawler.storage.disk_log.fcntl.flock", steal_first)
    log = log_in(tmp_path)
    log.append(b"mine", 1)
    assert stolen[0].adopt() == []
    assert drained(log) == [b"mine"]
    stolen[0].close()


@pytest.mark.parametrize("cut", [1, 5, 15, 19, 25, 43])
def test_a_cut_end_is_no_damage(
    log_in: LogIn, tmp_path: Path, cut: int, caplog: pytest.LogCaptureFixture
) -> None:
    log = log_in(tmp_path)
    log.append(b"a" * 20, 1)
    log.append(b"b" * 20, 1)
    segment = log.oldest()
    assert segment is not None
    data = segment.path.read_bytes()
    segment.path.write_bytes(data[:-cut])
    assert list(records(segment)) == [b"a" * 20]
    assert "ends in the middle of a record" in caplog.text
    assert "damaged" not in caplog.text


def test_a_folder_has_one_identity(log_in: LogIn, tmp_path: Path) -> None:
    first, second = log_in(tmp_path / "a"), log_in(tmp_path / "a")
    assert first.id == second.id
    assert log_in(tmp_path / "b").id != first.id


def test_a_full_disk_gives_no_folder_a_false_identity(log_in: LogIn, tmp_path: Path) -> None:
    with files_of_at_most(0), pytest.raises(OSError, match="File too large"):
        log_in(tmp_path)
    # As earlier versions left it.
    (tmp_path / "id").touch()
    first, second = log_in(tmp_path), log_in(tmp_path)
    assert first.id == second.id
    assert len(first.id) == len(log_in(tmp_path / "b").id)
    assert {path.name for path in tmp_path.glob("id*")} == {"id"}


def test_attempts_to_write_to_a_full_disk_leave_no_files(log_in: LogIn, tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.append(b"before", 1)
    before = log.oldest()
    assert before is not None
    with files_of_at_most(before.size_bytes + 10):
        for _ in range(20):
            with pytest.raises(LogFull, match="File too large"):
                log.append(b"x" * 1000, 1)
    assert list(tmp_path.glob("*.log")) == [before.path]
    log.append(b"after", 1)
    assert drained(log) == [b"before", b"after"]
