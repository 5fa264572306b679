"""Know whether servers answer: one log line when one goes away, one when it is back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import monotonic
from typing import Any

from crawler.errors import NotStored
from crawler.servers import mongo, postgres
from crawler.servers.redis import errors
from crawler.util.secrets import without_secrets

logger = logging.getLogger(__name__)

# Callers of Redis: the outbox, and beats and claims. A full server takes what the latter send and
# refuses links, and a part of a cluster may be away: neither can say that the other's calls work.
OUTBOX, LEASES = "outbox", "leases"
# Callers of MongoDB or PostgreSQL, by what waits for it. A server with a full disk is read, and not
# written to.
PAGES, REFUSED_LINKS, SPILLED_URLS = "pages", "links without room in Redis", "URLs kept there"

# A process that closes waits no longer for a server that is away: whoever stopped it waits too, and
# its leases come back to other processes when it is found dead.
_CLOSING_S = 10.0
# Between two checks whether a process closes.
_CHECK_S = 0.5


class GaveUp(NotStored):
    """Redis was away for too long: for REDIS_GIVE_UP, or until the end of the process."""


class ServerHealth:
    """State of one server, shared by all its callers in this process.

    `explain` describes an error in brackets, and `remedy` says what somebody has to do about it.
    `effect` is what happens while the server is away; without it, all callers wait. `reader` is a
    caller that only reads: its calls work when those of any other caller do. After `give_up_s`
    nobody waits for the server any more; 0 means that they always do.
    """

    def __init__(
        self,
        server: str,
        explain: Callable[[Any], str],
        *,
        remedy: Callable[[BaseException], str] = lambda _: "",
        effect: str = "",
        reader: str = "",
        give_up_s: float = 0.0,
    ) -> None:
        self.server = server
        self._explain = explain
        self._remedy = remedy
        self._effect = effect
        self._reader = reader
        self._give_up_s = give_up_s
        self._away_since: float | None = None
        # Callers whose calls fail at the moment, and the last error.
        self._failing: dict[str, None] = {}
        self._why = ""
        # Remedies that were logged.
        self._advised: set[str] = set()

    @property
    def away(self) -> bool:
        """Whether calls fail at the moment."""
        return self._away_since is not None

    @property
    def trouble(self) -> str:
        """Description of the current failure; empty if there is none."""
        if self._away_since is None:
            return ""
        waiting = "" if self._effect else f"; {', '.join(self._failing)} wait"
        away_s = monotonic() - self._away_since
        return f"{self.server} has not answered for {away_s:.0f} s{waiting} {self._why}"

    @property
    def given_up(self) -> bool:
        """Whether the server is away for longer than anyone waits."""
        if self._away_since is None or not self._give_up_s:
            return False
        return monotonic() - self._away_since > self._give_up_s

    def closing(self) -> None:
        """Wait only for a short time from now on, since the process ends."""
        self._give_up_s = min(self._give_up_s or _CLOSING_S, _CLOSING_S)

    def failed(self, caller: str, error: BaseException) -> None:
        """Note a call without an answer. Raises GaveUp when that lasts too long."""
        self._failing[caller] = None
        self._why, remedy = _in_one_line(self._explain(error), error), self._remedy(error)
        if self._away_since is None:
            self._away_since = monotonic()
            self._advised = {remedy}
            effect = self._effect or f"{caller} wait until it is back"
            logger.warning("%s is away %s; %s", self.server, self._why, effect)
        elif remedy and remedy not in self._advised:
            # For example, it comes back with another password.
            self._advised.add(remedy)
            logger.warning("%s is not back %s", self.server, self._why)
        elif self.given_up:
            away_s = monotonic() - self._away_since
            raise GaveUp(f"{self.server} was away for {away_s:.0f} s")

    async def wait(self, seconds: float) -> None:
        """Sleep before the next attempt; less if the server is given up on meanwhile."""
        until = monotonic() + seconds
        while not self.given_up:
            left_s = until - monotonic()
            if left_s <= 0:
                break
            await asyncio.sleep(min(left_s, _CHECK_S))

    def worked(self, caller: str) -> None:
        """Note that the calls of this caller were answered."""
        for each in (caller, self._reader):
            self._failing.pop(each, None)
        if self._away_since is not None and not self._failing:
            away_s = monotonic() - self._away_since
            logger.warning("%s is back after %.1f s", self.server, away_s)
            self._away_since = None


def _in_one_line(why: str, error: BaseException) -> str:
    """Return a reason in brackets without line breaks, and with a text if the error has none."""
    if why != "()":
        return " ".join(why.split()).replace(" )", ")")
    return "(no answer in time)" if isinstance(error, TimeoutError) else f"({type(error).__name__})"


def redis_health(give_up_s: float = 0.0) -> ServerHealth:
    """Make the health of a process's Redis."""
    return ServerHealth(
        "Redis",
        errors.explain,
        remedy=errors.remedy,
        effect="fetches in flight finish, nothing new is started",
        give_up_s=give_up_s,
    )


def mongo_health() -> ServerHealth:
    """Make the health of a process's MongoDB."""
    return ServerHealth("MongoDB", lambda error: f"({mongo.explain(error)})", reader=SPILLED_URLS)


def postgres_health() -> ServerHealth:
    """Make the health of a process's PostgreSQL."""
    return ServerHealth(
        "PostgreSQL",
        lambda error: f"({without_secrets(postgres.explain(error))})",
        remedy=postgres.remedy,
        reader=SPILLED_URLS,
    )
