"""What is known of a crawl while a fleet works on it, read from Redis."""

from __future__ import annotations

from contextlib import suppress
from time import monotonic

from crawler import vitals
from crawler.errors import CrawlerError
from crawler.fleet.supervisor import Supervisor
from crawler.fleet.view import FleetView, Row
from crawler.frontier import RedisAway, Sizes, Steering
from crawler.frontier.connection import Client
from crawler.vitals.names import part


class Watch:
    """Keeps the last reading: an old one is better than none."""

    def __init__(self, redis: Client, crawl: str) -> None:
        self._redis = redis
        self._crawl = crawl
        self._started_s = monotonic()
        self._before: dict[str, int] = {}
        self._pages_before = 0
        self._fleet = vitals.Fleet()
        self._sizes: Sizes | None = None

    async def open(self) -> None:
        """Note what earlier runs counted."""
        await self._read()
        self._before = self._fleet.totals
        self._pages_before = self._pages

    async def has_work(self) -> bool:
        """Does the frontier have URLs?"""
        await self._read()
        return self._sizes is not None and self._sizes.unfinished > 0

    async def view(self, supervisor: Supervisor) -> FleetView:
        """How things are now."""
        await self._read()
        totals, before = self._fleet.totals, self._before
        grown = {name: count - before.get(name, 0) for name, count in totals.items()}
        by_pid = {about.get("pid"): about for about in self._fleet.instances.values()}
        return FleetView(
            crawl=self._crawl,
            elapsed_s=monotonic() - self._started_s,
            rows=[
                Row(m.name, m.state, m.pid, m.restarts, m.why, by_pid.get(m.pid, {}))
                for m in supervisor.crawlers
            ],
            sizes=self._sizes,
            pages=self._pages - self._pages_before,
            not_modified=grown.get("not_modified", 0),
            bytes=grown.get("bytes", 0),
            failed=sum(part(grown, "failed").values()),
            stopping=supervisor.stopping,
        )

    @property
    def _pages(self) -> int:
        """As the frontier counts them: of a process that is killed too, to the last one."""
        return self._sizes.pages if self._sizes is not None else 0

    async def _read(self) -> None:
        # A crawl that nobody has begun has no sizes.
        with suppress(CrawlerError, *RedisAway):
            self._sizes = await (await Steering.of(self._redis, self._crawl)).sizes()
            self._fleet = await vitals.read(self._redis, self._crawl, minutes=1)
