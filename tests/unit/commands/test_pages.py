"""How times, statuses and domains are written on the command line, and what is not found."""

import argparse
import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from scrapy.settings import Settings

from crawler.commands import pages
from crawler.errors import ConfigurationError, NotFound
from crawler.storage.mongo.reader import KEPT, filter_of
from crawler.storage.reader import Wanted, batch_of
from crawler.urls import DEFAULT
from tests.support.crawlers import project_crawler


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
        (Wanted(rendered=True), {"$and": [{"rendered": True}]}),
    ],
)
def test_a_choice_becomes_a_query(wanted: Wanted, query: dict[str, Any]) -> None:
    assert filter_of(wanted) == query


class LostContent:
    """Reader of one page, whose content is gone."""

    urls = DEFAULT

    def __init__(self, places: dict[str, Any]) -> None:
        self._page = {"url": "http://a.test/", "crawl": "web", "status": 200, "places": places}

    async def metadata(self, *_: Any) -> dict[str, Any]:
        return self._page

    async def crawls(self, _: str) -> list[str]:
        return ["web"]

    async def content(self, _: Any) -> None:
        raise NotFound("x.warc.gz is not in the folder.")


def test_a_page_whose_content_is_gone_is_shown_and_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, chosen = pages.Command.parse(["get", "http://a.test/"])
    with pytest.raises(NotFound, match=r"x\.warc\.gz"):
        asyncio.run(pages._print_page(Settings(), LostContent({"warc": {}}), chosen))  # type: ignore[arg-type]
    assert "status  200" in capsys.readouterr().out
    # No sink was to keep it.
    asyncio.run(pages._print_page(Settings(), LostContent({}), chosen))  # type: ignore[arg-type]
    assert "x.warc.gz is not" in capsys.readouterr().out


def test_the_first_contents_that_cannot_be_read_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = [{"url": f"http://a.test/{number}"} for number in range(4)]
    faults = [NotFound(f"{page['url']} is gone.") for page in found]
    assert batch_of(found, faults, 0).unread == 4
    assert batch_of(found, [NotFound("gone")] * 4, 4).unread == 4
    assert [record.getMessage() for record in caplog.records] == [
        *(f"http://a.test/{number} is gone." for number in range(4)),
        "The content of http://a.test/0 cannot be read: gone",
    ]


def test_tiers_without_mongodb_are_refused_before_anything_else(tmp_path: Any) -> None:
    settings = project_crawler(SINKS="none", CRAWL_DIR=str(tmp_path), MONGO_URI=None).settings
    verb, chosen = pages.Command.parse(["tier"])
    with pytest.raises(ConfigurationError, match="This is for pages in MongoDB"):
        verb.run(settings, chosen)
