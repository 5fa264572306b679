"""Answers of the API: figures of the crawl, hosts, URLs, dead letters and stored pages.

Redis is asked for everything but pages; what MongoDB has of a URL is given if it answers in time.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Self, cast

from pymongo.errors import PyMongoError

from crawler.admin.models import (
    DeadLetter,
    DelayedQueue,
    Dropped,
    Failure,
    Host,
    SchedulerStatus,
    Status,
    UrlState,
    Worker,
)
from crawler.errors import CrawlerError
from crawler.frontier import CrawlControl, Entry, HostState, Letter, UrlStatus
from crawler.monitoring.figures import by_word
from crawler.monitoring.ledger import Fleet, read
from crawler.monitoring.report import report
from crawler.servers.redis.connection import Client
from crawler.storage.reader import PageReader

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from crawler.servers.connections import Servers

logger = logging.getLogger(__name__)


# Minutes over which rates are measured; the one that runs counts as far as it is over.
RATE_MINUTES = 5


async def status(crawl: str, control: CrawlControl) -> Status:
    """How the crawl stands."""
    sizes = await control.sizes()
    found = await workers(control)
    return Status(
        crawl=crawl,
        at=datetime.now(UTC),
        paused=sizes.paused > 0,
        waiting=sizes.waiting,
        waiting_by_queue=list(sizes.front),
        waiting_by_host=sizes.back,
        leased=sizes.leased,
        retries=sizes.retries,
        recrawls=sizes.recrawls,
        found=sizes.added,
        done=sizes.done,
        pages=sizes.pages,
        dead=sizes.dead,
        unfinished=sizes.unfinished,
        dropped=Dropped(
            excluded=sizes.dropped_excluded,
            purged=sizes.dropped_purged,
            budget=sizes.dropped_budget,
            refused=sizes.refused,
        ),
        hosts=sizes.hosts,
        workers=found,
        troubles=[f"{one.machine} {one.pid}: {text}" for one in found for text in one.troubles],
        options=await control.options(),
        memory_share=await control.memory_share(),
    )


async def workers(control: CrawlControl) -> list[Worker]:
    """The live processes, by machine and pid."""
    found = [worker(name, about) for name, about in (await control.instances()).items()]
    return sorted(found, key=lambda each: (each.machine, each.pid, each.id))


def worker(name: str, about: dict[str, Any]) -> Worker:
    """One process; an older one may say less of itself."""
    fields = ("machine", "pid", "pages", "held", "troubles")
    known = {field: about[field] for field in fields if field in about}
    return Worker(id=name, shards=list(about.get("shards", [])), about=about, **known)


async def vitals(
    crawl: str, redis: Client, control: CrawlControl, *, minutes: int = 60
) -> dict[str, Any]:
    """What the fleet counted, and its hosts by state."""
    found = report(await read(redis, crawl, minutes=minutes))
    return found | {"hosts": await control.host_counts()}


async def scheduler_status(crawl: str, control: CrawlControl, fleet: Fleet) -> SchedulerStatus:
    """The frontier at work; what processes count is up to a beat old."""
    shards = await control.sizes_by_shard()
    sizes = sum(shards[1:], shards[0])
    buckets, due_ms = await control.delayed_buckets()
    now = datetime.now(UTC)
    totals, lately = fleet.totals, fleet.sum(RATE_MINUTES)
    span_s = (RATE_MINUTES - 1) * 60 + now.second + 1
    rests = sum(by_word(lately, "waits").values())
    return SchedulerStatus(
        crawl=crawl,
        at=now,
        urls_scheduled=sizes.added,
        urls_waiting=sizes.waiting,
        urls_delayed=sizes.retries + sizes.recrawls,
        urls_rejected=by_word(totals, "links/refused"),
        robots_denied=totals.get("robots/denied", 0),
        shard_assignments={
            name: list(about.get("shards", [])) for name, about in fleet.instances.items()
        },
        active_shards=sum(shard.unfinished > 0 for shard in shards),
        shards=len(shards),
        delayed_queue=DelayedQueue(
            total_items=sizes.retries + sizes.recrawls,
            active_buckets=buckets,
            current_bucket=moment(due_ms),
        ),
        insert_rate=round(lately.get("links/new", 0) / span_s, 3),
        retrieval_rate=round(lately.get("requests", 0) / span_s, 3),
        average_delay_s=round(lately.get("waits_ms", 0) / 1000 / rests, 3) if rests else None,
        cache_hit_ratios={
            "known_urls": _share(totals, "links/cached", "links/found"),
            "dns": _ratio(totals, "dns/hits", "dns/misses"),
            "robots": _ratio(totals, "robots/cached", "robots/fetched"),
        },
    )


def _share(figures: Mapping[str, int], some: str, all_: str) -> float | None:
    """Which share of all these are; None where there were none."""
    total = figures.get(all_, 0)
    return round(figures.get(some, 0) / total, 4) if total else None


def _ratio(figures: Mapping[str, int], hits: str, misses: str) -> float | None:
    total = figures.get(hits, 0) + figures.get(misses, 0)
    return round(figures.get(hits, 0) / total, 4) if total else None


# Of a stored page what is not its content.
_LONG = ("links", "text", "body")
# The last moment that a date can tell.
_MAX_MS = 253_402_300_799_000


def moment(at_ms: float) -> datetime | None:
    """A time in ms since 1970 as a date; None for none."""
    return datetime.fromtimestamp(min(at_ms, _MAX_MS) / 1000, UTC) if at_ms > 0 else None


def host(state: HostState, delay_s: float | None) -> Host:
    """One host."""
    blocked = state.blocked_until_ms > state.now_ms
    return Host(
        host=state.host,
        state=cast(Any, state.state),
        waiting=state.waiting,
        in_flight=state.in_flight,
        pages=state.pages,
        next_contact=moment(state.clock_ms) if state.clock_ms > state.now_ms else None,
        usual_delay_s=state.delay_ms / 1000,
        delay_s=delay_s,
        blocked_until=moment(state.blocked_until_ms) if blocked else None,
        excluded=state.excluded,
        queue=state.queue or None,
        budget=state.budget,
        parallelism=state.parallelism,
    )


def url_state(url: str, found: UrlStatus, page: dict[str, Any] | None, note: str) -> UrlState:
    """One URL."""
    entry = found.entry
    return UrlState(
        url=url,
        state=cast(Any, found.state),
        owner=found.owner,
        reason=found.reason,
        at=moment(found.at_ms),
        depth=None if entry is None else entry.depth,
        queue=None if entry is None else entry.queue,
        attempts=None if entry is None else entry.attempts,
        history=history(entry),
        page=None if page is None else _record(page),
        page_note=note,
    )


def _record(page: dict[str, Any]) -> dict[str, Any]:
    """A stored page as JSON has it."""
    kept = {name: value for name, value in page.items() if name not in _LONG}
    found: dict[str, Any] = json.loads(json.dumps(kept, default=_as_json))
    return found


def _as_json(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def dead_letter(letter: Letter) -> DeadLetter:
    """One URL that was given up."""
    entry = letter.entry
    at = moment(letter.at_ms)
    return DeadLetter(
        url="" if entry is None else entry.url,
        host=letter.host,
        reason=letter.reason,
        at=at if at is not None else datetime.fromtimestamp(0, UTC),
        depth=None if entry is None else entry.depth,
        history=history(entry),
        cursor=letter.cursor,
    )


def history(entry: Entry | None) -> list[Failure]:
    """Failures that an entry remembers."""
    kept = [] if entry is None else entry.tail.get("history", [])
    return [
        Failure(reason=str(reason), at=datetime.fromtimestamp(at_s, UTC)) for reason, at_s in kept
    ]


# A server that does not answer is asked again after so long.
_AGAIN_S = 10.0
_ANSWER_S = 2.0


class Pages:
    """The stored pages; connects when it is first asked."""

    @classmethod
    def of_settings(cls, settings: BaseSettings, servers: Servers) -> Self:
        """Those of the settings' database."""
        folder = Path(settings["CRAWL_DIR"], "mongo")
        # An embedded server would make an empty one.
        if settings["PAGES_STORE"] != "mongo" or not (settings["MONGO_URI"] or folder.is_dir()):
            return cls()

        async def connect() -> PageReader:
            return PageReader((await servers.mongo())[settings["MONGO_DATABASE"]])

        return cls(connect)

    def __init__(self, connect: Callable[[], Awaitable[PageReader]] | None = None) -> None:
        """`connect` is None where pages are not stored in MongoDB."""
        self._connect = connect
        self._stored: PageReader | None = None
        self._away_until = 0.0

    async def of(self, url: str) -> tuple[dict[str, Any] | None, str]:
        """The record of a canonical URL, or None and why there is none."""
        if self._connect is None:
            return None, "Pages are not stored in MongoDB (PAGES_STORE)."
        if monotonic() < self._away_until:
            return None, "MongoDB does not answer."
        try:
            async with asyncio.timeout(_ANSWER_S):
                if self._stored is None:
                    self._stored = await self._connect()
                page = await self._stored.metadata(url)
        except (PyMongoError, CrawlerError, TimeoutError) as error:
            self._away_until = monotonic() + _AGAIN_S
            logger.warning("Admin API: MongoDB does not answer: %s", error)
            return None, "MongoDB does not answer."
        return page, "" if page is not None else "It is not stored."
