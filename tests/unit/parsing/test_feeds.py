"""When the pages of a feed changed."""

from datetime import UTC, datetime

import pytest

from crawler.parsing.feeds import read_feed

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()


def times_of(feed: str) -> dict[str, float]:
    document = read_feed(feed.encode(), "http://h.test/feed", max_links=10)
    assert document is not None
    return document.link_times


@pytest.mark.parametrize(
    "feed",
    [
        (
            "<rss><channel><pubDate>Sun, 01 Feb 2026 00:00:00 GMT</pubDate><link>/</link><item>"
            "<link>/a</link><pubDate>Fri, 02 Jan 2026 03:04:05 GMT</pubDate></item></channel></rss>"
        ),
        (
            "<rss><channel><item><guid>http://h.test/a</guid>"
            "<pubDate>Fri, 02 Jan 2026 03:04:05 +0000</pubDate></item></channel></rss>"
        ),
        (
            '<feed xmlns="http://www.w3.org/2005/Atom"><updated>2026-02-01T00:00:00Z</updated><entry>'
            '<published>2025-01-01T00:00:00Z</published><link href="/a"/>'
            "<updated>2026-01-02T04:04:05+01:00</updated></entry></feed>"
        ),
        (
            '<rdf:RDF xmlns:rdf="http://r" xmlns:dc="http://d"><item><link>/a</link>'
            "<dc:date>2026-01-02T03:04:05Z</dc:date></item></rdf:RDF>"
        ),
    ],
    ids=["rss", "guid", "atom", "rdf"],
)
def test_the_newest_date_of_an_item_is_that_of_its_page(feed: str) -> None:
    assert times_of(feed) == {"http://h.test/a": AT}


def test_items_without_a_date_say_nothing() -> None:
    feed = "<rss><channel><item><link>/a</link><pubDate>soon</pubDate></item></channel></rss>"
    assert times_of(feed) == {}
