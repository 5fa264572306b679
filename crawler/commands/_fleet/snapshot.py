"""What a fleet shows while it runs and at its end, read from Redis and its own processes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from time import monotonic
from typing import Any

from crawler.commands._fleet.process import GIVEN_UP, FleetProcess
from crawler.errors import CrawlerError
from crawler.frontier import CrawlControl, Sizes
from crawler.monitoring import ledger
from crawler.monitoring.console.view import ProcessRow, RunFigures, Snapshot
from crawler.monitoring.figures import grown
from crawler.servers.redis.connection import Client
from crawler.servers.redis.errors import RedisAway
from crawler.util.format import duration, plural, share, size


class FleetReader:
    """Figures of a fleet's crawl. Keeps the last reading: an old one is better than none."""

    def __init__(self, redis: Client, crawl: str) -> None:
        self._redis = redis
        self._crawl = crawl
        self._started_s = monotonic()
        self._before: dict[str, int] = {}
        self._pages_before = 0
        self._fleet = ledger.Fleet()
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

    async def read(self, members: Sequence[FleetProcess], *, stopping: bool) -> Snapshot:
        """Read the figures of this run and of the whole crawl."""
        await self._read()
        about = {each.get("pid"): each for each in self._fleet.instances.values()}
        rows = [
            ProcessRow(m.name, m.state, m.pid, m.restarts, m.why, about.get(m.pid, {}))
            for m in members
        ]
        run = RunFigures.from_figures(
            grown(self._before, self._fleet.totals),
            elapsed_s=monotonic() - self._started_s,
            pages=self._pages - self._pages_before,
            recent_s=sum(float(row.about.get("pages_per_s") or 0) for row in rows),
        )
        processes = len(self._fleet.instances)
        return Snapshot(self._crawl, run, self._sizes, processes, rows=rows, stopping=stopping)

    @property
    def _pages(self) -> int:
        """Pages by the frontier's count, which misses none when a process is killed."""
        return self._sizes.pages if self._sizes is not None else 0

    async def _read(self) -> None:
        # A crawl that no process has begun has no sizes.
        with suppress(CrawlerError, *RedisAway):
            self._sizes = await (await CrawlControl.open(self._redis, self._crawl)).sizes()
            self._fleet = await ledger.read(self._redis, self._crawl, minutes=1)


def fleet_json(snapshot: Snapshot) -> dict[str, Any]:
    """Return the result of a fleet for programs."""
    run, sizes = snapshot.run, snapshot.crawl
    return {
        "crawl": snapshot.name,
        "elapsed_s": round(run.elapsed_s, 1),
        "pages": run.pages,
        "not_modified": run.not_modified,
        "failed": sum(run.failed.values()),
        "success_rate": run.success,
        "bytes": run.size_bytes,
        "processes": [
            {"name": row.name, "state": row.state, "restarts": row.restarts, "why": row.why}
            for row in snapshot.rows
        ],
        "unfinished": None if sizes is None else sizes.unfinished,
        "whole_crawl": None if sizes is None else asdict(sizes),
    }


def summary_lines(snapshot: Snapshot) -> list[str]:
    """Return the result of a fleet for people."""
    run, rows, sizes = snapshot.run, snapshot.rows, snapshot.crawl
    restarts = plural(sum(row.restarts for row in rows), "restart")
    first = (
        f"{plural(run.pages, 'page')} ({size(run.size_bytes)} read) by "
        f"{plural(len(rows), 'process', 'processes')} in {duration(run.elapsed_s)}, {restarts}; "
        f"{sum(run.failed.values()):,} failed, success {share(run.success)}"
    )
    lines = [first]
    if sizes is not None:
        given_up = any(row.state == GIVEN_UP for row in rows)
        nothing = "nothing waits" if given_up else "finished: nothing is left to crawl"
        state = f"{plural(sizes.unfinished, 'URL')} left" if sizes.unfinished else nothing
        lines.append(
            f"The whole crawl: {sizes.pages:,} pages crawled, {sizes.dead:,} given up; {state}"
        )
    return lines
