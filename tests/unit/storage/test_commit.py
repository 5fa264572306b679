"""Group commit: what waits is written together, one batch at a time, and each page hears how."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from crawler.errors import NotStored, SinkAway
from crawler.servers.health import ServerHealth
from crawler.storage.commit import GroupCommit, RetryingWriter
from crawler.storage.sink import Results

# Longer than any test: what is written was not waited for.
FOR_EVER_S = 3600.0


class Disk:
    """Takes batches of numbers, one at a time, when it is let; some numbers may be refused."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.errors: dict[int, Exception] = {}
        self.faults: dict[int, Exception] = {}
        self.is_asked = asyncio.Event()
        self.is_free = asyncio.Event()
        self.is_free.set()
        self._is_busy = False

    async def write(self, numbers: Sequence[int]) -> Results:
        assert not self._is_busy
        self._is_busy = True
        self.batches.append(list(numbers))
        self.is_asked.set()
        try:
            await self.is_free.wait()
            for number in numbers:
                if number in self.errors:
                    raise self.errors[number]
            return {i: self.faults[n] for i, n in enumerate(numbers) if n in self.faults}
        finally:
            self._is_busy = False


@pytest.fixture
async def disk() -> Disk:
    return Disk()


def commit_to(disk: Disk, **options: Any) -> GroupCommit[int]:
    values = {"batch_max": 100, "batch_max_bytes": 1000, "linger_s": 0.0, **options}
    return GroupCommit(disk.write, **values)


def put(commit: GroupCommit[int], *numbers: int) -> list[asyncio.Future[Any]]:
    return [commit.put(number, 1) for number in numbers]


async def outcomes(futures: list[asyncio.Future[Any]]) -> list[BaseException | None]:
    async with asyncio.timeout(30):
        return await asyncio.gather(*futures, return_exceptions=True)


async def test_what_came_while_a_batch_was_written_is_the_next_batch(disk: Disk) -> None:
    commit = commit_to(disk)
    disk.is_free.clear()
    futures = put(commit, 1)
    await disk.is_asked.wait()
    futures += put(commit, 2, 3)
    futures += put(commit, 4)
    assert not any(future.done() for future in futures)
    disk.is_free.set()
    assert await outcomes(futures) == [None] * 4
    assert disk.batches == [[1], [2, 3, 4]]


async def test_a_batch_has_so_many_pages_and_bytes_and_at_least_one_page(disk: Disk) -> None:
    commit = commit_to(disk, batch_max=3, batch_max_bytes=10)
    sizes = [1, 1, 1, 6, 6, 50, 4, 6, 1]
    futures = [commit.put(number, size) for number, size in enumerate(sizes)]
    assert await outcomes(futures) == [None] * len(sizes)
    assert disk.batches == [[0, 1, 2], [3], [4], [5], [6, 7], [8]]


async def test_a_small_batch_waits_for_more_until_it_is_worth_writing(disk: Disk) -> None:
    commit = commit_to(disk, batch_max=3, linger_s=FOR_EVER_S)
    futures = put(commit, 1, 2)
    for _ in range(10):
        await asyncio.sleep(0)
    assert disk.batches == []
    futures += put(commit, 3)
    assert await outcomes(futures) == [None] * 3
    assert disk.batches == [[1, 2, 3]]


async def test_a_small_batch_waits_no_longer_than_it_is_told(disk: Disk) -> None:
    commit = commit_to(disk, linger_s=0.01)
    assert await outcomes(put(commit, 1)) == [None]


async def test_draining_writes_at_once_what_waits_and_what_comes_after(disk: Disk) -> None:
    commit = commit_to(disk, linger_s=FOR_EVER_S)
    futures = put(commit, 1)
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        await commit.drain()
    assert futures[0].done()
    assert await outcomes(put(commit, 2)) == [None]
    assert disk.batches == [[1], [2]]
    await commit.drain()


async def test_the_next_batch_is_written_before_all_who_waited_have_gone_on(disk: Disk) -> None:
    commit = commit_to(disk, batch_max=64)
    first, second = put(commit, *range(64)), put(commit, *range(64, 128))
    seen: list[int] = []
    first[-1].add_done_callback(lambda _: seen.append(len(disk.batches)))
    assert await outcomes(first + second) == [None] * 128
    assert seen == [2]


async def test_what_those_who_waited_bring_is_written_too(disk: Disk) -> None:
    commit = commit_to(disk)
    later: list[asyncio.Future[Any]] = []
    for number, future in enumerate(put(commit, 1, 2, 3)):
        future.add_done_callback(lambda _, n=number: later.extend(put(commit, 10 + n)))
    async with asyncio.timeout(30):
        while len(later) < 3:  # noqa: ASYNC110 - the writer works meanwhile
            await asyncio.sleep(0)
    assert await outcomes(later) == [None] * 3


async def test_a_page_at_fault_fails_alone(disk: Disk) -> None:
    fault = disk.faults[2] = ValueError("too large")
    assert await outcomes(put(commit_to(disk), 1, 2, 3)) == [None, fault, None]


async def test_what_waits_and_since_when_is_known(disk: Disk) -> None:
    commit = commit_to(disk)
    assert (commit.waiting, commit.oldest_s) == (0, None)
    disk.is_free.clear()
    futures = put(commit, 1)
    await disk.is_asked.wait()
    first_s = commit.oldest_s
    futures += put(commit, 2, 3)
    assert (commit.waiting, commit.oldest_s) == (3, first_s)
    disk.is_free.set()
    await outcomes(futures)
    await commit.drain()
    assert (commit.waiting, commit.oldest_s) == (0, None)


async def test_of_a_batch_that_failed_each_page_is_tried_alone(disk: Disk) -> None:
    error = disk.errors[2] = ValueError("no BSON")
    assert await outcomes(put(commit_to(disk), 1, 2, 3)) == [None, error, None]
    assert disk.batches == [[1, 2, 3], [1], [2], [3]]


@pytest.mark.parametrize("error", [NotStored("It does not answer."), SinkAway("It is away.")])
async def test_what_a_sink_that_is_away_did_not_take_is_not_tried_alone(
    disk: Disk, error: Exception
) -> None:
    disk.errors[2] = error
    assert await outcomes(put(commit_to(disk), 1, 2, 3)) == [error] * 3
    assert disk.batches == [[1, 2, 3]]


async def test_nobody_waits_for_a_page_that_was_cancelled(disk: Disk) -> None:
    commit = commit_to(disk)
    disk.is_free.clear()
    first, second = put(commit, 1, 2)
    await disk.is_asked.wait()
    first.cancel()
    disk.is_free.set()
    assert await outcomes([second, *put(commit, 3)]) == [None, None]


# --- repeated writes ------------------------------------------------------------------------------


class Server:
    """Fails so many writes before one works."""

    def __init__(self, failures: int, error: Exception | None = None) -> None:
        self.failures = failures
        self.error = error or ConnectionError("away")
        self.states: list[str] = []
        self.is_closing = False
        self.health = ServerHealth("The sink x", str)
        self.writer = RetryingWriter(
            *("pages", self.health),
            is_away=lambda error: isinstance(error, OSError),
            is_closing=lambda: self.is_closing,
            timeout_s=60,
            on_change=self.states.append,
        )

    async def send(self) -> str:
        if self.failures:
            self.failures -= 1
            raise self.error
        return "written"


async def test_a_write_is_repeated_until_it_works() -> None:
    server = Server(failures=3)
    async with asyncio.timeout(30):
        assert await server.writer.write(server.send) == "written"
    assert server.states[-1] == "closed"
    assert "open" in server.states
    assert not server.health.away


async def test_an_error_that_does_not_pass_is_raised_at_once() -> None:
    server = Server(1, ValueError("no BSON"))
    with pytest.raises(ValueError, match="no BSON"):
        await server.writer.write(server.send)
    assert server.states == []


async def test_an_impatient_caller_hears_of_a_breaker_that_is_open() -> None:
    server = Server(failures=100)
    async with asyncio.timeout(30):
        with pytest.raises(SinkAway, match="The sink x is away"):
            await server.writer.write(server.send, is_patient=False)
        left = server.failures
        with pytest.raises(SinkAway):
            await server.writer.write(server.send, is_patient=False)
    # The second one did not even try: somebody patient has to find out that it is back.
    assert left == server.failures == 98


async def test_a_server_that_is_away_when_the_crawl_ends_is_given_up_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("crawler.storage.commit._GIVE_UP_S", 0.05)
    server = Server(failures=1000)
    server.is_closing = True
    async with asyncio.timeout(30):
        with pytest.raises(NotStored, match="The sink x does not answer"):
            await server.writer.write(server.send)
    assert "pages that are not stored go back to the frontier" in caplog.text
    with pytest.raises(NotStored, match="given up"):
        await server.writer.write(server.send)


async def test_a_server_that_is_given_up_on_is_not_called_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("crawler.storage.commit._GIVE_UP_S", 0.0)
    monkeypatch.setattr("crawler.storage.commit._POLL_S", 0.01)
    server = Server(failures=1)

    async def send() -> str:
        # The second attempt has no answer, and the crawl ends meanwhile.
        if not server.failures:
            server.is_closing = True
            await asyncio.sleep(FOR_EVER_S)
        return await server.send()

    async with asyncio.timeout(30):
        with pytest.raises(NotStored, match="The sink x does not answer"):
            await server.writer.write(send)
    assert server.health.away
    assert "is back after" not in caplog.text
