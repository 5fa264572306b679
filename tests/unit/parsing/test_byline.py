"""Author, dates and headings of HTML pages."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from crawler.parsing.byline import date_of
from crawler.parsing.document import Document
from crawler.parsing.html import HtmlReader

URL = "https://example.com/story"
MAY_1 = datetime(2024, 5, 1, tzinfo=UTC)


def read(html: str, url: str = URL) -> Document:
    return HtmlReader(max_links=9).read(html, url)


def linked_data(value: object) -> str:
    return f'<script type="application/ld+json">{json.dumps(value)}</script>'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-05-01", MAY_1),
        ("2024/5/1", MAY_1),
        ("2024-05-01T10:30:05Z", MAY_1.replace(hour=10, minute=30, second=5)),
        ("2024-05-01T10:30:05.123+0000", MAY_1.replace(hour=10, minute=30, second=5)),
        ("2024-05-01 9:05:00 UTC", MAY_1.replace(hour=9, minute=5)),
        ("2024-05-01T10:30+05:30", MAY_1.replace(hour=5)),
        ("2024-05-01 10:30:00 -0800", MAY_1.replace(hour=18, minute=30)),
        ("Wed, 01 May 2024 02:00:00 GMT", MAY_1.replace(hour=2)),
        ("1 May 2024 07:09 GMT", MAY_1.replace(hour=7, minute=9)),
        ("May 1st, 2024", MAY_1),
        ("1 May 2024", MAY_1),
        ("20240501", MAY_1),
        ("20241501", None),
        ("Published: Wednesday, May 1, 2024", MAY_1),
        *dict.fromkeys(
            [
                *("", "yesterday", "2024", "2024-13-01", "2024-02-30", "0001-01-01T00:00:00Z"),
                *("1970-01-01T00:00:00Z", "2024-05-01T25:00", "2024-05-01T10:00+99:00"),
                *("May 45, 2024", "9" * 5000, "Mon, 99 May 2024 02:00:00 GMT", "\x00"),
            ]
        ).items(),
    ],
)
def test_dates_are_read_in_many_forms(text: str, expected: datetime | None) -> None:
    assert date_of(text) == expected


def test_zone_of_a_date_is_kept() -> None:
    found = date_of("2024-05-01T10:30:00-05:00")
    assert found is not None
    assert found.utcoffset() == timedelta(hours=-5)
    assert found == datetime(2024, 5, 1, 10, 30, tzinfo=timezone(timedelta(hours=-5)))


@pytest.mark.parametrize(
    "html",
    [
        '<meta property="article:published_time" content="2024-05-01">',
        '<meta itemprop=datePublished content="2024-05-01T00:00:00+00:00">',
        '<meta name=DC.date.issued content="2024-05-01">',
        linked_data({"@graph": [{"@type": "NewsArticle", "datePublished": "2024-05-01"}]}),
        "<time datetime=2024-05-01>May 1</time>",
        "<time class='entry-date updated' datetime=2024-05-01>" + "<time datetime=2023-01-01>" * 30,
        '<meta name=date content="soon"><meta name=pubdate content="2024-05-01">',
        # The more certain one counts, wherever it stands.
        "<meta name=date content=2020-01-01><meta property=article:published content=2024-05-01>",
    ],
)
def test_date_of_publication(html: str) -> None:
    assert read(html).published_at == MAY_1
    assert read(html).updated_at in (None, MAY_1)


@pytest.mark.parametrize(
    "html",
    [
        '<meta property="article:modified_time" content="2024-05-01">',
        '<meta property="og:updated_time" content="2024-05-01">',
        linked_data([{"dateModified": "2024-05-01"}]),
        "<time class=updated datetime=2024-05-01>",
    ],
)
def test_date_of_update(html: str) -> None:
    assert read(html).updated_at == MAY_1
    assert read(html).published_at is None


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://h.test/2024/05/01/story", MAY_1),
        ("https://h.test/world/2024/may/01/story", MAY_1),
        ("https://h.test/posts/2024-05-01-story.html", MAY_1),
        ("https://h.test/20240501123/story", MAY_1),
        ("https://h.test/2024/05/story", None),
        ("https://h.test/2024/99/01/", None),
        ("https://h.test/20249901/", None),
        ("https://h.test/1234/05/01/", None),
    ],
)
def test_date_in_a_url_is_the_last_resort(url: str, expected: datetime | None) -> None:
    assert read("<p>x", url).published_at == expected
    dated = '<meta property="article:published_time" content="2020-02-02">'
    assert read(dated, url).published_at == datetime(2020, 2, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<meta name=author content='By  Ann Lee'>", "Ann Lee"),
        ("<meta property=article:author content='https://social.test/ann'>", ""),
        (linked_data({"author": {"@type": "Person", "name": "Ann Lee"}}), "Ann Lee"),
        (linked_data({"author": [{"name": "Ann Lee"}, {"name": "Bo"}]}), "Ann Lee, Bo"),
        (linked_data({"author": ["Ann Lee", "Bo"]}), "Ann Lee, Bo"),
        (linked_data({"author": "Zo\u00eb"}), "Zoë"),
        (linked_data({"author": {"@id": "#ann"}, "publisher": {"name": "News"}}), ""),
        ("<a rel='author nofollow' href=/ann>Ann Lee</a>", "Ann Lee"),
        ("<div class=byline>By <b>Ann Lee</b> | May 1, 2024</div>", "Ann Lee"),
        ("<span itemprop=author>Ann Lee</span>", "Ann Lee"),
        ("<a rel=author href=/>Follow @ann</a><p class=byline>Ann Lee", "Ann Lee"),
        ("<div class=byline>" + "word " * 50, ""),
        ("<meta name=author content=''>", ""),
    ],
)
def test_author(html: str, expected: str) -> None:
    assert read(html).author == expected


def test_headings_are_lines_of_markdown_in_page_order() -> None:
    html = "<h1> A\n<i>title</i></h1><h3>1. *B*</h3><h2></h2><h2>C<h6>D</h6>"
    assert read(html).headings == ["# A title", "### 1\\. \\*B\\*", "## C", "###### D"]


def test_many_and_nested_headings_are_bounded() -> None:
    assert len(read("<h2>a</h2>" * 3000).headings) == 500
    found = read("<h1><div>" + "x" * 1000 + "<h1><div>" * 500).headings
    assert max(map(len, found)) <= 502


@pytest.mark.parametrize(
    "inner", ['"author": [' * 50_000, '"author": {"name' * 50_000, '"datePublished": "' * 50_000]
)
def test_hostile_linked_data_is_read(inner: str) -> None:
    found = read(f'<script type="application/ld+json">{inner}</script>' * 3)
    assert found.author in ("", "author")
    assert found.published_at is None
