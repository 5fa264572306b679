"""Decide what becomes of a URL whose fetch failed. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from crawler.config.values import fill, setting, value
from crawler.frontier.entry import MAX_ATTEMPTS

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again after a wait."""

    wait_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class Bury:
    """Give up: the URL goes to the dead-letter queue."""

    reason: str


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how late a failed fetch is repeated."""

    times: int = setting("RETRY_TIMES")
    base_s: float = setting("RETRY_BASE")
    max_s: float = setting("RETRY_MAX")
    jitter: float = 0.1

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        times = value(settings, "RETRY_TIMES") if settings.getbool("RETRY_ENABLED") else 0
        # An entry counts no further: with more a URL that fails would never end.
        return fill(cls, settings, times=min(times, MAX_ATTEMPTS))

    def is_last(self, attempts: int, times: int | None = None) -> bool:
        """Is the attempt that follows so many earlier ones the last? Some URLs have other times."""
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
        """Next step after so many earlier attempts; `chance` in [0, 1) spreads the waits."""
        if self.is_last(attempts, times):
            return Bury(reason)
        wait = min(self.max_s, self.base_s * 2**attempts)
        wait = max(wait * (1 + self.jitter * chance), at_least_s)
        return Retry(wait_ms=round(wait * 1000), reason=reason)
