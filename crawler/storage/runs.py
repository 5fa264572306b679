"""Records of runs: who crawled when, with which options, and how it ended. Pure.

A run is one process of a crawl, from its start to its end:

    running ─▶ finished  nothing was left to crawl
            ─▶ stopped   by a signal, or by people
            ─▶ ended     for another reason, such as a limit that was reached
            ─▶ failed    the command has an exit code that is not 0
            ─▶ lost      killed: it gave no sign of life for LOST_AFTER

A process writes its whole record at its start, every BEAT_S seconds and at its end, so a write that
fails is made good by the next one. A killed process cannot write that it ended. Readers show it as
lost (`as_of`), and the next write of any process of its crawl marks it so (`lost_before`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

RUNNING, FINISHED, STOPPED, ENDED, FAILED, LOST = STATES = (
    *("running", "finished", "stopped", "ended", "failed", "lost"),
)
# Seconds between two signs of life.
BEAT_S = 30.0
# Five of them: a store may be away for a moment, and clocks of machines differ.
LOST_AFTER = timedelta(seconds=5 * BEAT_S)
# Records without a sign of life for longer are deleted, so that their number is bounded.
KEPT = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Run:
    """Record of one process of a crawl. All times are in UTC."""

    # Unique. It begins with the time of the start, so stores sort by it.
    id: str
    crawl: str
    spider: str
    machine: str
    pid: int
    # Who started it, by the operating system.
    user: str
    # Name of the process in the frontier, as in `worker` of its pages.
    worker: str
    # How it was started, without secrets; empty if not by a command.
    command: str
    started: datetime
    # Last sign of life.
    seen: datetime
    ended: datetime | None = None
    state: str = RUNNING
    # Scrapy's reason for the end, such as finished, shutdown (a signal) or max_pages.
    reason: str = ""
    # Settings and arguments that were given to this run, without secrets.
    options: Mapping[str, Any] = field(default_factory=dict)
    # Visits that gave a page, and those that failed.
    pages: int = 0
    errors: int = 0
    # Of the command; None while it runs.
    exit_code: int | None = None

    @property
    def lost_before(self) -> datetime:
        """Other runs of the crawl that are `running` and were last seen before this are lost."""
        return self.seen - LOST_AFTER

    @property
    def forgotten_before(self) -> datetime:
        """Records of the crawl that were last seen before this are deleted."""
        return self.seen - KEPT

    def as_of(self, now: datetime) -> Run:
        """Return the run as it is to be shown at a time: lost if it has been silent for long."""
        if self.state != RUNNING or self.seen >= now - LOST_AFTER:
            return self
        return self.lost()

    def lost(self) -> Run:
        """Return the run as that of a process that was killed after its last sign of life."""
        return replace(self, state=LOST, ended=self.seen)

    def to_json(self) -> dict[str, Any]:
        """Return the fields for programs, with times as text."""
        found = asdict(self)
        for name in ("started", "seen", "ended"):
            found[name] = found[name].isoformat() if found[name] is not None else None
        return found


@dataclass(frozen=True, slots=True)
class WantedRuns:
    """Choice of runs, the newest first; None means any. `now` decides which of them are lost."""

    now: datetime
    crawl: str | None = None
    state: str | None = None
    # Those that started at this time or later.
    since: datetime | None = None
    limit: int = 50


class RunReader(Protocol):
    """Reader of the records of runs in one store."""

    async def find(self, wanted: WantedRuns) -> list[Run]:
        """Return the runs that are wanted, the newest first."""

    async def get(self, run_id: str, now: datetime) -> Run | None:
        """Return one run as of this time; None if there is no record of it."""


def ended_state(reason: str, exit_code: int) -> str:
    """Return the state of a run that ended for a reason of Scrapy's, with an exit code."""
    if exit_code:
        return FAILED
    if reason == "finished":
        return FINISHED
    return STOPPED if reason in ("shutdown", "cancelled", "stopped") else ENDED
