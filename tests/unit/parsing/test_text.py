"""Plain text, Markdown and JSON are read for their words, titles and links."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.parsing import sniff
from crawler.parsing.document import Document, DocumentLimits
from crawler.parsing.documents import LIGHT, read_document

URL = "http://h.test/dir/file"
LIMITS = DocumentLimits()
README = """---
title: "The Guide"
author: Ann Smith
lang: en
date: 2024-02-03
lastmod: 2024-02-04T10:00:00+02:00
---

# Getting *started*

[![build](badge.svg)](http://ci.test/build) Read the [guide](guide.md "Title") or <http://a.test/x>,
also https://b.test/y. See [the reference][ref] and `code_name`.

Install
-------

```python
# no heading
print("[no](link)")
```

* one **bold** word
* [two](two_(second).md)

## End ##

[ref]: /reference
"""


def read(
    kind: str, text: str | bytes, content_type: str = "", limits: DocumentLimits = LIMITS
) -> Document:
    body = text.encode() if isinstance(text, str) else text
    return read_document(kind, body, URL, limits=limits, content_type=content_type)


def test_markdown_has_facts_headings_links_and_words() -> None:
    found = read(sniff.MARKDOWN, README)
    assert found.media_type == sniff.MARKDOWN
    assert (found.title, found.author, found.language) == ("The Guide", "Ann Smith", "en")
    assert found.published_at == datetime(2024, 2, 3, tzinfo=UTC)
    assert found.updated_at == datetime(2024, 2, 4, 8, tzinfo=UTC)
    assert found.headings == ["# Getting started", "## Install", "## End"]
    assert found.links == [
        "guide.md",
        "http://ci.test/build",
        "http://a.test/x",
        "https://b.test/y",
        "two_(second).md",
        "/reference",
    ]
    assert found.main_text.split("\n") == [
        "Getting started",
        "build Read the guide or <http://a.test/x>,",
        "also https://b.test/y. See [the reference][ref] and code_name.",
        "Install",
        "# no heading",
        'print("[no](link)")',
        "one bold word",
        "two",
        "End",
    ]
    assert found.markdown.startswith("# Getting *started*")
    assert found.text == " ".join(found.main_text.split())


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("**Bold** - words", "Bold - words"),
        ("  a line - that goes on", "a line - that goes on"),
        ("- [x] done * twice", "done * twice"),
        ("> > - quoted > item", "quoted > item"),
        (">quoted", "quoted"),
    ],
)
def test_only_marks_at_the_beginning_of_a_line_are_left_out(line: str, text: str) -> None:
    assert read(sniff.MARKDOWN, line).text == text


@pytest.mark.parametrize(
    ("kind", "unit"),
    [
        *((sniff.MARKDOWN, unit) for unit in (" ", "- ", "> ", "[", "[a](", "<a ", "*", "`")),
        *((kind, unit) for kind in (sniff.JSON, sniff.JSON_FEED) for unit in ('\\"', '"\\', '" ')),
    ],
)
def test_hostile_text_takes_time_with_its_size_only(kind: str, unit: str) -> None:
    """With the square of its size it would take an hour, and this test ends before."""
    read(kind, f"{unit * (400_000 // len(unit))}x")


def test_the_first_heading_is_the_title() -> None:
    found = read(sniff.MARKDOWN, "words\n\nTitle of it\n===\n\n# Other\n\n- - -\n")
    assert (found.title, found.headings) == ("Title of it", ["# Title of it", "# Other"])


def test_text_is_in_the_encoding_that_the_server_declares() -> None:
    found = read(sniff.PLAIN, "größer\n als".encode("latin-1"), "text/plain; charset=latin-1")
    assert (found.text, found.charset) == ("größer als", "cp1252")


def test_json_is_text_of_its_strings() -> None:
    found = read(sniff.JSON, r'{"name": "a \u00e4 \"b\"", "n": [1, {"k": "c\nd"}], "cut": "x", "y')
    assert found.text == 'a ä "b" c d x'
    assert (found.links, found.charset) == ([], "utf-8")


def test_half_a_character_is_replaced() -> None:
    assert read(sniff.JSON, r'["a\ud800b"]').text == "a?b"


def test_a_json_feed_has_a_title_and_links() -> None:
    found = read(
        sniff.JSON_FEED,
        """{"version": "https://jsonfeed.org/version/1.1", "title": "News", "language": "de",
        "home_page_url": "/home", "next_url": "/2", "authors": [{"name": "Ann"}],
        "items": [{"id": "1", "url": "/a", "title": "First", "content_html": "<p>Some<br>text"},
        {"id": "http://h.test/no", "external_url": "/b", "image": "/c.png"}]}""",
    )
    assert (found.title, found.author, found.language) == ("News", "Ann", "de")
    assert found.links == ["/home", "/2", "/a", "/b"]
    assert found.text == "News First Some text"


@pytest.mark.parametrize("kind", sorted(LIGHT))
def test_text_has_a_limit(kind: str) -> None:
    found = read(kind, '"word" ' * 1000, limits=DocumentLimits(max_text_chars=70))
    assert 0 <= len(found.text) <= 70
    assert found.cut == "text"


@pytest.mark.parametrize("char", "ä語😀")
@pytest.mark.parametrize("before", range(4))
def test_text_that_is_cut_keeps_its_encoding(char: str, before: int) -> None:
    text = "x" * before + char * 100
    found = read(sniff.PLAIN, text, limits=DocumentLimits(max_text_chars=8))
    assert (found.text, found.charset, found.cut) == (text[:8], "utf-8", "text")


def test_links_have_a_limit() -> None:
    found = read(sniff.MARKDOWN, "[a](b) " * 20, limits=DocumentLimits(max_links=5))
    assert (len(found.links), found.cut) == (5, "links")


@pytest.mark.parametrize("kind", sorted(LIGHT))
@given(text=st.text(st.sampled_from('[](){}"\\:*_`<>#=-~ \nab1u/h'), max_size=100))
def test_any_text_is_read(kind: str, text: str) -> None:
    found = read(kind, text)
    assert found.media_type == kind
    assert found.text.isprintable() or "\\u" in text
