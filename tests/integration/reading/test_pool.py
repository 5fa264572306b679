"""Files are read in processes of their own: a bad one costs its own record and nothing else."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from crawler.errors import NotStored
from crawler.parsing.document import Document, Unreadable
from crawler.reading.pool import DocumentPool, PoolLimits
from tests.support.waiting import until, wait_until

URL = "http://h.test/file"
# Far beyond what a reader needs on a busy machine; tests of the limit itself take less.
PATIENT_S = 60.0
READERS = (
    *("title", "document", "unread", "broken", "misspelt", "nothing", "endless", "crash", "killed"),
    *("aborted", "ended", "stopped", "greedy", "fat", "printing", "garbage", "large", "who"),
    "tried",
)
OWN = {f"test/{name}": f"tests.support.readers.{name}" for name in READERS}
Make = Callable[..., DocumentPool]


@pytest.fixture
def stats() -> Counter[str]:
    return Counter()


@pytest.fixture
async def make(stats: Counter[str]) -> AsyncIterator[Make]:
    pools: list[DocumentPool] = []

    def count(stat: str, by: int) -> None:
        stats[stat] += by

    def make(own: dict[str, str] = OWN, **limits: Any) -> DocumentPool:
        given = {"workers": 1, "timeout_s": PATIENT_S, "nice": 0, **limits}
        pools.append(DocumentPool(PoolLimits(**given), own, count=count))
        return pools[-1]

    yield make
    for pool in pools:
        await pool.close()


async def read(pool: DocumentPool, reader: str, body: bytes = b"") -> Document:
    return await pool.read(f"test/{reader}", body, URL)


async def reason_of(pool: DocumentPool, reader: str, body: bytes = b"") -> str:
    with pytest.raises(Unreadable) as error:
        await read(pool, reader, body)
    return error.value.reason


async def test_a_file_gives_its_document(make: Make, stats: Counter[str]) -> None:
    pool = make()
    found = await read(pool, "title", b"Title\n/a\nhttp://h.test/b")
    assert (found.title, found.text) == ("Title", f"at {URL}")
    assert (found.media_type, found.links) == ("test/title", ["/a", "http://h.test/b"])
    found = await read(pool, "document", b"T")
    assert (found.title, found.media_type) == ("T", "application/x-other")
    assert stats["documents/read"] == 2
    assert stats["documents/workers_started"] == 1


@pytest.mark.parametrize("size", [0, 1, 10_000_000])
async def test_a_file_may_have_any_size(make: Make, size: int) -> None:
    assert (await read(make(), "document", b"x" * size)).text == "x" * size


async def test_a_large_answer_arrives_whole(make: Make) -> None:
    assert (await read(make(), "large", b"1000000")).text == "ä" * 1_000_000


@pytest.mark.parametrize(
    ("reader", "body", "reason"),
    [
        ("crash", b"", "crashed"),
        ("ended", b"", "crashed"),
        ("garbage", b"\0\0\0\x01\x90", "crashed"),
        ("garbage", b"\xff\xff\xff\xff", "crashed"),
        ("greedy", b"", "memory"),
        # As the system does when it has no memory left.
        ("killed", b"", "memory"),
        ("aborted", b"", "memory"),
        ("broken", b"x", "failed"),
        ("misspelt", b"", "failed"),
        ("nothing", b"", "failed"),
        ("unread", b"encrypted", "encrypted"),
        ("large", b"20000000", "too_large"),
    ],
)
async def test_a_bad_file_has_a_reason_and_the_next_one_is_read(
    make: Make, stats: Counter[str], reader: str, body: bytes, reason: str
) -> None:
    pool = make()
    assert await reason_of(pool, reader, body) == reason
    assert stats[f"documents/unread/{reason}"] == 1
    assert (await read(pool, "title", b"Next")).title == "Next"


async def test_a_file_that_takes_too_long_is_given_up(make: Make, stats: Counter[str]) -> None:
    pool = make(timeout_s=0.5)
    assert await reason_of(pool, "endless") == "timeout"
    assert stats["documents/read_ms"] >= 500


async def test_a_file_that_hangs_holds_up_no_other_worker(make: Make) -> None:
    pool = make(workers=2)
    hanging = asyncio.create_task(read(pool, "endless"))
    titles = [(await read(pool, "title", b"%d" % number)).title for number in range(10)]
    assert titles == [str(number) for number in range(10)]
    assert not hanging.done()
    hanging.cancel()


async def test_a_file_that_nobody_waits_for_any_more_ends_with_its_worker(make: Make) -> None:
    pool = make()
    hanging = asyncio.create_task(read(pool, "endless"))
    await until(lambda: pool.workers)
    hanging.cancel()
    await until(lambda: not pool.workers)
    assert (await read(pool, "title", b"Next")).title == "Next"


async def test_the_error_of_a_users_reader_is_logged(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    await reason_of(make(), "broken", b"cause")
    assert "tests.support.readers.broken" in caplog.text
    assert "KeyError: 'cause'" in caplog.text


async def test_a_reader_may_print(make: Make) -> None:
    assert (await read(make(), "printing")).title == "printed"


async def test_a_worker_that_died_without_a_file_costs_none(make: Make) -> None:
    pool = make()
    os.kill(int((await read(pool, "who")).title), signal.SIGKILL)
    await until(lambda: not pool.workers)
    assert (await read(pool, "title", b"Next")).title == "Next"


async def test_a_worker_reads_its_file_to_the_end_when_its_crawl_is_asked_to_stop(
    make: Make,
) -> None:
    # Programs that a reader starts end as usual.
    assert (await read(make(), "stopped")).title == str(-signal.SIGTERM)


async def test_a_worker_is_replaced_after_many_files(make: Make) -> None:
    pool = make(files=2)
    workers = [(await read(pool, "who")).title for _ in range(4)]
    assert workers[0] == workers[1] != workers[2] == workers[3]


async def test_a_worker_that_took_much_memory_is_replaced(make: Make) -> None:
    pool = make()
    before = (await read(pool, "who")).title
    assert (await read(pool, "fat")).title == "250000000"
    assert (await read(pool, "who")).title != before


async def test_workers_are_started_when_they_are_needed_and_end_when_they_are_not(
    make: Make,
) -> None:
    pool = make(workers=2, idle_s=0.01)
    assert not pool.workers
    await read(pool, "title")
    await until(lambda: not pool.workers)
    assert (await read(pool, "title", b"Next")).title == "Next"


async def test_files_wait_for_a_worker_and_are_counted_until_then(make: Make) -> None:
    pool = make(waiting_bytes=100_000)
    assert not pool.is_full
    reads = [asyncio.create_task(read(pool, "title", bytes(40_000))) for _ in range(3)]
    await until(lambda: pool.is_full)
    await asyncio.gather(*reads)
    assert not pool.is_full


async def test_files_that_wait_when_the_crawl_ends_are_handed_back(make: Make) -> None:
    pool = make()
    with pytest.raises(NotStored, match=URL):
        await pool.read("test/title", b"", URL, is_closing=lambda: True)
    assert not pool.workers


async def test_no_worker_outlives_its_pool(make: Make) -> None:
    pool = make(workers=2)
    hanging = asyncio.create_task(read(pool, "endless"))
    pid = int((await read(pool, "who")).title)
    await pool.close()
    assert not pool.workers
    assert not is_running(pid)
    with pytest.raises(Unreadable):
        await hanging


async def test_a_worker_that_cannot_be_started_costs_the_file_alone(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = make()
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert await reason_of(pool, "title") == "failed"


async def test_a_worker_whose_limits_cannot_be_set_says_so(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    assert await reason_of(make(memory_bytes=2**70), "title") == "failed"
    assert "no process could be started (its limits cannot be set:" in caplog.text


# --- what a worker has, and may do ---------------------------------------------------------------


async def test_a_worker_has_no_descriptors_and_no_secrets_of_the_crawl(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MONGO_URI", "mongodb://user:password@h.test")
    inherited = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(inherited, True)
    try:
        found = await read(make(nice=7), "who")
    finally:
        os.close(inherited)
    # Standard input, output and errors, its two pipes, and the folder that it looks into.
    assert len(found.links) == 6
    assert "MONGO_URI" not in found.headings
    assert int(found.description) >= 7


async def test_a_worker_takes_little_memory(make: Make) -> None:
    found = await read(make(), "who")
    peak_kb = next(line.split()[1] for line in found.text.splitlines() if "VmHWM" in line)
    assert int(peak_kb) < 60_000


def test_where_there_are_only_our_readers_they_write_no_file(tmp_path: Path) -> None:
    job = DocumentPool(PoolLimits(), {}).job.to_argument()
    code = (
        "import sys; from crawler.reading import worker; from tests.support import readers;"
        "worker._give_up_rights(worker.Job.from_argument(sys.argv[1]));"
        "print(readers.tried(b'', sys.argv[2]))"
    )
    command = [sys.executable, "-c", code, job, str(tmp_path / "file")]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    assert "write" not in done.stdout
    assert "socket" not in done.stdout
    if os.getuid() != 0:
        assert "start" not in done.stdout


KILLED = """
import asyncio, sys
from crawler.reading.pool import DocumentPool, PoolLimits

async def main():
    pool = DocumentPool(PoolLimits(timeout_s=600), {
        "test/endless": "tests.support.readers.endless", "test/who": "tests.support.readers.who",
    })
    hanging = asyncio.ensure_future(pool.read("test/endless", b"", ""))
    idle = await pool.read("test/who", b"", "")
    print(*(worker.pid for worker in pool.workers), flush=True)
    await hanging

asyncio.run(main())
"""


def test_no_worker_outlives_a_crawl_that_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        workers = [int(pid) for pid in process.stdout.readline().split()]
        assert len(workers) == 2
        assert all(map(is_running, workers))
        process.send_signal(signal.SIGKILL)
    wait_until(lambda: not any(map(is_running, workers)), "the workers have ended")


def is_running(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    # A zombie has ended; who reaps it does not matter.
    return status.rpartition(")")[2].split()[0] != "Z"
