"""Give each page to all sinks of the crawl; a page is stored when every sink has it.

    page ─▶ sinks of bodies ─places─▶ sinks of records ─▶ stored
                 └──── one is away ────▶ spool ─▶ stored, and written later

    SinkWriter  one sink: its batches, repeated writes, breaker and counters
    Storage     all sinks of a crawl, and the spool

While a sink is away, its pages wait in memory, and fetching pauses. With a spool they are kept
on disk instead, up to its size. What is spooled is written first when the sink is back: until
then later pages for this sink go to the spool, too, so that each sink gets pages in their order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from crawler import config
from crawler.errors import ConfigurationError, CrawlerError, NotStored, ServerAway, SinkAway
from crawler.servers.health import PAGES, ServerHealth
from crawler.servers.redis.errors import RedisAway
from crawler.storage.commit import GroupCommit, RetryingWriter
from crawler.storage.spool import Spool
from crawler.util.breaker import CLOSED, OPEN
from crawler.util.full_disk import REMEDY, is_full
from crawler.util.secrets import Mask, url_passwords
from crawler.util.tasks import abandon, end, within

if TYPE_CHECKING:
    from scrapy.statscollectors import StatsCollector

    from crawler.frontier.on_disk import OnDisk
    from crawler.items import Page
    from crawler.storage.runs import Run
    from crawler.storage.sink import Discovered, Place, RejectedMessage, Results, Sink

logger = logging.getLogger(__name__)

# Stat with the state of the store: "ok", "away", or "spooling"; "off" in crawls without sinks.
STORE_STATE = "store/state"
STORE_WORKS = frozenset({"ok", "off", "spooling"})
# Stat with the number of pages that a process left in its spool when it ended.
SPOOL_LEFT = "spool/left"
# Between two looks at whether the crawl ends, or the spool has room.
_POLL_S = 0.5
# Between two looks at whether the last pages are stored.
_CLOSE_POLL_S = 0.02
# Between two lines about a sink that takes long to open.
_OPEN_LOG_S = 10.0
# Time limits for the record of a run, and for the news that the crawl has ended.
_RECORD_S, _END_S = 10.0, 60.0
# For the latter, if the sink is away already: whoever stopped the crawl waits, too.
_END_AWAY_S = 3.0
# After an error that nobody expected while the spool is drained, and after one of the settings.
_FAILED_S, _MISTAKE_S = 5.0, 60.0


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Size of batches, and the time in seconds that a small one waits for more pages."""

    batch_max: int = config.setting("STORE_BATCH_MAX")
    batch_max_bytes: int = config.setting("STORE_BATCH_MAX_BYTES")
    linger_s: float = config.setting("STORE_LINGER")


class SinkWriter:
    """Writer of one sink. `on_change` is called when its breaker has another state."""

    def __init__(
        self,
        name: str,
        sink: Sink,
        stats: StatsCollector,
        limits: BatchLimits,
        *,
        is_closing: Callable[[], bool],
        is_patient: Callable[[], bool],
        at_end: str,
        on_change: Callable[[], None],
    ) -> None:
        """An impatient writer does not wait for a sink that is away: `put` raises SinkAway.

        `at_end` says what becomes of pages that the sink lacks when the crawl ends.
        """
        self.name = name
        self.sink = sink
        self.state = CLOSED
        # Errors may have the sink's address in their texts.
        self._mask = Mask(url_passwords(getattr(sink, "target", "")))
        self.health = sink.health() or ServerHealth(f"The sink {name}", self._explained)
        self._stats = stats
        self._is_patient = is_patient
        self._on_change = on_change
        self._is_open = False
        # Whether the last record of this run was not taken, which is logged once.
        self._run_fails = False
        self._sending = asyncio.Lock()
        self._writer = RetryingWriter(
            *(PAGES, self.health),
            is_away=sink.is_away,
            is_closing=is_closing,
            timeout_s=sink.timeout_s,
            at_end=at_end,
            on_failure=self._failed,
            on_change=self._changed,
        )
        self._commit: GroupCommit[Any] = GroupCommit(
            self._write,
            batch_max=limits.batch_max,
            batch_max_bytes=limits.batch_max_bytes,
            linger_s=limits.linger_s,
        )

    def put(self, page: Page) -> asyncio.Future[Place | None]:
        """Write a page soon; the future is done when it is durable."""
        size = len(page.body) + len(page.text) + len(page.main_text) + len(page.markdown)
        if page.exchange is not None:
            wire = len(page.exchange.body)
            # Alone, it may be all that there is: the body of a redirect. A page that was rendered
            # has another body, and both are written.
            size = size + wire if page.rendered else max(size, wire)
        if size > self.sink.inline_bytes:
            return asyncio.ensure_future(self._put_large(page))
        return self._put(page, self.sink.prepare(page))

    async def _put_large(self, page: Page) -> Place | None:
        return await self._put(page, await asyncio.to_thread(self.sink.prepare, page))

    def _put(self, page: Page, item: Any) -> asyncio.Future[Place | None]:
        return self._commit.put(item, getattr(item, "size_bytes", page.size_bytes))

    async def write(self, items: Sequence[Any], *, is_patient: bool) -> Results | None:
        """Write a batch of prepared pages, and count it."""
        started_s = monotonic()
        results = await self._writer.write(partial(self._send, items), is_patient=is_patient)
        refused = {i for i, result in (results or {}).items() if isinstance(result, Exception)}
        written = [
            getattr(item, "size_bytes", 0) for i, item in enumerate(items) if i not in refused
        ]
        count, name = self._stats.inc_value, self.name
        count(f"sink/pages/{name}", len(written))
        count(f"sink/bytes/{name}", sum(written))
        count(f"sink/batches/{name}")
        count(f"sink/write_ms/{name}", round((monotonic() - started_s) * 1000))
        return results

    async def _write(self, items: Sequence[Any]) -> Results | None:
        return await self.write(items, is_patient=self._is_patient())

    async def _send(self, items: Sequence[Any]) -> Results | None:
        # One batch at a time, also while spooled pages are written.
        async with self._sending:
            results = await self.sink.write(items)
        if results is not None and not isinstance(results, Mapping):
            raise TypeError(f"write() of the sink {self.name} returns {results!r:.100}, no dict")
        for position, result in (results or {}).items():
            if isinstance(result, SinkAway):
                raise result
            if position not in range(len(items)) or not isinstance(result, (Exception, Mapping)):
                raise TypeError(
                    f"write() of the sink {self.name} returns {position!r:.50}: {result!r:.100}, "
                    "no position in the batch with an exception or a place"
                )
        return results

    async def open(self) -> None:
        """Open the sink; ServerAway or ConfigurationError if it cannot be used."""
        opening = asyncio.get_running_loop().create_task(self.sink.open())
        try:
            while not (await asyncio.wait({opening}, timeout=_OPEN_LOG_S))[0]:
                logger.info("The sink %s is being opened", self.name)
            opening.result()
        except CrawlerError:
            raise
        except Exception as error:
            text = f"The sink {self.name} cannot be opened {self._explained(error)}."
            is_away = isinstance(error, OSError) or self.sink.is_away(error)
            raise (ServerAway(text) if is_away else ConfigurationError(text)) from error
        finally:
            # Ctrl-C ends a start that takes long.
            abandon(opening)
        self._is_open = True

    def _explained(self, error: Exception) -> str:
        """Describe an error of the sink in brackets."""
        text = str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        if isinstance(error, OSError) and is_full(error):
            text += f": {REMEDY}"
        return f"({' '.join(self._mask(text).split()) or type(error).__name__})"

    async def drain(self) -> None:
        """Write everything that waits."""
        await self._commit.drain()

    async def discover(self, urls: Sequence[Discovered]) -> None:
        """Give new URLs to the sink, as long as it takes; NotStored if the crawl ends first."""
        await self._writer.write(partial(self.sink.discover, urls))
        self._stats.inc_value(f"sink/discovered/{self.name}", len(urls))

    async def reject(self, messages: Sequence[RejectedMessage]) -> None:
        """Give rejected messages to the sink, as long as it takes; otherwise as `discover`."""
        await self._writer.write(partial(self.sink.reject, messages))

    async def record_run(self, run: Run) -> None:
        """Give the sink the record of this process, in bounded time; the first failure is logged.

        The next record has all of this one.
        """
        why = ""
        try:
            if not await within(_RECORD_S, self.sink.record_run(run)):
                why = f"(no answer within {_RECORD_S:g} s)"
        except Exception as error:  # noqa: BLE001 - the crawl does not depend on it
            why = self._explained(error)
        if why and not self._run_fails:
            logger.warning(
                "The sink %s did not take the record of this run %s; %s",
                *(self.name, why),
                "the crawl goes on" if run.ended is None else "`scrapy jobs` will show it as lost",
            )
        self._run_fails = bool(why)

    async def crawl_ended(self, summary: Mapping[str, Any]) -> None:
        """Tell the sink that the crawl ended, in bounded time; a failure is logged."""
        limit_s = _END_S
        if self.health.away:
            limit_s = _END_AWAY_S
            logger.warning(
                "The sink %s is away: it has %g s to take note that the crawl has ended",
                *(self.name, limit_s),
            )
        try:
            if await within(limit_s, self.sink.crawl_ended(summary)):
                return
            why = f"(no answer within {limit_s:g} s)"
        except Exception as error:  # noqa: BLE001 - of a sink, and this process ends
            why = self._explained(error)
        self._stats.inc_value(f"sink/end_not_told/{self.name}")
        logger.error(
            "The sink %s was not told that the crawl has ended %s. To tell it again, run the crawl "
            "once more",
            *(self.name, why),
        )

    async def close(self) -> None:
        """Close the sink, in bounded time: its server may be away."""
        if not self._is_open:
            return
        try:
            limit_s = self.sink.close_timeout_s
            if not await within(limit_s, self.sink.close()):
                logger.warning("The sink %s did not close within %g s", self.name, limit_s)
        except Exception:
            logger.exception("The sink %s did not close", self.name)

    @property
    def waiting(self) -> int:
        """Number of pages in memory that the sink does not have yet."""
        return self._commit.waiting

    @property
    def lag_s(self) -> float:
        """Seconds that the oldest of them has waited."""
        since_s = self._commit.oldest_s
        return 0.0 if since_s is None else monotonic() - since_s

    def report(self) -> dict[str, Any]:
        """Return the state of the sink, for beats and the dashboard."""
        return {
            "name": self.name,
            "state": "away" if self.health.away else "ok",
            "pages": self._stats.get_value(f"sink/pages/{self.name}", 0),
            "bytes": self._stats.get_value(f"sink/bytes/{self.name}", 0),
            "waiting": self.waiting,
            "lag_s": round(self.lag_s, 1),
        }

    def _failed(self) -> None:
        self._stats.inc_value(f"sink/failed_writes/{self.name}")

    def _changed(self, state: str) -> None:
        if state == OPEN != self.state:
            self._stats.inc_value(f"sink/breaker_open/{self.name}")
        self.state = state
        self._on_change()


class Storage:
    """All sinks of a crawl. `pause` is called with True when no page should be fetched."""

    def __init__(
        self,
        sinks: dict[str, Sink],
        stats: StatsCollector,
        limits: BatchLimits,
        *,
        is_closing: Callable[[], bool],
        spool: Spool | None = None,
    ) -> None:
        self.writers = [
            SinkWriter(
                *(name, sink, stats, limits),
                is_closing=is_closing,
                is_patient=self._is_patient,
                at_end=(
                    "pages that are not stored go back to the frontier"
                    if spool is None
                    else f"what is spooled stays in {spool.folder}"
                ),
                on_change=self._update,
            )
            for name, sink in sinks.items()
        ]
        bodies = [writer for writer in self.writers if writer.sink.keeps_bodies]
        others = [writer for writer in self.writers if not writer.sink.keeps_bodies]
        # Written one after the other; the sinks of a stage at the same time.
        self._stages = [stage for stage in (bodies, others) if stage]
        # Stages of responses that are no pages.
        self._archives = [
            chosen
            for stage in self._stages
            if (chosen := [writer for writer in stage if writer.sink.archives])
        ]
        self._discoverers = [writer for writer in self.writers if writer.sink.wants_discovered]
        self._rejecters = [writer for writer in self.writers if writer.sink.wants_rejected]
        self._enders = [writer for writer in self.writers if writer.sink.wants_end]
        self._by_name = {writer.name: writer for writer in self.writers}
        self.spool = spool
        self.pause: Callable[[bool], None] = lambda _: None
        self._is_paused = False
        self._stats = stats
        self._is_closing = is_closing
        # Number of pages that are being stored.
        self._running = 0
        # Names of the sinks that lack pages of the spool.
        self._lagging: set[str] = set()
        # Whether spooled pages were written.
        self.has_drained = False
        self._draining: asyncio.Task[None] | None = None
        self._adopting: asyncio.Task[None] | None = None
        self._is_finished = False
        # Set when the spool has room again, or is empty.
        self._changed = asyncio.Event()

    # --- life ------------------------------------------------------------------------------------

    async def open(self, registry: OnDisk | None = None) -> None:
        """Open all sinks; ServerAway or ConfigurationError if one of them cannot be used."""
        if self.spool is not None:
            await self.spool.open(registry)
            self._check_spool()
        for writer in self.writers:
            await writer.open()
        self._drain_soon()
        self._update()

    async def finish(self) -> None:
        """Write everything that waits in memory. What is spooled stays there for the next run.

        Sinks are open until `close`: they may be told that the crawl has ended.
        """
        if self._is_finished:
            return
        self._is_finished = True
        while self._running:
            for writer in self.writers:
                await writer.drain()
            await asyncio.sleep(_CLOSE_POLL_S)
        for task in (self._adopting, self._draining):
            if task is not None:
                await end(task)
        if self.spool is not None:
            # A spool that is closed has no pages: others may take them over.
            self._stats.set_value(SPOOL_LEFT, self.spool.pages)
            await self.spool.close()

    async def close(self) -> None:
        """Write everything that waits, unless that is done, and close all sinks."""
        await self.finish()
        for writer in self.writers:
            await writer.close()

    # --- runs ------------------------------------------------------------------------------------

    async def record_run(self, run: Run) -> None:
        """Give all sinks the record of this process, in bounded time; failures are logged."""
        await asyncio.gather(*(writer.record_run(run) for writer in self.writers))

    @property
    def wants_end(self) -> bool:
        """Whether a sink wants to know when the crawl has ended."""
        return bool(self._enders)

    async def crawl_ended(self, summary: Mapping[str, Any]) -> None:
        """Tell the sinks that want to know, in bounded time; failures are logged."""
        await asyncio.gather(*(writer.crawl_ended(summary) for writer in self._enders))

    # --- pages -----------------------------------------------------------------------------------

    async def put(self, page: Page) -> None:
        """Store a page, or what became of a URL without one; return when it is durable.

        Raises NotStored if the crawl ends first, and the error of a sink that refuses the page.
        """
        await self._store(page, self._stages)
        self._count(page)

    @property
    def archives(self) -> bool:
        """Whether a sink wants responses that are no pages, too."""
        return bool(self._archives)

    async def archive(self, page: Page) -> None:
        """Store a response that is no page in the sinks that archive; otherwise as `put`."""
        await self._store(page, self._archives)
        self._stats.inc_value("store/archived")

    @property
    def wants_discovered(self) -> bool:
        """Whether a sink wants to know of new URLs."""
        return bool(self._discoverers)

    async def discover(self, urls: Sequence[Discovered]) -> None:
        """Give new URLs to the sinks that want them; return when they are durable.

        They are not spooled: while such a sink is away, pages with new links wait. Raises NotStored
        if the crawl ends first.
        """
        self._running += 1
        try:
            for writer in self._discoverers:
                await writer.discover(urls)
        finally:
            self._running -= 1

    @property
    def wants_rejected(self) -> bool:
        """Whether a sink wants messages that give no URL."""
        return bool(self._rejecters)

    async def reject(self, messages: Sequence[RejectedMessage]) -> None:
        """Give messages that give no URL to the sinks that want them; otherwise as `discover`."""
        for writer in self._rejecters:
            await writer.reject(messages)

    async def _store(self, page: Page, stages: Sequence[Sequence[SinkWriter]]) -> None:
        stored: set[str] = set()
        self._running += 1
        try:
            while lacking := await self._write(page, stages, stored):
                assert self.spool is not None
                if await self.spool.put(page, lacking):
                    self._stats.inc_value("spool/pages")
                    if not self._lagging:
                        names = ", ".join(lacking)
                        logger.warning("Pages for %s are kept in %s now", names, self.spool.folder)
                    self._drain_soon()
                    break
                self._update()
                if self._lagging:
                    await self._wait_for_room()
        finally:
            self._running -= 1

    async def _write(
        self, page: Page, stages: Sequence[Sequence[SinkWriter]], stored: set[str]
    ) -> list[str]:
        """Write a page to the sinks that do not have it; return the names of those that lack it."""
        for stage in stages:
            if await self._write_stage(stage, page, stored):
                # Sinks of records need the places in which the bodies are.
                wanted = [writer.name for each in stages for writer in each]
                return [name for name in wanted if name not in stored]
        return []

    async def _write_stage(
        self, stage: Sequence[SinkWriter], page: Page, stored: set[str]
    ) -> list[str]:
        lacking: list[str] = []
        refusal: Exception | None = None
        writes: list[tuple[str, asyncio.Future[Place | None]]] = []
        for writer in stage:
            if writer.name in stored:
                continue
            if writer.name in self._lagging:
                lacking.append(writer.name)
                continue
            try:
                writes.append((writer.name, writer.put(page)))
            except Exception as error:  # noqa: BLE001 - raised below, when all others have the page
                refusal = self._refused(writer.name, page, error)
        for name, write in writes:
            try:
                place = await write
            except SinkAway:
                lacking.append(name)
            except Exception as error:  # noqa: BLE001 - likewise
                refusal = self._refused(name, page, error)
            else:
                stored.add(name)
                if place is not None:
                    page.places = {**page.places, name: place}
        if refusal is not None:
            raise refusal
        return lacking

    def _refused(self, name: str, page: Page, error: Exception) -> Exception:
        if not isinstance(error, NotStored):
            logger.error("The sink %s did not take %s: %s", name, page.url, error)
        return error

    async def _wait_for_room(self) -> None:
        """Wait until there may be room in the spool; NotStored if the crawl ends first."""
        self._changed.clear()
        while not self._changed.is_set():
            if self._is_closing():
                raise NotStored("The spool is full.")
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await self._changed.wait()

    def _count(self, page: Page) -> None:
        count = self._stats.inc_value
        if not page.status:
            count("store/failed_urls")
            return
        count("store/records")
        count("store/bytes", page.size_bytes)
        if page.stored and not page.duplicate_of:
            count("store/pages")
        elif page.is_success and not page.duplicate_of:
            # Such as noindex.
            count("store/not_kept")

    # --- the spool -------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Drain what processes on this machine spooled that died."""
        if self.spool is not None:
            await self.spool.refresh()
            self._drain_soon()

    @property
    def names(self) -> set[str]:
        """Names in the registry of what this process drains."""
        return self.spool.names if self.spool is not None else set()

    def adopt_soon(self) -> None:
        """Drain what processes on this machine spooled that died, in the background."""
        if self.spool is not None and (self._adopting is None or self._adopting.done()):
            self._adopting = asyncio.get_running_loop().create_task(self._adopt())

    async def _adopt(self) -> None:
        try:
            await self.refresh()
        except (OSError, *RedisAway) as error:
            logger.debug("The spools of other processes were not looked for: %s", error)

    @property
    def spooled(self) -> int:
        """Number of pages in the spool of this process."""
        return self.spool.pages if self.spool is not None else 0

    def _check_spool(self) -> None:
        """Raise ConfigurationError if pages wait for a sink that is not there."""
        assert self.spool is not None
        if unknown := self.spool.sinks - self._by_name.keys():
            raise ConfigurationError(
                f"{self.spool.folder} has pages for the sink {', '.join(sorted(unknown))}, which "
                "SINKS does not name: name it until they are written, or delete them there."
            )

    def _drain_soon(self) -> None:
        """Write what is spooled; until then, later pages for the same sinks are spooled, too."""
        # Not by the number of pages: a file without a whole one must go, too.
        if self.spool is None or not self.spool.sinks:
            return
        self._lagging |= self.spool.sinks
        if self._draining is None or self._draining.done():
            self._draining = asyncio.get_running_loop().create_task(self._drain_forever())
        self._update()

    async def _drain_forever(self) -> None:
        """Write what is spooled to its sinks until nothing is left."""
        assert self.spool is not None
        while True:
            try:
                async for pages, lacking in self.spool.batches():
                    self._check_spool()
                    await self._write_spooled(pages, lacking)
                    self._changed.set()
            except NotStored:
                # The crawl ends; the next run goes on.
                return
            except ConfigurationError as error:
                logger.error("%s", error)
                await asyncio.sleep(_MISTAKE_S)
                continue
            except Exception:
                logger.exception("The spool could not be drained; trying again")
                await asyncio.sleep(_FAILED_S)
                continue
            if not self.spool.pages:
                break
        if self._lagging:
            self.has_drained = True
            logger.info("All spooled pages are written")
        self._lagging.clear()
        self._changed.set()
        self._update()

    async def _write_spooled(self, pages: Sequence[Page], lacking: set[str]) -> None:
        """Write pages to the sinks that lack them, as long as it takes."""
        for stage in self._stages:
            for writer in stage:
                if writer.name in lacking:
                    await self._write_patiently(writer, pages)

    async def _write_patiently(self, writer: SinkWriter, pages: Sequence[Page]) -> None:
        items, chosen = [], []
        for page in pages:
            try:
                items.append(await asyncio.to_thread(writer.sink.prepare, page))
                chosen.append(page)
            except Exception as error:  # noqa: BLE001 - of one page, which is set aside
                await self._set_aside(writer.name, page, error)
        if not items:
            return
        try:
            results = await writer.write(items, is_patient=True) or {}
        except NotStored:
            raise
        except Exception as error:  # noqa: BLE001 - of one page in the batch
            if len(items) == 1:
                await self._set_aside(writer.name, chosen[0], error)
                return
            for page in chosen:
                await self._write_patiently(writer, [page])
            return
        for i, page in enumerate(chosen):
            result = results.get(i)
            if isinstance(result, Exception):
                await self._set_aside(writer.name, page, result)
            elif result is not None:
                page.places = {**page.places, writer.name: result}

    async def _set_aside(self, name: str, page: Page, error: Exception) -> None:
        """Keep a page that a sink refuses, though its lease is settled."""
        assert self.spool is not None
        self._stats.inc_value("spool/refused")
        path = await self.spool.set_aside(page, name)
        logger.error(
            "The sink %s did not take %s, which was spooled: %s. It is kept in %s",
            *(name, page.url, error, path),
        )

    # --- state -----------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """State of the store: "ok", "away" (pages wait for a sink), or "spooling"."""
        is_away = any(writer.health.away for writer in self.writers)
        if self.spool is None or self.spool.is_full:
            return "away" if is_away or self._lagging else "ok"
        return "spooling" if self._lagging else "ok"

    def report(self) -> dict[str, Any]:
        """Return the state of each sink and of the spool, for beats and the dashboard."""
        spool = self.spool
        sinks = [writer.report() for writer in self.writers]
        for sink in sinks:
            if spool is not None and sink["name"] in self._lagging:
                sink["lag_s"] = round(max(sink["lag_s"], spool.lag_s), 1)
        return {
            "sinks": sinks,
            "spooled_pages": spool.pages if spool is not None else 0,
            "spooled_bytes": spool.size_bytes if spool is not None else 0,
        }

    def _is_patient(self) -> bool:
        """Whether pages wait for a sink that is away, as they cannot be spooled."""
        return self.spool is None or self.spool.is_full

    def _update(self) -> None:
        """Publish the state, and pause fetching while pages would only wait."""
        self._stats.set_value(STORE_STATE, self.state)
        is_away = bool(self._lagging) or any(writer.state == OPEN for writer in self.writers)
        is_paused = is_away and self._is_patient()
        if is_paused != self._is_paused:
            self._is_paused = is_paused
            self.pause(is_paused)
