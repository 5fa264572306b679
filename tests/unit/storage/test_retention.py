"""Which content is due for which tier, and what PAGES_KEEP may be."""

from datetime import UTC, datetime, timedelta

import pytest
from scrapy.settings import Settings

from crawler.errors import ConfigurationError
from crawler.storage.retention import Keep, Retention

NOW = datetime(2026, 5, 6, tzinfo=UTC)
DAY = timedelta(days=1)
YEAR = 365 * DAY


def due(text: str, tier: str | None, age: timedelta) -> str | None:
    """The tier that content of this tier and age moves to; None if it stays."""
    at = NOW - age
    found = [
        step.to
        for step in Keep.from_text(text).steps(NOW)
        if tier in step.tiers and at < step.before and (step.since is None or step.since <= at)
    ]
    assert len(found) <= 1, "due for several tiers"
    return found[0] if found else None


@pytest.mark.parametrize(
    ("text", "tier", "age", "to"),
    [
        ("7d/180d/5y", None, 6 * DAY, None),
        # Older than the age, not as old.
        ("7d/180d/5y", None, 7 * DAY, None),
        ("7d/180d/5y", None, 8 * DAY, "warm"),
        ("7d/180d/5y", "warm", 8 * DAY, None),
        ("7d/180d/5y", "cold", 8 * DAY, None),
        ("7d/180d/5y", "warm", 181 * DAY, "cold"),
        # A tier may be left out: nobody moved the content in time.
        ("7d/180d/5y", None, 181 * DAY, "cold"),
        ("7d/180d/5y", "cold", 181 * DAY, None),
        ("7d/180d/5y", None, 6 * YEAR, "expired"),
        ("7d/180d/5y", "warm", 6 * YEAR, "expired"),
        ("7d/180d/5y", "cold", 6 * YEAR, "expired"),
        # Gone: only its object is left.
        ("7d/180d/5y", "gone", 6 * YEAR, None),
        ("7d/-/-", None, 6 * YEAR, "warm"),
        ("7d/-/-", "warm", 6 * YEAR, None),
        ("-/180d/-", None, 8 * DAY, None),
        ("-/180d/-", None, 181 * DAY, "cold"),
        ("-/-/5y", None, 4 * YEAR, None),
        ("-/-/5y", None, 6 * YEAR, "expired"),
        ("7d/-/5y", "warm", 6 * YEAR, "expired"),
        ("0s / 4w / -", None, timedelta(seconds=1), "warm"),
        ("0s / 4w / -", None, 29 * DAY, "cold"),
    ],
)
def test_content_is_due_by_its_tier_and_its_age(
    text: str, tier: str | None, age: timedelta, to: str | None
) -> None:
    assert due(text, tier, age) == to


def settings(**values: str) -> Settings:
    defaults = dict.fromkeys(("PAGES_KEEP", "PAGES_TIER_URL", "PAGES_TIER_COLD_CLASS"))
    return Settings({**defaults, **values})


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("7d", "three ages, as 7d/180d/5y"),
        ("7d/180d", "three ages"),
        ("7d/180d/5y/-", "three ages"),
        ("-/-/-", "give an age"),
        ("7d/7d/5y", "ages that grow"),
        ("7d/-/1d", "ages that grow"),
        ("soon/-/-", "'soon' is no age"),
        ("7d/-/-5y", "'-5y' is no age"),
        ("7d//5y", "'' is no age"),
        ("7d/-/999999999y", "is no age"),
    ],
)
def test_ages_that_cannot_be_read_are_refused(text: str, hint: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Retention.from_settings(settings(PAGES_KEEP=text, PAGES_TIER_URL="file:///tmp"))
    assert f"PAGES_KEEP is '{text}'" in str(refused.value)
    assert hint in str(refused.value)


def test_content_that_moves_needs_a_place_and_cold_content_a_class() -> None:
    for text in ("7d/-/-", "-/180d/-"):
        with pytest.raises(ConfigurationError, match="set PAGES_TIER_URL"):
            Retention.from_settings(settings(PAGES_KEEP=text))
    bucket = {"PAGES_TIER_URL": "s3://pages/old"}
    with pytest.raises(ConfigurationError, match="set PAGES_TIER_COLD_CLASS"):
        Retention.from_settings(settings(PAGES_KEEP="7d/180d/-", **bucket))
    assert Retention.from_settings(settings(PAGES_KEEP="7d/-/-", **bucket)) is not None
    assert Retention.from_settings(settings(PAGES_KEEP="-/-/5y")) is not None


def test_without_ages_content_stays() -> None:
    assert Retention.from_settings(settings(PAGES_TIER_URL="s3://pages")) is None
