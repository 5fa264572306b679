"""Documents: JSON and charsets; bodies come back as they were, and zstd is as good as level 3."""

import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest
import zstandard

from benchmarks.crawl.pages import Size, page
from crawler.errors import CrawlerError
from crawler.items import Page
from crawler.storage.documents import as_json, charset_of, optional_fields, texts_of
from crawler.storage.mongo.sink import CODECS, MongoSink, compressor, decompress
from crawler.storage.reader import StoredContent
from tests.support.corpus import articles

KB = 1024


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 1, 32 * KB, 32 * KB + 1, 256 * KB, 256 * KB + 1, 2000 * KB])
def test_a_body_comes_back_as_it_was(codec: str, size: int) -> None:
    compress = compressor(codec)
    for body in (b"<p>" * size, random.Random(size).randbytes(size)):
        assert decompress(codec, compress(body[:size])) == body[:size]


def test_what_zstd_wrote_is_read_by_its_one_call() -> None:
    body = page(1, Size(seeds=1, hosts=1), 80)
    assert zstandard.decompress(compressor("zstd")(body)) == body


def test_made_pages_shrink_nearly_as_by_level_three() -> None:
    web = Size(seeds=100, hosts=10)
    # Words at random, the worst case.
    assert larger([page(number, web, 80) for number in range(40)]) <= 1.05


@pytest.mark.parametrize("size", [10 * KB, 30 * KB, 250 * KB, 2000 * KB])
def test_real_pages_shrink_nearly_as_by_level_three(size: int) -> None:
    assert larger([article.body[:size] for article in articles()]) <= 1.02


def larger(bodies: list[bytes]) -> float:
    """How many times as large as by level 3 the bodies become."""
    compress, usual = compressor("zstd"), zstandard.ZstdCompressor(level=3).compress
    return sum(len(compress(body)) for body in bodies) / sum(len(usual(body)) for body in bodies)


@pytest.mark.parametrize("codec", ["zstd", "zlib"])
def test_a_damaged_body_is_told_in_words(codec: str) -> None:
    with pytest.raises(CrawlerError, match=r"damaged .* crawl it again"):
        decompress(codec, compressor(codec)(b"page" * 100)[:-5])


def test_a_codec_of_another_version_is_named() -> None:
    with pytest.raises(CrawlerError, match="'rot13'"):
        decompress("rot13", b"")


def test_numbers_that_json_does_not_have_are_null() -> None:
    value = {"a": [float("nan"), 1.5, (float("-inf"),)], "b": {"c": float("inf")}, "d": "NaN"}
    text = as_json(value)
    assert json.loads(text, parse_constant=pytest.fail) == {
        "a": [None, 1.5, [None]],
        "b": {"c": None},
        "d": "NaN",
    }


@pytest.mark.parametrize("charset", ["punycode", "PUNYCODE", "idna", "", None])
def test_charsets_that_no_page_has_are_utf_8(charset: str | None) -> None:
    assert charset_of(charset) == "utf-8"
    assert StoredContent("", "世界".encode(), "").decoded(charset) == "世界"


@pytest.mark.parametrize("charset", ["undefined", "hex", "no-such", "a\0b"])
def test_charsets_that_python_cannot_use_are_taken_as_utf_8(charset: str) -> None:
    assert StoredContent("", "世界".encode(), "").decoded(charset) == "世界"


@pytest.mark.parametrize(("codec", "is_inline"), [("zstd", True), ("none", True), ("zlib", False)])
def test_a_codec_that_is_slow_leaves_usual_pages_to_a_thread(codec: str, is_inline: bool) -> None:
    async def connect() -> Any:
        raise NotImplementedError

    sink = MongoSink(connect, "db", crawl="web", codec=codec, concern={}, timeout_s=1)
    assert (sink.inline_bytes > 140_000) is is_inline


def test_main_text_and_markdown_are_stored_only_if_a_page_has_them() -> None:
    page = Page("http://a.test/", "http://a.test/", 200, datetime(2024, 5, 1, tzinfo=UTC))
    page.text = "all"
    assert texts_of(page) == {"text": "all"}
    page.main_text, page.markdown = "x" * 1_000_001, "**x**"
    texts = texts_of(page)
    assert texts == {"text": "all", "main_text": "x" * 1_000_000, "markdown": "**x**"}
    assert StoredContent.of("http://a.test/", b"", texts) == StoredContent(
        "http://a.test/", b"", "all", texts["main_text"], "**x**"
    )
    assert StoredContent.of("http://a.test/", b"", {"text": "all"}).markdown == ""


def test_what_a_page_does_not_have_is_left_out() -> None:
    page = Page("http://a.test/", "http://a.test/", 200, datetime(2024, 5, 1, tzinfo=UTC))
    assert optional_fields(page) == {}
    page.rendered, page.relevance = True, 0.0
    assert optional_fields(page) == {"rendered": True, "relevance": 0.0}
