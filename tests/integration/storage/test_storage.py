"""All sinks of a crawl: each gets every page, whatever becomes of the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pytest
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from crawler.errors import ConfigurationError, NotStored, ServerAway, SinkAway
from crawler.frontier.on_disk import OnDisk
from crawler.items import Page
from crawler.servers.redis.connection import Client
from crawler.storage.sink import RejectedMessage, Results, Sink
from crawler.storage.spool import Spool
from crawler.storage.storage import STORE_STATE, BatchLimits, Storage
from tests.support.full_disk import files_of_at_most
from tests.support.sinks import MemorySink, page
from tests.unit.storage.warc.pages import exchange

AWAY = ConnectionError("nobody listens")


class Stores:
    """Storages of a test, each with sinks in memory, and what they asked for."""

    def __init__(self) -> None:
        self.stats = MemoryStatsCollector(get_crawler())
        self.pauses: list[bool] = []
        self.is_closing = False
        self._opened: list[Storage] = []

    async def open(
        self,
        spool: Path | None = None,
        *,
        registry: OnDisk | None = None,
        max_bytes: int = 10**9,
        **sinks: Sink,
    ) -> Storage:
        def is_closing() -> bool:
            return self.is_closing

        found = Storage(
            *(sinks, self.stats, BatchLimits(linger_s=0.0)),
            is_closing=is_closing,
            spool=spool and Spool(spool, max_bytes=max_bytes, is_closing=is_closing),
        )
        found.pause = self.pauses.append
        self._opened.append(found)
        await found.open(registry)
        return found

    async def crash(self, storage: Storage) -> None:
        """End a storage as a kill does: nothing is written any more, and its locks are given up."""
        self._opened.remove(storage)
        if storage._draining is not None:
            storage._draining.cancel()
        assert storage.spool is not None
        for file in storage.spool._log._log._locks.values():
            file.close()

    async def close(self) -> None:
        self.is_closing = True
        for storage in self._opened:
            await storage.close()


@pytest.fixture
async def stores(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stores]:
    # The end of a crawl gives a sink so much time to answer.
    monkeypatch.setattr("crawler.storage.commit._GIVE_UP_S", 0.2)
    found = Stores()
    yield found
    await found.close()


def put(storage: Storage, *numbers: int) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(storage.put(page(number))) for number in numbers]


async def done(tasks: list[asyncio.Task[None]]) -> list[Any]:
    async with asyncio.timeout(60):
        return await asyncio.gather(*tasks, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - several objects, none of which has an event
            await asyncio.sleep(0.01)


def urls(*numbers: int) -> set[str]:
    return {page(number).url for number in numbers}


# --- several sinks --------------------------------------------------------------------------------


async def test_every_sink_gets_every_page(stores: Stores) -> None:
    a, b = MemorySink(), MemorySink()
    storage = await stores.open(a=a, b=b)
    assert await done(put(storage, *range(300))) == [None] * 300
    assert set(a.pages) == set(b.pages) == urls(*range(300))
    assert stores.stats.get_value("sink/pages/a") == 300
    assert stores.stats.get_value("store/pages") == 300


async def test_records_are_written_with_the_places_of_bodies(stores: Stores) -> None:
    bodies, records = MemorySink(bodies=True), MemorySink()
    # In whichever order they are named.
    storage = await stores.open(records=records, bodies=bodies)
    assert await done(put(storage, 1, 2)) == [None, None]
    assert bodies.places == {url: {} for url in urls(1, 2)}
    assert {place["bodies"]["file"] for place in records.places.values()} == {"x.warc.gz"}


async def test_a_page_waits_for_the_slowest_sink(stores: Stores) -> None:
    quick, slow = MemorySink(), MemorySink()
    slow.is_free.clear()
    storage = await stores.open(quick=quick, slow=slow)
    tasks = put(storage, 1)
    await until(lambda: bool(quick.pages))
    assert not tasks[0].done()
    slow.is_free.set()
    assert await done(tasks) == [None]


async def test_while_one_is_away_fetching_pauses_and_nothing_is_lost(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    there, away = MemorySink(), MemorySink()
    away.error = AWAY
    storage = await stores.open(there=there, away=away)
    tasks = put(storage, *range(50))
    await until(lambda: True in stores.pauses)
    assert stores.stats.get_value(STORE_STATE) == "away"
    assert "The sink away is away" in caplog.text
    assert not any(task.done() for task in tasks)
    away.error = None
    assert await done(tasks) == [None] * 50
    assert stores.pauses[-1] is False
    assert stores.stats.get_value(STORE_STATE) == "ok"
    assert "The sink away is back" in caplog.text
    assert set(there.pages) == set(away.pages) == urls(*range(50))
    assert len(there.writes) == 50


async def test_one_failure_is_no_outage(stores: Stores) -> None:
    sink = MemorySink()
    sink.error = AWAY
    storage = await stores.open(sink=sink)
    tasks = put(storage, 1)
    await until(lambda: stores.stats.get_value("sink/failed_writes/sink", 0) >= 1)
    sink.error = None
    assert await done(tasks) == [None]
    assert stores.stats.get_value(STORE_STATE) == "ok"


async def test_a_sink_that_hangs_is_away(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemorySink, "timeout_s", 0.1)
    monkeypatch.setattr("crawler.storage.commit._POLL_S", 0.05)
    sink = MemorySink()
    sink.is_free.clear()
    storage = await stores.open(sink=sink)
    tasks = put(storage, 1, 2)
    await until(lambda: True in stores.pauses)
    sink.is_free.set()
    assert await done(tasks) == [None, None]


async def test_a_page_that_one_refuses_is_in_the_others_and_fails(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    a, choosy = MemorySink(), MemorySink()
    choosy.refused = urls(2)
    storage = await stores.open(a=a, choosy=choosy)
    one, two, three = await done(put(storage, 1, 2, 3))
    assert (one, three) == (None, None)
    assert isinstance(two, ValueError)
    assert "The sink choosy did not take http://a.test/2" in caplog.text
    assert set(a.pages) == urls(1, 2, 3)
    assert stores.stats.get_value("store/pages") == 2


async def test_at_the_end_of_a_crawl_a_sink_that_is_away_is_given_up_on(stores: Stores) -> None:
    there, away = MemorySink(), MemorySink()
    away.error = AWAY
    storage = await stores.open(there=there, away=away)
    tasks = put(storage, 1, 2)
    stores.is_closing = True
    assert {type(result) for result in await done(tasks)} == {NotStored}


async def test_a_sink_that_cannot_be_opened_is_named(stores: Stores) -> None:
    class Broken(MemorySink):
        async def open(self) -> None:
            raise PermissionError("not yours")

    with pytest.raises(ServerAway, match=r"The sink broken cannot be opened \(not yours\)"):
        await stores.open(broken=Broken())


async def test_an_unexpected_error_of_open_is_a_mistake_and_only_what_is_open_is_closed(
    stores: Stores,
) -> None:
    class Broken(MemorySink):
        async def open(self) -> None:
            raise KeyError("table")

        async def close(self) -> None:
            raise AssertionError("it was never opened")

    with pytest.raises(ConfigurationError, match=r"broken cannot be opened \(KeyError: 'table'\)"):
        await stores.open(broken=Broken())


@pytest.mark.parametrize("answer", [True, [None], {9: {"file": "x"}}, {"a": {}}, {0: "x"}])
async def test_an_answer_of_write_that_says_nothing_is_an_error(
    stores: Stores, answer: Any
) -> None:
    class Odd(MemorySink):
        async def write(self, pages: Sequence[Page]) -> Results | None:
            return answer  # type: ignore[no-any-return]

    storage = await stores.open(odd=Odd())
    (error,) = await done(put(storage, 1))
    assert isinstance(error, TypeError)
    assert "write() of the sink odd returns" in str(error)


async def test_urls_without_a_page_and_pages_that_are_not_kept_are_counted(stores: Stores) -> None:
    storage = await stores.open(sink=MemorySink())
    for number, fields in enumerate(
        [{}, {"duplicate_of": "0" * 16}, {"stored": False}, {"status": 0, "stored": False}]
    ):
        await storage.put(page(number, **fields))
    stats = stores.stats.get_stats()
    counted = {name: stats[f"store/{name}"] for name in ("pages", "records", "failed_urls")}
    assert counted == {"pages": 1, "records": 3, "failed_urls": 1}
    assert stats["store/not_kept"] == 1


# --- the spool ------------------------------------------------------------------------------------


async def test_pages_for_a_sink_that_is_away_are_stored_by_the_spool(
    stores: Stores, tmp_path: Path
) -> None:
    there, away = MemorySink(), MemorySink()
    away.error = AWAY
    storage = await stores.open(tmp_path, there=there, away=away)
    assert await done(put(storage, *range(50))) == [None] * 50
    assert storage.spooled == 50
    assert True not in stores.pauses
    assert stores.stats.get_value(STORE_STATE) == "spooling"
    there_report, away_report = storage.report()["sinks"]
    assert (there_report["state"], away_report["state"]) == ("ok", "away")
    assert there_report["lag_s"] == 0
    assert storage.report()["spooled_pages"] == 50
    # The other sink does not wait.
    assert set(there.pages) == urls(*range(50))
    away.error = None
    await until(lambda: stores.stats.get_value(STORE_STATE) == "ok")
    assert storage.spooled == 0
    assert set(away.pages) == urls(*range(50))
    assert len(there.writes) == 50
    assert await done(put(storage, 51)) == [None]
    assert stores.stats.get_value(STORE_STATE) == "ok"
    assert stores.stats.get_value("spool/pages") == 50


async def test_a_page_comes_out_of_the_spool_as_it_went_in(stores: Stores, tmp_path: Path) -> None:
    given = page(
        1,
        body=bytes(range(256)) * 10,
        text="Gr\u00fc\u00dfe \N{GRINNING FACE}",
        headers={"x": "y"},
        extra={"price": 1.5, "deep": {"list": [1, None]}, 3: "number"},
        links=["http://a.test/2"],
        discovered_at=page(1).crawled_at,
        duplicate_distance=2,
        parent_url="http://a.test/",
    )
    given.items = [{"name": "a"}]
    given.places = {"warc": {"file": "x", "offset": 3}}
    given.exchange = exchange(head=b"HTTP/1.1 200 \xff\r\n\r\n")
    sink = MemorySink()
    sink.error = AWAY
    storage = await stores.open(tmp_path, sink=sink)
    await storage.put(given)
    sink.error = None
    await until(lambda: storage.spooled == 0)
    (found,) = sink.pages.values()
    assert found == given
    assert list(found.items) == given.items
    assert found.places == given.places
    assert found.exchange == given.exchange._replace(protocols=["http/1.1"])


async def test_pages_that_come_while_the_spool_is_drained_stay_in_order(
    stores: Stores, tmp_path: Path
) -> None:
    sink = MemorySink()
    sink.error = AWAY
    storage = await stores.open(tmp_path, sink=sink)
    await storage.put(page(1, title="old"))
    sink.is_free.clear()
    sink.error = None
    # Its sink is being written to, by what was spooled before.
    await storage.put(page(1, title="new"))
    sink.is_free.set()
    await until(lambda: storage.spooled == 0)
    assert [found.title for found in sink.pages.values()] == ["new"]
    assert len(sink.writes) == 2


async def test_a_spool_that_is_full_pauses_fetching(stores: Stores, tmp_path: Path) -> None:
    sink = MemorySink()
    sink.error = AWAY
    storage = await stores.open(tmp_path, max_bytes=2000, sink=sink)
    tasks = put(storage, *range(1000))
    await until(lambda: True in stores.pauses)
    assert stores.stats.get_value(STORE_STATE) == "away"
    assert not all(task.done() for task in tasks)
    sink.error = None
    assert await done(tasks) == [None] * 1000
    await until(lambda: storage.spooled == 0)
    assert set(sink.pages) == urls(*range(1000))
    assert stores.pauses[-1] is False


async def test_a_spool_without_any_room_is_as_good_as_none(stores: Stores, tmp_path: Path) -> None:
    sink = MemorySink()
    sink.error = AWAY
    storage = await stores.open(tmp_path, max_bytes=1, sink=sink)
    tasks = put(storage, *range(20))
    await until(lambda: True in stores.pauses)
    sink.error = None
    assert await done(tasks) == [None] * 20
    assert stores.pauses[-1] is False
    assert stores.stats.get_value(STORE_STATE) == "ok"


async def test_a_page_with_odd_values_is_spooled_with_plain_ones(
    stores: Stores, tmp_path: Path
) -> None:
    sink = MemorySink()
    sink.error = AWAY
    storage = await stores.open(tmp_path, sink=sink)
    naive = page(1).crawled_at.replace(tzinfo=None)
    odd = {"set": {1}, "price": Decimal("1.5"), "at": naive, "text": "\ud800"}
    async with asyncio.timeout(60):
        await storage.put(page(1, extra=odd))
    sink.error = None
    await until(lambda: storage.spooled == 0)
    (found,) = sink.pages.values()
    plain = {"set": [1], "price": "1.5", "at": page(1).crawled_at, "text": "\ud800"}
    assert found.extra == plain


async def test_a_page_that_cannot_be_spooled_fails_alone_and_pauses_nothing(
    stores: Stores, tmp_path: Path
) -> None:
    sink = MemorySink()
    sink.error = AWAY
    storage = await stores.open(tmp_path, sink=sink)
    endless: dict[str, Any] = {}
    endless["again"] = endless
    tasks = [asyncio.create_task(storage.put(page(1, extra=endless))), *put(storage, 2)]
    odd, other = await done(tasks)
    assert isinstance(odd, ValueError)
    assert other is None
    assert True not in stores.pauses


async def test_what_a_dead_process_spooled_is_written_by_the_next_one(
    stores: Stores, tmp_path: Path, redis_client: Client
) -> None:
    registry = OnDisk(redis_client, "web")
    sink = MemorySink()
    sink.error = AWAY
    first = await stores.open(tmp_path, registry=registry, sink=sink)
    assert await done(put(first, *range(20))) == [None] * 20
    elsewhere = await stores.open(tmp_path / "other", registry=registry, sink=MemorySink())
    # Not over for any process, on whichever machine.
    ((name, place),) = (await registry.places()).items()
    assert str(tmp_path) in place
    await first.refresh()
    await elsewhere.refresh()
    assert name in first.names
    assert name not in elsewhere.names
    await stores.crash(first)
    sink.error = None
    later = MemorySink()
    second = await stores.open(tmp_path, registry=registry, sink=later)
    await until(lambda: second.spooled == 0)
    assert set(later.pages) == urls(*range(20))
    assert await registry.places() == {}


async def test_what_a_process_spooled_that_dies_later_is_found_too(
    stores: Stores, tmp_path: Path, redis_client: Client
) -> None:
    registry = OnDisk(redis_client, "web")
    sink, later = MemorySink(), MemorySink()
    sink.error = AWAY
    first = await stores.open(tmp_path, registry=registry, sink=sink)
    second = await stores.open(tmp_path, registry=registry, sink=later)
    assert await done(put(first, 1)) == [None]
    await second.refresh()
    assert not second.names & (await registry.places()).keys()
    await stores.crash(first)
    second.adopt_soon()
    await until(lambda: set(later.pages) == urls(1) and not second.spooled)
    assert await registry.places() == {}


async def test_a_file_without_a_whole_page_holds_up_no_crawl(
    stores: Stores, tmp_path: Path, redis_client: Client
) -> None:
    registry = OnDisk(redis_client, "web")
    sink = MemorySink()
    sink.error = AWAY
    first = await stores.open(tmp_path, registry=registry, sink=sink)
    assert await done(put(first, 1)) == [None]
    # Its process died while it wrote the first record.
    assert first.spool is not None
    (segment,) = first.spool._log._log._segments
    await asyncio.to_thread(segment.path.write_bytes, b"LOG")
    await stores.crash(first)
    second = await stores.open(tmp_path, registry=registry, sink=MemorySink())
    await second.refresh()
    async with asyncio.timeout(30):
        while await registry.places():  # noqa: ASYNC110 - Redis tells nobody
            await asyncio.sleep(0.01)


async def test_a_crash_while_the_spool_is_drained_repeats_and_loses_nothing(
    stores: Stores, tmp_path: Path
) -> None:
    sink = MemorySink()
    sink.error = AWAY
    first = await stores.open(tmp_path, sink=sink)
    assert await done(put(first, *range(500))) == [None] * 500
    sink.error = None
    await until(lambda: bool(sink.pages))
    await stores.crash(first)
    later = MemorySink()
    second = await stores.open(tmp_path, sink=later)
    await until(lambda: second.spooled == 0)
    assert set(sink.pages) | set(later.pages) == urls(*range(500))


async def test_at_the_end_of_a_run_the_spool_keeps_what_its_sink_lacks(
    stores: Stores, tmp_path: Path
) -> None:
    sink = MemorySink()
    sink.error = AWAY
    storage = await stores.open(tmp_path, sink=sink)
    assert await done(put(storage, *range(20))) == [None] * 20
    await stores.close()
    stores.is_closing = False
    later = MemorySink()
    again = await stores.open(tmp_path, sink=later)
    await until(lambda: again.spooled == 0)
    assert set(later.pages) == urls(*range(20))


async def test_a_spooled_page_that_its_sink_refuses_is_set_aside(
    stores: Stores, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = MemorySink()
    sink.error = AWAY
    storage = await stores.open(tmp_path, sink=sink)
    assert await done(put(storage, 1, 2, 3)) == [None] * 3
    sink.refused = urls(2)
    sink.error = None
    await until(lambda: storage.spooled == 0)
    assert set(sink.pages) == urls(1, 3)
    assert "did not take http://a.test/2, which was spooled" in caplog.text
    assert stores.stats.get_value("spool/refused") == 1
    assert f"It is kept in {tmp_path}/refused_" in caplog.text


async def test_bodies_that_wait_in_the_spool_keep_their_records_there(
    stores: Stores, tmp_path: Path
) -> None:
    bodies, records = MemorySink(bodies=True), MemorySink()
    bodies.error = AWAY
    storage = await stores.open(tmp_path, bodies=bodies, records=records)
    assert await done(put(storage, 1, 2)) == [None, None]
    # A record would not know where its page lies.
    assert records.pages == {}
    bodies.error = None
    await until(lambda: storage.spooled == 0)
    assert all("bodies" in place for place in records.places.values())
    assert set(records.pages) == urls(1, 2)


async def test_a_crawl_does_not_start_without_a_sink_that_lacks_spooled_pages(
    stores: Stores, tmp_path: Path
) -> None:
    sink = MemorySink()
    sink.error = AWAY
    storage = await stores.open(tmp_path, gone=sink, other=MemorySink())
    assert await done(put(storage, 1)) == [None]
    await stores.crash(storage)
    with pytest.raises(ConfigurationError, match=r"pages for the sink gone, which SINKS does not"):
        await stores.open(tmp_path, other=MemorySink())


async def test_only_a_sink_that_lacks_spooled_pages_lags_after_a_restart(
    stores: Stores, tmp_path: Path
) -> None:
    sink = MemorySink()
    sink.error = AWAY
    first = await stores.open(tmp_path, away=sink, there=MemorySink())
    assert await done(put(first, 1)) == [None]
    await stores.crash(first)
    there = MemorySink()
    second = await stores.open(tmp_path, away=sink, there=there)
    assert await done(put(second, 2)) == [None]
    assert set(there.pages) == urls(2)
    sink.error = None
    await until(lambda: second.spooled == 0)
    assert set(sink.pages) == urls(1, 2)


class StrictSink(MemorySink):
    """Notices if it is written to by two at a time, or after it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.is_busy = False

    async def write(self, pages: Sequence[Page]) -> Results | None:
        assert self.is_open
        assert not self.is_busy
        self.is_busy = True
        try:
            await asyncio.sleep(0.001)
            return await super().write(pages)
        finally:
            self.is_busy = False


async def test_a_sink_gets_one_batch_at_a_time_also_after_a_spool_was_taken_over(
    stores: Stores, tmp_path: Path
) -> None:
    away, strict = MemorySink(), StrictSink()
    away.error = AWAY
    first = await stores.open(tmp_path, sink=away)
    second = await stores.open(tmp_path, sink=strict)
    assert await done(put(first, *range(300))) == [None] * 300
    await stores.crash(first)
    tasks = put(second, *range(300, 600))
    second.adopt_soon()
    assert await done(tasks) == [None] * 300
    await until(lambda: set(strict.pages) == urls(*range(600)))


async def test_what_is_being_stored_is_stored_before_sinks_are_closed(stores: Stores) -> None:
    records, bodies = StrictSink(), MemorySink(bodies=True)
    bodies.is_free.clear()
    storage = await stores.open(records=records, bodies=bodies)
    tasks = put(storage, 1, 2)
    await asyncio.sleep(0)
    closing = asyncio.create_task(storage.close())
    await asyncio.sleep(0)
    bodies.is_free.set()
    assert await done([*tasks, closing]) == [None] * 3
    assert set(records.pages) == urls(1, 2)


async def test_a_sink_may_say_itself_that_it_is_away(stores: Stores) -> None:
    class Moody(MemorySink):
        moods: ClassVar[list[Any]] = [SinkAway("not now"), {0: SinkAway("not this one now")}, None]

        def is_away(self, error: Exception) -> bool:
            return False

        async def write(self, pages: Sequence[Page]) -> Results | None:
            mood = self.moods.pop(0) if self.moods else None
            if isinstance(mood, Exception):
                raise mood
            return mood or await super().write(pages)

    sink = Moody()
    storage = await stores.open(sink=sink)
    assert await done(put(storage, 1)) == [None]
    assert set(sink.pages) == urls(1)


class Choosy(MemorySink):
    """Wants rejected messages and the end of the crawl; the first attempts fail."""

    wants_rejected = True
    wants_end = True

    def __init__(self) -> None:
        super().__init__()
        self.failures = 2
        self.taken: list[Any] = []

    async def reject(self, messages: Sequence[RejectedMessage]) -> None:
        if self.failures:
            self.failures -= 1
            raise ConnectionError
        self.taken += messages

    async def crawl_ended(self, summary: Any) -> None:
        self.taken.append(summary)


async def test_only_sinks_that_want_them_get_rejected_messages_and_the_end(stores: Stores) -> None:
    plain = await stores.open(a=MemorySink())
    assert (plain.wants_rejected, plain.wants_end) == (False, False)
    sink, message = Choosy(), RejectedMessage("no_url", "?", "seeds", 0, 7)
    storage = await stores.open(a=MemorySink(), b=sink)
    assert (storage.wants_rejected, storage.wants_end) == (True, True)
    # An outage is waited for, as with pages.
    await storage.reject([message])
    await storage.crawl_ended({"pages": 1})
    assert sink.taken == [message, {"pages": 1}]


async def test_the_end_waits_only_briefly_for_a_sink_that_is_away(
    stores: Stores, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Silent(Choosy):
        async def crawl_ended(self, summary: Any) -> None:
            await asyncio.sleep(3600)

    monkeypatch.setattr("crawler.storage.storage._END_AWAY_S", 0.01)
    storage = await stores.open(sink=Silent())
    storage.writers[0].health.failed("pages", ConnectionError("gone"))
    async with asyncio.timeout(30):
        await storage.crawl_ended({"pages": 1})
    assert "it has 0.01 s to take note that the crawl has ended" in caplog.text
    assert "was not told that the crawl has ended (no answer within 0.01 s)" in caplog.text
    assert "is back after" not in caplog.text


async def test_what_a_sink_prepares_need_not_have_a_size(stores: Stores) -> None:
    class Rows(MemorySink):
        def prepare(self, page: Page) -> Any:
            return {"url": page.url}

        async def write(self, rows: Sequence[dict[str, str]]) -> None:
            self.writes += [row["url"] for row in rows]

    sink = Rows()
    storage = await stores.open(sink=sink)
    assert await done(put(storage, 1)) == [None]
    assert set(sink.writes) == urls(1)


async def test_a_folder_that_cannot_be_used_is_named(stores: Stores, tmp_path: Path) -> None:
    file = tmp_path / "file"
    await asyncio.to_thread(file.write_text, "")
    with pytest.raises(ConfigurationError, match=r"SPOOL_DIR: .*file/web cannot be used"):
        await stores.open(file / "web", sink=MemorySink())


async def test_a_start_without_room_for_the_spool_is_to_be_tried_again(
    stores: Stores, tmp_path: Path
) -> None:
    with files_of_at_most(0), pytest.raises(ServerAway, match=r"spool.* no room .*free some space"):
        await stores.open(tmp_path / "spool", sink=MemorySink())


def test_a_page_has_the_fields_that_the_spool_packs() -> None:
    """A new attribute outside the fields must be packed, too, or be of no use to sinks."""
    from crawler.items import _Transient
    from crawler.storage.spool import _MORE

    process_only = {"blocks", "earlier", "written", "lease", "is_kept"}
    process_only |= {"article", "sketch", "anchors", "link_points", "points_by_link", "link_times"}
    named = {name for name in vars(_Transient) if not name.startswith("_")}
    assert named == {*_MORE} | process_only
    assert Page.__dataclass_fields__.keys() >= {"crawl", "url_hash"}
