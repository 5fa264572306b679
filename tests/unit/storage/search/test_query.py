"""What is found by which words, and how it is shown."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from crawler.storage.search import query
from crawler.storage.search.index import IndexedPage, IndexWriter, SearchSettings
from crawler.storage.search.query import Filters, QueryError, Word, search, words_of

NOW = datetime(2026, 5, 6, 12, tzinfo=UTC)
DOGS = IndexedPage(
    *("web", "1" * 16, NOW, "https://www.example.co.uk/kennel/well-known", "Running dogs"),
    "The quick dogs were running away & barked <b>loud</b> at the houses.\n\n  More text.",
    "en-GB",
)
HOUSES = IndexedPage(
    *("web", "2" * 16, NOW - timedelta(days=3), "https://b.example.com/", "Die Häuser"),
    "Die Häuser 🏠 in den Städten, und ein Café.",
    "de",
)
JAPANESE = IndexedPage(
    *("web", "3" * 16, NOW, "https://c.example.jp/", "日本語"), "これは検索エンジンの話。", "en"
)
OTHER = IndexedPage(
    *("other", "4" * 16, NOW, "https://d.example.com:8080/%C3%BCber", "Houses"), "A dog barked.", ""
)
LONG = IndexedPage(
    *("web", "5" * 16, NOW, "https://e.example.com/", ""), "filler " * 9000 + "needle", "en"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chosen = SearchSettings(tmp_path_factory.mktemp("search") / "index", heap_bytes=15_000_000)
    with IndexWriter(chosen) as writer:
        writer.replace([DOGS, HOUSES, JAPANESE, OTHER, LONG])
        writer.commit()
    return chosen.folder


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # Stemmed by the language of the page, with and without accents, in any case.
        ("DOG", [OTHER, DOGS]),
        ("barking", [DOGS]),
        ("haus", [HOUSES]),
        ("stadt", [HOUSES]),
        ("cafe", [HOUSES]),
        # All words, in text, title or URL.
        ("dog house", [DOGS]),
        ("running kennel", [DOGS]),
        ("dog needle", []),
        # Phrases, and words that are several tokens.
        ('"quick dogs"', [DOGS]),
        ('"dogs quick"', []),
        ("well-known", [DOGS]),
        ("known-well", []),
        ("example.jp", [JAPANESE]),
        ("über", [OTHER]),
        # Without blanks between words.
        ("検索", [JAPANESE]),
        ("索検", []),
        # Left out.
        ("barked -quick", [OTHER]),
        ('barked -"quick dogs"', [OTHER]),
        # What other engines take for syntax are words or nothing.
        ('dogs AND" (', []),
        ("title:(dogs", []),
        ("quick ) ! *", [DOGS]),
        ('"quick', [DOGS]),
        ("/[a-z]+/", []),
    ],
)
def test_pages_are_found_by_words(folder: Path, text: str, found: list[IndexedPage]) -> None:
    results = search(folder, text, Filters())
    assert {each.url for each in results.results} == {page.url for page in found}
    assert results.total == len(found)


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (Filters(), [DOGS, OTHER, HOUSES]),
        (Filters(crawl="other"), [OTHER]),
        (Filters(crawl="none"), []),
        (Filters(domain="example.co.uk"), [DOGS]),
        (Filters(domain="www.example.co.uk"), [DOGS]),
        (Filters(domain="example.com"), [HOUSES, OTHER]),
        (Filters(domain="b.example.com"), [HOUSES]),
        (Filters(domain="co.uk"), []),
        (Filters(language="DE-at"), [HOUSES]),
        (Filters(since=NOW), [DOGS, OTHER]),
        (Filters(since=NOW + timedelta(milliseconds=1)), []),
        (Filters(domain="example.com", since=NOW), [OTHER]),
    ],
)
def test_filters_choose_pages(folder: Path, filters: Filters, found: list[IndexedPage]) -> None:
    results = search(folder, "example -needle -検索", filters).results
    assert {each.url for each in results} == {page.url for page in found}


def test_a_filter_does_not_change_the_score(folder: Path) -> None:
    (alone,) = search(folder, "kennel", Filters()).results
    filters = Filters(crawl="web", domain="example.co.uk", since=NOW, language="en")
    (filtered,) = search(folder, "kennel", filters).results
    assert filtered.score == pytest.approx(alone.score)


def test_a_title_weighs_more_than_text(tmp_path: Path) -> None:
    chosen = SearchSettings(tmp_path / "index", heap_bytes=15_000_000)
    other = replace(DOGS, url_hash="a" * 16, url="https://x.test/", title="Other things")
    with IndexWriter(chosen) as writer:
        writer.replace([other, DOGS, *(replace(HOUSES, url_hash=f"{n:016x}") for n in range(9))])
        writer.commit()
    results = search(chosen.folder, "dogs", Filters()).results
    assert [each.url for each in results] == [DOGS.url, other.url]
    assert results[0].score > results[1].score


def test_words_are_marked_and_all_else_is_escaped(folder: Path) -> None:
    (found,) = search(folder, "loud running", Filters()).results
    assert found.as_json() == {
        "title": "Running dogs",
        "url": DOGS.url,
        "crawl": "web",
        "language": "en",
        "score": found.score,
        "crawled_at": NOW,
        "snippet": "The quick dogs were <b>running</b> away &amp; barked "
        "&lt;b&gt;<b>loud</b>&lt;/b&gt; at the houses. More text",
    }


@pytest.mark.parametrize(
    ("text", "snippet"),
    [
        ("stadt", "Die Häuser 🏠 in den <b>Städten</b>, und ein Café"),
        ("検索", "これは<b>検索</b>エンジンの話"),
        # Found by its URL: the beginning of the text.
        ("jp", "これは検索エンジンの話。"),
    ],
)
def test_snippets_of_other_alphabets(folder: Path, text: str, snippet: str) -> None:
    (found,) = search(folder, text, Filters()).results
    assert found.as_json()["snippet"] == snippet


def test_a_snippet_is_from_the_place_of_the_word(folder: Path) -> None:
    (found,) = search(folder, "needle", Filters()).results
    assert found.snippet[0].text.startswith("… ")
    assert [part.text for part in found.snippet if part.marked] == ["needle"]
    assert sum(len(part.text) for part in found.snippet) < 300


def test_snippets_of_many_long_texts_end_somewhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "_SCANNED_MAX", 40_000)
    (found,) = search(folder, "needle", Filters()).results
    assert found.snippet[0].text.startswith("filler filler")
    assert not any(part.marked for part in found.snippet)


def test_text_behind_the_limit_is_not_indexed(tmp_path: Path) -> None:
    chosen = SearchSettings(tmp_path / "index", heap_bytes=15_000_000, text_max=10)
    with IndexWriter(chosen) as writer:
        writer.replace([DOGS])
        writer.commit()
    assert search(chosen.folder, "quick", Filters()).total == 1
    assert search(chosen.folder, "barked", Filters()).total == 0


def test_halves_of_characters_are_taken_for_question_marks(tmp_path: Path) -> None:
    chosen = SearchSettings(tmp_path / "index", heap_bytes=15_000_000)
    with IndexWriter(chosen) as writer:
        writer.replace([replace(DOGS, text="Half \ud83d a sign", title="The \udc00 title")])
        writer.commit()
    (found,) = search(chosen.folder, "half\udcff sign", Filters()).results
    assert found.title == "The ? title"
    assert search(chosen.folder, "half", Filters(domain="\udcff")).total == 0


def test_the_limit_cuts_the_results_and_not_their_number(folder: Path) -> None:
    results = search(folder, "example", Filters(), limit=2)
    assert (len(results.results), results.total) == (2, 5)


def test_words_and_phrases_are_read() -> None:
    assert words_of('one "two three" -four -"five six" "" se-ven') == [
        Word("one"),
        Word("two three"),
        Word("four", excluded=True),
        Word("five six", excluded=True),
        Word(""),
        Word("se-ven"),
    ]
    assert words_of('an "odd quote') == [Word("an"), Word("odd"), Word("quote")]


@pytest.mark.parametrize("text", ["", "  ", "& -x", '""', "-dogs"])
def test_a_query_without_words_is_told(folder: Path, text: str) -> None:
    with pytest.raises(QueryError, match="has no word to search for"):
        search(folder, text, Filters())


def test_a_query_that_is_too_long_is_told(folder: Path) -> None:
    with pytest.raises(QueryError, match="The query has 501 characters; use at most 500"):
        search(folder, "x" * 501, Filters())
    with pytest.raises(QueryError, match="The query has 40 words; use at most 32"):
        search(folder, "x " * 40, Filters())
