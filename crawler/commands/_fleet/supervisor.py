"""Run the processes of a fleet until the crawl is over or somebody stops it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic

from crawler.commands._fleet.process import GIVEN_UP, RUNNING, FleetProcess
from crawler.errors import ExitCode

_CHECK_S = 0.1
# Processes that were asked twice to stop get this long before they are killed.
_FORCED_S = 5.0
# The others start when there are URLs to crawl, at the latest after this time.
_FIRST_S = 60.0


class Supervisor:
    """Processes of a fleet: `crawlers` crawl, `admin` serves the dashboard while they do.

    `has_work` returns whether the frontier has URLs; `say` shows news to people.
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
        # Whether the address of the dashboard was shown.
        self._announced = False

    @property
    def stopping(self) -> bool:
        return self._stops > 0

    @property
    def exit_code(self) -> ExitCode:
        """DONE, or the most telling code of the crawl processes that were given up."""
        return max(member.exit_code for member in self.crawlers)

    def stop(self) -> None:
        """Let fetches finish; when called again, stop at once."""
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
                self._check()
                # Without URLs the others would find the crawl finished, and end.
                if waiting and (await self._has_work() or monotonic() > started_s + _FIRST_S):
                    waiting = False
                    self._start_others()
                await asyncio.sleep(_CHECK_S)
        finally:
            self._end_all()

    def _start_others(self) -> None:
        if not self.stopping:
            for member in (*self.crawlers[1:], self.admin):
                member.start(monotonic())

    def _check(self) -> None:
        now_s = monotonic()
        for member in (*self.crawlers, self.admin):
            if member.check(now_s):
                self._report(member)
        if not self._announced and "http://" in (shown := self.admin.tail()):
            self._announced = True
            self._say(shown)
        if self._kill_at_s is not None and now_s > self._kill_at_s:
            for member in self.crawlers:
                member.stop(signal.SIGKILL)

    def _report(self, member: FleetProcess) -> None:
        if member.state == RUNNING:
            self._say(f"{member.name} runs again (pid {member.pid})")
        elif member.state == GIVEN_UP:
            end = f"Its log, {member.log}, ends with:\n{member.tail()}"
            self._say(f"{member.name} {member.why}. {end}")
        elif member.why:
            self._say(f"{member.name} {member.why}")

    def _end_all(self) -> None:
        """End all processes that were started here."""
        for member in self.crawlers:
            if not member.over:
                member.stop(signal.SIGKILL)
        self.admin.stop()
        for member in (*self.crawlers, self.admin):
            member.wait()
