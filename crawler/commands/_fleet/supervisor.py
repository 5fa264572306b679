"""Run the processes of a fleet until the crawl is over or somebody stops it.

What is shown of the crawl meanwhile is read from Redis.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from time import monotonic

from crawler.commands._fleet.process import GIVEN_UP, RUNNING, FleetProcess
from crawler.commands._fleet.view import FleetView, Row
from crawler.errors import CrawlerError, ExitCode
from crawler.frontier import CrawlControl, Sizes
from crawler.monitoring import ledger
from crawler.monitoring.figures import by_word
from crawler.servers.redis.connection import Client
from crawler.servers.redis.errors import RedisAway

_LOOK_S = 0.1
# Processes that were told twice to stop get this long before they are killed.
_FORCED_S = 5.0
# The others start when there is something to do, at the latest after this time.
_FIRST_S = 60.0


class Supervisor:
    """`crawlers` crawl; `admin` serves the dashboard as long as one of them does.

    `has_work` says whether the frontier has URLs; `say` takes news for people.
    """

    def __init__(
        self,
        crawlers: Sequence[FleetProcess],
        admin: FleetProcess,
        *,
        has_work: Callable[[], Awaitable[bool]],
        say: Callable[[str], None],
    ) -> None:
        self.crawlers = crawlers
        self.admin = admin
        self._has_work = has_work
        self._say = say
        self._stops = 0
        self._kill_at_s: float | None = None
        # Where the dashboard is was said.
        self._announced = False

    @property
    def stopping(self) -> bool:
        return self._stops > 0

    @property
    def exit_code(self) -> ExitCode:
        """DONE, or that of the crawl processes that were given up: the one that says most."""
        return max(member.exit_code for member in self.crawlers)

    def stop(self) -> None:
        """Once: let fetches finish. Twice: at once."""
        self._stops += 1
        if self._stops == 1:
            self._say("Stopping: fetches in flight finish; once more stops at once")
        elif self._kill_at_s is None:
            self._say("Stopping at once")
            self._kill_at_s = monotonic() + _FORCED_S
        for member in self.crawlers:
            member.stop()

    async def run(self) -> None:
        """Return when all crawl processes are over."""
        first = self.crawlers[0]
        started_s = monotonic()
        first.start(started_s)
        waiting = True
        try:
            while not (first.over if waiting else all(member.over for member in self.crawlers)):
                self._look()
                # Without work the others would take the crawl for over.
                if waiting and (await self._has_work() or monotonic() > started_s + _FIRST_S):
                    waiting = False
                    self._start_others()
                await asyncio.sleep(_LOOK_S)
        finally:
            self._end_all()

    def _start_others(self) -> None:
        if not self.stopping:
            for member in (*self.crawlers[1:], self.admin):
                member.start(monotonic())

    def _look(self) -> None:
        now_s = monotonic()
        for member in (*self.crawlers, self.admin):
            if member.look(now_s):
                self._tell(member)
        if not self._announced and "http://" in (said := self.admin.tail()):
            self._announced = True
            self._say(said)
        if self._kill_at_s is not None and now_s > self._kill_at_s:
            for member in self.crawlers:
                member.stop(signal.SIGKILL)

    def _tell(self, member: FleetProcess) -> None:
        if member.state == RUNNING:
            self._say(f"{member.name} runs again (pid {member.pid})")
        elif member.state == GIVEN_UP:
            end = f"Its log, {member.log}, ends with:\n{member.tail()}"
            self._say(f"{member.name} {member.why}. {end}")
        elif member.why:
            self._say(f"{member.name} {member.why}")

    def _end_all(self) -> None:
        """Nothing that was started here stays."""
        for member in self.crawlers:
            if not member.over:
                member.stop(signal.SIGKILL)
        self.admin.stop()
        for member in (*self.crawlers, self.admin):
            member.wait()


class CrawlSnapshot:
    """Keeps the last reading: an old one is better than none."""

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
            failed=sum(by_word(grown, "failed").values()),
            stopping=supervisor.stopping,
        )

    @property
    def _pages(self) -> int:
        """As the frontier counts them: of a process that is killed too, to the last one."""
        return self._sizes.pages if self._sizes is not None else 0

    async def _read(self) -> None:
        # A crawl that nobody has begun has no sizes.
        with suppress(CrawlerError, *RedisAway):
            self._sizes = await (await CrawlControl.open(self._redis, self._crawl)).sizes()
            self._fleet = await ledger.read(self._redis, self._crawl, minutes=1)
