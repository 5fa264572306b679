"""A crawl of millions stays readable."""

import logging

import pytest
from scrapy import Request, Spider
from scrapy.exceptions import DropItem
from scrapy.http import Response
from twisted.python.failure import Failure

from crawler.errors import NotStored
from crawler.monitoring.logs import LogFormatter
from tests.support.crawlers import project_crawler

RESPONSE = Response("http://h.test/")
SPIDER = Spider("a")
SPIDER.crawler = project_crawler()


def test_lines_about_single_urls_are_for_debugging() -> None:
    form = LogFormatter()
    dropped = form.dropped({}, DropItem("why"), RESPONSE, SPIDER)
    failed = form.download_error(Failure(OSError("x")), Request("http://h.test/"), SPIDER)
    assert {dropped["level"], failed["level"]} == {logging.DEBUG}


def test_items_are_not_printed() -> None:
    assert LogFormatter().scraped({"body": "x"}, RESPONSE, SPIDER) is None


def test_errors_in_items_stay_errors() -> None:
    record = LogFormatter().item_error({}, ValueError("x"), RESPONSE, SPIDER)
    assert record["level"] == logging.ERROR
    # Whoever could not store them has said so, once.
    record = LogFormatter().item_error({}, NotStored("away"), RESPONSE, SPIDER)
    assert record["level"] == logging.DEBUG


def test_pages_that_are_not_read_at_the_end_of_a_crawl_are_no_errors() -> None:
    for error, level in ((ValueError("x"), logging.ERROR), (NotStored("end"), logging.DEBUG)):
        record = LogFormatter().spider_error(
            Failure(error), Request("http://h.test/"), RESPONSE, SPIDER
        )
        assert record["level"] == level


def test_a_fetched_page_is_a_line_only_where_somebody_sees_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine = logging.getLogger("scrapy.core.engine")
    for logger in (engine, logging.getLogger("scrapy"), logging.root):
        monkeypatch.setattr(logger, "handlers", [])
    # By its own method: loggers remember which levels are on.
    caplog.set_level(logging.DEBUG, engine.name)
    for logger, level, is_seen in (
        (logging.root, logging.INFO, False),
        (logging.root, logging.DEBUG, True),
        (engine, logging.DEBUG, True),
    ):
        handler = logging.Handler(level)
        logger.addHandler(handler)
        line = LogFormatter().crawled(Request("http://h.test/"), RESPONSE, SPIDER)
        assert (line is not None) == is_seen
        logger.removeHandler(handler)
