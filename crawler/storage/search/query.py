"""Search the index: words of a user become a query, and pages become results with snippets.

    two words       both must be in the page: in its text, its title or its URL
    "two words"     one after the other
    -word           must not be in the page

Each word is stemmed as the pages were, by the analyzers of the languages that the index has. There
is no other syntax, so no query is wrong except one without words or a much too long one.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from crawler.errors import CrawlerError
from crawler.storage.search.index import (
    PLAIN,
    analyzers,
    engine_text,
    milliseconds,
    open_searcher,
    primary_language,
    schema,
    tantivy,
)

LIMIT_MAX = 100
QUERY_MAX = 500
_WORDS_MAX = 32
# Weight of a word in each field, beside 1 in the text.
_TITLE_WEIGHT, _ADDRESS_WEIGHT = 3.0, 1.0
# Characters of a snippet; it is looked for in this much of the text at a time, as all of it has to
# be cut into words again.
_SNIPPET, _CHUNK = 220, 20_000
# Characters in which a search looks for snippets, of all its results together: 20,000 of Chinese
# take 8 ms. Results that are left get the beginning of their text.
_SCANNED_MAX = 500_000
_BLANKS = re.compile(r"\s+")
_PARTS = re.compile(r'(?P<minus>-?)(?:"(?P<phrase>[^"]*)"|(?P<word>[^\s"]+))')


class QueryError(CrawlerError):
    """Error of a query that cannot be searched for."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word or a phrase of a query."""

    text: str
    excluded: bool = False


@dataclass(frozen=True, slots=True)
class Filters:
    """Choice of pages; None means any."""

    crawl: str | None = None
    # A registered domain, or a host.
    domain: str | None = None
    since: datetime | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """Piece of a snippet; a marked one is a word of the query."""

    text: str
    marked: bool = False

    @property
    def html(self) -> str:
        escaped = html.escape(self.text)
        return f"<b>{escaped}</b>" if self.marked else escaped


@dataclass(frozen=True, slots=True)
class Result:
    """A page that was found."""

    title: str
    url: str
    crawl: str
    language: str
    score: float
    crawled_at: datetime
    snippet: list[Part]

    def as_json(self) -> dict[str, Any]:
        """Return what programs get; the snippet is HTML, escaped, with <b> around marked words."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return values | {"snippet": "".join(part.html for part in self.snippet)}


@dataclass(frozen=True, slots=True)
class Results:
    """The best pages first, and the number of all that match."""

    results: list[Result]
    total: int


def words_of(text: str) -> list[Word]:
    """Read a query. A quotation mark without its twin counts as a blank."""
    if len(text) > QUERY_MAX:
        raise QueryError(f"The query has {len(text):,} characters; use at most {QUERY_MAX}.")
    text = engine_text(text)
    if text.count('"') % 2:
        first, _, last = text.rpartition('"')
        text = f"{first} {last}"
    words = [
        Word(found["phrase"] if found["word"] is None else found["word"], bool(found["minus"]))
        for found in _PARTS.finditer(text)
    ]
    if len(words) > _WORDS_MAX:
        raise QueryError(f"The query has {len(words)} words; use at most {_WORDS_MAX}.")
    return words


def search(folder: Path, text: str, filters: Filters, *, limit: int = 10) -> Results:
    """Search the index in a folder. Blocking."""
    words = words_of(text)
    searcher = open_searcher(folder)
    present = [name for name, _ in searcher.terms_with_prefix("analyzer", "")]
    wanted = [_word_query(word.text, present) for word in words if not word.excluded]
    unwanted = [_word_query(word.text, present) for word in words if word.excluded]
    wanted, unwanted = [list(filter(None, queries)) for queries in (wanted, unwanted)]
    if not wanted:
        raise QueryError(f"The query {text!r} has no word to search for; give one.")
    engine = tantivy()
    query = engine.Query.boolean_query(
        [
            *((engine.Occur.Must, each) for each in (*wanted, *_filter_queries(filters))),
            *((engine.Occur.MustNot, each) for each in unwanted),
        ]
    )
    found = searcher.search(query, limit=limit)
    snippets = _Snippets(searcher, wanted)
    places = [place for _, place in found.hits]
    times = searcher.fast_field_values("crawled_at", places) if places else []
    results = [
        _result(searcher.doc(place), score, at_ms, snippets)
        for (score, place), at_ms in zip(found.hits, times, strict=True)
    ]
    return Results(results, found.count)


def indexed_crawls(folder: Path) -> list[str]:
    """Return the names of the crawls that the index in a folder has pages of. Blocking."""
    return [name for name, _ in open_searcher(folder).terms_with_prefix("crawl", "")]


def _word_query(text: str, present: Sequence[str]) -> Any | None:
    """Make the query for a word or a phrase in any field; None if it has no word."""
    engine, made = tantivy(), []
    for name in {*present, PLAIN}:
        tokens = analyzers()[name].analyze(text)
        if not tokens:
            continue
        fields = [(f"text_{name}", 1.0), (f"title_{name}", _TITLE_WEIGHT)]
        if name == PLAIN:
            fields.append(("address", _ADDRESS_WEIGHT))
        for field, weight in fields:
            if len(tokens) == 1:
                query = engine.Query.term_query(schema(), field, tokens[0])
            else:
                query = engine.Query.phrase_query(schema(), field, tokens)
            made.append((engine.Occur.Should, engine.Query.boost_query(query, weight)))
    return engine.Query.boolean_query(made) if made else None


def _filter_queries(filters: Filters) -> Iterator[Any]:
    """Make queries that choose pages and do not change scores."""
    engine = tantivy()
    language = filters.language and primary_language(filters.language)
    exact = {"crawl": filters.crawl, "site": filters.domain, "language": language}
    for field, value in exact.items():
        if value is not None:
            query = engine.Query.term_query(schema(), field, engine_text(value), "basic")
            yield engine.Query.const_score_query(query, 0.0)
    if filters.since is not None:
        query = engine.Query.range_query(
            *(schema(), "crawled_at", engine.FieldType.Integer, milliseconds(filters.since))
        )
        yield engine.Query.const_score_query(query, 0.0)


def _result(document: Any, score: float, at_ms: int, snippets: _Snippets) -> Result:
    shown = json.loads(document.get_first("shown"))
    analyzer = shown.pop("analyzer")
    text = bytes(document.get_first("text")).decode()
    return Result(
        **shown,
        score=score,
        crawled_at=datetime.fromtimestamp(at_ms / 1000, UTC),
        snippet=snippets.snippet(text, analyzer),
    )


class _Snippets:
    """Snippets of pages for one query."""

    def __init__(self, searcher: Any, wanted: Sequence[Any]) -> None:
        engine = tantivy()
        self._searcher = searcher
        self._query = engine.Query.boolean_query([(engine.Occur.Should, each) for each in wanted])
        # By analyzer.
        self._generators: dict[str, Any] = {}
        self._left = _SCANNED_MAX

    def snippet(self, text: str, analyzer: str) -> list[Part]:
        """Return the best place of a text, or its beginning if it has none of the words."""
        field = f"text_{analyzer}"
        if analyzer not in self._generators:
            generator = tantivy().SnippetGenerator.create(
                *(self._searcher, self._query, schema(), field)
            )
            generator.set_max_num_chars(_SNIPPET)
            self._generators[analyzer] = generator
        for start in range(0, len(text), _CHUNK):
            if self._left <= 0:
                break
            part = text[start : start + _CHUNK]
            self._left -= len(part)
            chunk = tantivy().Document()
            chunk.add_text(field, part)
            found = self._generators[analyzer].snippet_from_doc(chunk)
            marks = [(mark.start, mark.end) for mark in found.highlighted()]
            if marks:
                fragment = found.fragment()
                begins = start == 0 and text.startswith(fragment)
                return _parts(fragment, marks, "" if begins else "… ")
        return [Part(_BLANKS.sub(" ", text[:_SNIPPET]).strip())]


def _parts(fragment: str, marks: Sequence[tuple[int, int]], before: str) -> list[Part]:
    """Cut a fragment at its marks, which are places in its UTF-8."""
    encoded = fragment.encode()
    joined: list[tuple[int, int]] = []
    for start, end in marks:
        if joined and joined[-1][1] == start:
            start = joined.pop()[0]  # noqa: PLW2901 - characters of one word of Chinese
        joined.append((start, end))
    parts, done = [Part(before)], 0
    for start, end in joined:
        parts += [_part(encoded[done:start]), _part(encoded[start:end], marked=True)]
        done = end
    parts.append(_part(encoded[done:]))
    return [part for part in parts if part.text]


def _part(encoded: bytes, *, marked: bool = False) -> Part:
    return Part(_BLANKS.sub(" ", encoded.decode("utf-8", "replace")), marked)
