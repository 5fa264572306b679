"""91 real article pages: they are read whole, within all bounds, and each time in the same way.

They are no part of the project, see tests/support/corpus.py. Without them these tests are skipped.
"""

import pytest
from selectolax.lexbor import LexborHTMLParser

from benchmarks.main_text import score_of
from crawler.parsing import limits
from crawler.parsing.document import MAX_DESCRIPTION, MAX_LANGUAGE, MAX_TITLE, Document
from crawler.parsing.encoding import as_utf8
from crawler.parsing.html import HtmlReader
from crawler.parsing.limits import bounded
from crawler.parsing.reader import DocumentReader
from crawler.util.words import words_of
from tests.support.corpus import Article, articles

MAX_LINKS = 200
HTML = "text/html"


@pytest.fixture(scope="module")
def corpus() -> list[Article]:
    return list(articles())


def read(article: Article) -> Document:
    reader = DocumentReader(HtmlReader(max_links=MAX_LINKS), max_links=MAX_LINKS)
    return reader.read(article.body, article.url, content_type=HTML)


def shingles(text: str) -> set[tuple[bytes, ...]]:
    """Runs of four words, by which the corpus is judged."""
    words = words_of(text).split()
    return {tuple(words[start : start + 4]) for start in range(len(words) - 3)}


def test_the_text_of_each_article_is_found(corpus: list[Article]) -> None:
    recalls = {}
    for article in corpus:
        wanted = shingles(article.text)
        recalls[article.url] = len(wanted & shingles(read(article).text)) / len(wanted)
    assert len(recalls) == len(corpus) == 91
    assert sum(recalls.values()) / len(recalls) > 0.99
    assert {url: recall for url, recall in recalls.items() if recall < 0.9} == {}


def test_main_text_is_the_article_and_little_else(corpus: list[Article]) -> None:
    reader = DocumentReader(HtmlReader(max_links=0, main_text=True), max_links=0)
    found = [
        reader.read(article.body, article.url, content_type=HTML).main_text for article in corpus
    ]
    score = score_of(found, [article.text for article in corpus])
    assert score.f1 >= 0.975
    assert score.precision >= 0.97


def test_most_articles_have_a_date(corpus: list[Article]) -> None:
    dated = [read(article).published_at is not None for article in corpus]
    assert sum(dated) >= 80


def addresses(html: bytes) -> list[str | None]:
    return [node.attributes.get("href") for node in LexborHTMLParser(html).css("a")]


def test_the_guard_against_hostile_markup_changes_no_real_page(corpus: list[Article]) -> None:
    for article in corpus:
        html, _ = as_utf8(article.body, HTML, article.url)
        assert addresses(bounded(html)) == addresses(html), article.url


def test_a_page_that_is_read_flat_gives_the_same_document(corpus: list[Article]) -> None:
    expected = [read(article) for article in corpus]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "_may_nest", lambda html, at, kinds: True)
        flat = [read(article) for article in corpus]
    assert [document.links for document in flat] == [document.links for document in expected]
    assert [document.text for document in flat] == [document.text for document in expected]
    # One page does not close its headers.
    same = [one.blocks == other.blocks for one, other in zip(flat, expected, strict=True)]
    assert same.count(False) <= 1


def test_what_is_read_is_bounded_and_canonical(corpus: list[Article]) -> None:
    found = 0
    for article in corpus:
        document = read(article)
        assert len(document.links) <= MAX_LINKS
        assert len(document.links) == len(set(document.links))
        assert all(link.startswith(("http://", "https://")) for link in document.links)
        assert document.written.keys() <= set(document.links)
        assert 0 < len(document.title) <= MAX_TITLE
        assert len(document.description) <= MAX_DESCRIPTION
        assert len(document.language) <= MAX_LANGUAGE
        assert len(document.text) <= len(article.body)
        found += len(document.links)
    assert found > 40 * len(corpus)


def test_a_page_is_read_in_the_same_way_each_time(corpus: list[Article]) -> None:
    for article in corpus:
        assert read(article) == read(article), article.url
