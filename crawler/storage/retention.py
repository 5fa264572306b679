"""Decide where the content of a page belongs at its age. Pure: time is an argument.

Content begins in MongoDB. PAGES_KEEP has three ages, of which each may be "-" for never: from the
first on content is in the object store (warm), from the second on in a cheaper class of it (cold),
and from the third on it is deleted (expired). The age counts from the visit that fetched it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Self

from crawler.config.values import value
from crawler.errors import ConfigurationError
from crawler.util.format import seconds

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

WARM, COLD, EXPIRED = "warm", "cold", "expired"
TARGETS = (WARM, COLD, EXPIRED)
# Tier of content in MongoDB: its documents have no such field.
HOT = None
_NEVER = "-"
# Far more than anybody keeps anything; there must be a date so long ago.
_LONGEST_S = 1000 * 365 * 86_400


@dataclass(frozen=True, slots=True)
class Step:
    """Content that is due for a tier: its present tiers, and when it was fetched."""

    to: str
    tiers: tuple[str | None, ...]
    before: datetime
    # None: at any time.
    since: datetime | None


@dataclass(frozen=True, slots=True)
class Keep:
    """Ages in seconds at which content becomes warm, cold and expired; None: never."""

    warm_s: int | None = None
    cold_s: int | None = None
    expired_s: int | None = None

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read ages such as 7d/180d/5y; ValueError says what is wrong."""
        parts = [part.strip() for part in text.split("/")]
        if len(parts) != 3:
            raise ValueError("give three ages, as 7d/180d/5y, with - for never")
        ages = [_age_s(part) for part in parts]
        known = [age_s for age_s in ages if age_s is not None]
        if not known:
            raise ValueError("give an age, as 7d/-/-, or leave it out to keep everything")
        if any(first >= second for first, second in pairwise(known)):
            raise ValueError("give ages that grow, as 7d/180d/5y")
        return cls(*ages)

    def steps(self, now: datetime) -> list[Step]:
        """List what is due for each tier. No content is due for two of them.

        The newest comes first: what makes room in MongoDB does not wait for the others.
        """
        found: list[Step] = []
        since = None
        for to, age_s, tiers in (
            (EXPIRED, self.expired_s, (HOT, WARM, COLD)),
            (COLD, self.cold_s, (HOT, WARM)),
            (WARM, self.warm_s, (HOT,)),
        ):
            if age_s is not None:
                before = now - timedelta(seconds=age_s)
                found.insert(0, Step(to, tiers, before, since))
                since = before
        return found


def _age_s(text: str) -> int | None:
    if text == _NEVER:
        return None
    found_s = seconds(text)
    if found_s is None or found_s > _LONGEST_S:
        raise ValueError(f"{text!r} is no age; give ages as 12h, 7d, 4w or 5y, and - for never")
    return found_s


@dataclass(frozen=True, slots=True)
class Retention:
    """Settings of the tiers: when content moves, and where to."""

    keep: Keep
    # The object store; None if content is only deleted.
    url: str | None = None
    cold_class: str = ""

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self | None:
        """Read the settings; None if content stays where it is."""
        text, url = value(settings, "PAGES_KEEP"), value(settings, "PAGES_TIER_URL")
        cold_class = value(settings, "PAGES_TIER_COLD_CLASS") or ""
        if text in (None, ""):
            return None
        try:
            keep = Keep.from_text(str(text))
        except ValueError as error:
            raise ConfigurationError(f"PAGES_KEEP is {text!r}; {error}.") from error
        if (keep.warm_s, keep.cold_s) != (None, None) and not url:
            raise ConfigurationError(
                f"PAGES_KEEP is {text!r}, and content has nowhere to move; set PAGES_TIER_URL to "
                "s3://bucket/prefix, gs://…, az://… or file:///folder."
            )
        # A folder has no classes.
        if keep.cold_s is not None and not cold_class and not str(url).startswith("file:"):
            raise ConfigurationError(
                f"PAGES_KEEP is {text!r}; set PAGES_TIER_COLD_CLASS to the storage class of cold "
                "content, such as GLACIER_IR, or write - for its age."
            )
        return cls(keep, url, cold_class)
