"""Decide how long a host is left alone after a fetch. Pure: no I/O, no clock.

A host that does not answer has a circuit breaker, a function of the failures in a row:

    closed ─failures─▶ open ─delay─▶ half-open ─the probe fails─▶ open, for twice as long
       ▲                                 └─────── it works ──┐
       └─────────────────────────────────────────────────────┘

The failures are counted for the fleet, and the delay is the host's own in the frontier. So the
first lease after the delay is the probe: no other process contacts the host before it has ended.
"""

from __future__ import annotations

from dataclasses import dataclass

from crawler.config.values import setting
from crawler.util.backoff import Backoff

OVERLOAD_STATUSES = frozenset({429, 503})
# Delays after overloads and failures grow up to a day, and are spread by this share.
_MAX_S = 86_400.0
_JITTER = 0.1
# A host that gets slower is believed sooner than one that gets faster.
_SLOWER, _FASTER = 0.5, 0.25


@dataclass(frozen=True, slots=True)
class Fetch:
    """Result of a fetch. `status` is None when no answer came."""

    duration_s: float
    status: int | None
    retry_after_s: float | None = None

    @property
    def is_overload(self) -> bool:
        """Whether the host says that it is overloaded."""
        return self.status in OVERLOAD_STATUSES

    @property
    def is_error(self) -> bool:
        return self.status is None or self.status >= 400


@dataclass(frozen=True, slots=True)
class HostRecord:
    """Facts about a host at the end of a fetch. Times in seconds."""

    # Usual time of a fetch, this one included.
    usual_s: float
    crawl_delay_s: float = 0.0
    # Delay that was set for this host; it replaces the adaptive one.
    delay_s: float | None = None
    # From the start of a fetch to the start of the next.
    spacing_s: float = 0.0
    # Overloads and failed connections in a row, this one included.
    overloads: int = 1
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Delay:
    """Delay of a host from the end of a fetch to the next contact, and its cause."""

    ms: int
    cause: str

    @property
    def is_usual(self) -> bool:
        """Whether it is the host's delay after each fetch, not one that it asked for this time.

        The delay of an open breaker counts as usual: so the probe stays alone also at a host that
        may have several fetches at a time.
        """
        return self.cause not in ("retry_after", "overload")


@dataclass(frozen=True, slots=True)
class DelayPolicy:
    """Rules for the delay of hosts."""

    # Times the usual fetch time, at least `min_s`, at most `max_s`.
    factor: float = setting("DELAY_FACTOR")
    min_s: float = setting("DELAY_MIN")
    max_s: float = setting("DELAY_MAX")
    # After a 429 or 503 without Retry-After.
    overload_s: float = setting("OVERLOAD_REST")
    # After so many failed connections in a row, time-outs included; 0: the breaker never opens.
    breaker_failures: int = setting("BREAKER_FAILURES")
    breaker_s: float = setting("BREAKER_REST")

    def delay(self, fetch: Fetch, host: HostRecord, *, chance: float = 0.0) -> Delay:
        """Return the delay from the end of this fetch; `chance` in [0, 1) spreads it."""
        least_s = self.min_s if host.delay_s is None else host.delay_s
        adaptive_s = min(self.max_s, self.factor * host.usual_s) if host.delay_s is None else 0.0
        if fetch.status is None or fetch.status >= 500:
            # An error page may come fast; it says nothing about what the host can bear.
            least_s *= 2
        # The longest decides, the first of several that are equal is the cause.
        candidates = {
            "minimum" if host.delay_s is None else "host_rule": least_s,
            "rate": host.spacing_s - fetch.duration_s,
            "adaptive": adaptive_s,
            "crawl_delay": host.crawl_delay_s,
        }
        if self.is_broken(host.failures):
            probes = host.failures - self.breaker_failures + 1
            candidates["breaker"] = _growing_s(self.breaker_s, probes, chance)
        if fetch.is_overload:
            if fetch.retry_after_s is not None:
                candidates["retry_after"] = fetch.retry_after_s
            else:
                candidates["overload"] = _growing_s(self.overload_s, host.overloads, chance)
        cause = max(candidates, key=candidates.__getitem__)
        return Delay(ms=round(candidates[cause] * 1000), cause=cause)

    def is_broken(self, failures: int) -> bool:
        """Tell whether the breaker is open after so many failures in a row."""
        return 0 < self.breaker_failures <= failures


def _growing_s(base_s: float, times: int, chance: float) -> float:
    return Backoff(base_s, max(base_s, _MAX_S), jitter=_JITTER).delay_s(times, chance)


def usual_s(before_s: float | None, fetch: Fetch) -> float:
    """Return a host's usual fetch time after one more fetch. An error never makes it shorter."""
    if before_s is None:
        return fetch.duration_s
    if fetch.duration_s >= before_s:
        return before_s + _SLOWER * (fetch.duration_s - before_s)
    if fetch.is_error:
        return before_s
    return before_s - _FASTER * (before_s - fetch.duration_s)
