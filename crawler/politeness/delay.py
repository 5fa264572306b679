"""Decide how long a host is left alone after a fetch. Pure: no I/O, no clock.

A host that does not answer has a breaker, a function of the failures in a row:

    closed ─failures─▶ open ─delay─▶ half-open ─one probe fails─▶ open, for twice as long
       ▲                                 └─────── it works ──┐
       └─────────────────────────────────────────────────────┘

The delay is the host's own in the frontier, so the first lease after it is the probe: no other
process contacts the host before that one has ended.
"""

from __future__ import annotations

from dataclasses import dataclass

OVERLOAD_STATUSES = frozenset({429, 503})
# A host that gets slower is believed sooner than one that gets faster.
_SLOWER, _FASTER = 0.5, 0.25


@dataclass(frozen=True, slots=True)
class Fetch:
    """How a fetch went. `status` is None when no answer came."""

    duration_s: float
    status: int | None
    retry_after_s: float | None = None

    @property
    def is_overload(self) -> bool:
        """Does the host say that it has too much to do?"""
        return self.status in OVERLOAD_STATUSES

    @property
    def is_error(self) -> bool:
        return self.status is None or self.status >= 400


@dataclass(frozen=True, slots=True)
class HostRecord:
    """What is known of a host when a fetch of it ended. Times in seconds."""

    # Its usual time for a fetch, this one included.
    usual_s: float
    crawl_delay_s: float = 0.0
    # A delay that people gave this host; it replaces ours.
    delay_s: float | None = None
    # From the start of a fetch to the start of the next.
    spacing_s: float = 0.0
    # How often it said in a row that it has too much to do, this time included.
    overloads: int = 1
    # What an open breaker asks for.
    breaker_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Rest:
    """How long a host rests from the end of a fetch, and because of what."""

    ms: int
    cause: str

    @property
    def is_usual(self) -> bool:
        """Is it what this host rests after each fetch, and not what it asked for this time?

        The rest of an open breaker counts as usual: so its probe stays alone also at a host that
        may have several fetches.
        """
        return self.cause not in ("retry_after", "overload")


@dataclass(frozen=True, slots=True)
class Politeness:
    """The rules for a host's rest, in seconds."""

    factor: float = 5.0
    min_s: float = 1.0
    max_s: float = 60.0
    # After a 429 or 503 that does not say how long: this, doubled each time up to the maximum.
    overload_s: float = 60.0
    overload_max_s: float = 86_400.0
    jitter: float = 0.1

    def rest(self, fetch: Fetch, host: HostRecord, *, chance: float = 0.0) -> Rest:
        """From the end of this fetch to the host's next contact; `chance` in [0, 1) spreads it."""
        least_s = self.min_s if host.delay_s is None else host.delay_s
        adaptive_s = min(self.max_s, self.factor * host.usual_s) if host.delay_s is None else 0.0
        if fetch.status is None or fetch.status >= 500:
            # An error page may come fast; it says nothing about what the host can bear.
            least_s *= 2
        # The first of those that ask for the most is the cause.
        wishes = {
            "minimum" if host.delay_s is None else "host_rule": least_s,
            "rate": host.spacing_s - fetch.duration_s,
            "adaptive": adaptive_s,
            "crawl_delay": host.crawl_delay_s,
            "breaker": host.breaker_s * (1 + self.jitter * chance),
        }
        if fetch.is_overload:
            if fetch.retry_after_s is not None:
                wishes["retry_after"] = fetch.retry_after_s
            else:
                doubled_s = self.overload_s * 2 ** min(host.overloads - 1, 40)
                longest_s = max(self.overload_s, self.overload_max_s)
                wishes["overload"] = min(doubled_s, longest_s) * (1 + self.jitter * chance)
        cause = max(wishes, key=wishes.__getitem__)
        return Rest(ms=round(wishes[cause] * 1000), cause=cause)


def usual_s(before_s: float | None, fetch: Fetch) -> float:
    """A host's usual time for a fetch, after one more. An error never makes it shorter."""
    if before_s is None:
        return fetch.duration_s
    if fetch.duration_s >= before_s:
        return before_s + _SLOWER * (fetch.duration_s - before_s)
    if fetch.is_error:
        return before_s
    return before_s - _FASTER * (before_s - fetch.duration_s)


@dataclass(frozen=True, slots=True)
class HostBreaker:
    """When it opens, and for how long."""

    # Connections that failed in a row, time-outs included; 0: it never opens.
    failures: int = 5
    rest_s: float = 60.0
    max_s: float = 86_400.0

    def is_open(self, failures: int) -> bool:
        """Is it open after so many failures in a row? Then the next fetch is its probe."""
        return 0 < self.failures <= failures

    def rest_after_s(self, failures: int) -> float:
        """Seconds of rest after so many failures in a row; 0 while it is closed."""
        if not self.is_open(failures):
            return 0.0
        doubled_s = self.rest_s * 2 ** min(failures - self.failures, 40)
        return float(min(doubled_s, max(self.rest_s, self.max_s)))
