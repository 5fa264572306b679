"""Decide whether a failed fetch is repeated, and when. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from crawler.config.values import fill, setting, value
from crawler.frontier.entry import MAX_ATTEMPTS
from crawler.util.backoff import Backoff

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


@dataclass(frozen=True, slots=True)
class Retry:
    """Decision to fetch a URL again after a delay."""

    delay_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class Bury:
    """Decision to give up on a URL: it becomes a dead letter."""

    reason: str


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Number of retries, and the delays before them."""

    times: int = setting("RETRY_TIMES")
    base_s: float = setting("RETRY_BASE")
    max_s: float = setting("RETRY_MAX")
    jitter: float = 0.1

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        times = value(settings, "RETRY_TIMES") if settings.getbool("RETRY_ENABLED") else 0
        # An entry does not count further: a URL that fails would never end.
        return fill(cls, settings, times=min(times, MAX_ATTEMPTS))

    def is_last(self, attempts: int, times: int | None = None) -> bool:
        """Tell whether the next attempt is the last one; `times` is a URL's own limit."""
        return attempts >= (self.times if times is None else times)

    def decide(
        self,
        reason: str,
        attempts: int,
        *,
        chance: float,
        at_least_s: float = 0.0,
        times: int | None = None,
    ) -> Retry | Bury:
        """Decide after so many earlier attempts; `chance` in [0, 1) spreads the delays.

        `at_least_s` is what the host asked for with Retry-After.
        """
        if self.is_last(attempts, times):
            return Bury(reason)
        backoff = Backoff(self.base_s, self.max_s, jitter=self.jitter)
        delay_s = max(backoff.delay_s(attempts + 1, chance), at_least_s)
        return Retry(delay_ms=round(delay_s * 1000), reason=reason)
