"""How times, statuses and domains are written on the command line."""

import argparse
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from crawler.commands import pages
from crawler.storage.mongo.reader import KEPT, filter_of
from crawler.storage.reader import Wanted


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("45m", timedelta(minutes=45)),
        ("2h", timedelta(hours=2)),
        ("3d", timedelta(days=3)),
        ("1.5w", timedelta(days=10.5)),
        ("10s", timedelta(seconds=10)),
    ],
)
def test_a_time_span_counts_back_from_now(text: str, span: timedelta) -> None:
    before = datetime.now(UTC)
    assert before - span <= pages.since(text) <= datetime.now(UTC) - span


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-05-31", datetime(2026, 5, 31, tzinfo=UTC)),
        ("2026-05-31T12:30", datetime(2026, 5, 31, 12, 30, tzinfo=UTC)),
        ("2026-05-31T12:30+02:00", datetime(2026, 5, 31, 10, 30, tzinfo=UTC)),
        ("2026-05-31T12:30Z", datetime(2026, 5, 31, 12, 30, tzinfo=UTC)),
    ],
)
def test_a_time_without_a_zone_is_utc(text: str, at: datetime) -> None:
    assert pages.since(text) == at


@pytest.mark.parametrize(
    ("text", "codes"),
    [("200", (200, 200)), ("4xx", (400, 499)), ("5XX", (500, 599)), ("0", (0, 0))],
)
def test_a_status_is_a_code_or_a_class(text: str, codes: tuple[int, int]) -> None:
    assert pages.statuses(text) == codes


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (pages.since, "yesterday"),
        (pages.since, "2y"),
        (pages.since, "999999999w"),
        (pages.since, "199999w"),
        (pages.since, ""),
        (pages.age, "1e3h"),
        (pages.age, "9999999999999999999999d"),
        (pages.statuses, "20"),
        (pages.statuses, "600"),
        (pages.statuses, "2x"),
        (pages.domain, "http://example.com/"),
        (pages.domain, "example"),
        (pages.domain, ""),
    ],
)
def test_what_is_wrong_is_named(read: Callable[[str], Any], text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is "):
        read(text)


@pytest.mark.parametrize(
    ("wanted", "query"),
    [
        (Wanted(), {}),
        (Wanted(domain="example.co.uk"), {"$and": [{"domain": "example.co.uk"}]}),
        (Wanted(domain="www.example.co.uk"), {"$and": [{"host": "www.example.co.uk"}]}),
        (Wanted(statuses=(404, 404)), {"$and": [{"status": 404}]}),
        (Wanted(statuses=(400, 499)), {"$and": [{"status": {"$gte": 400, "$lte": 499}}]}),
        (Wanted(kept=True, reason="x"), {"$and": [KEPT, {"reason": "x"}]}),
    ],
)
def test_a_choice_becomes_a_query(wanted: Wanted, query: dict[str, Any]) -> None:
    assert filter_of(wanted) == query
