"""The search index on disk: its fields, the analyzers of its languages, and its writer.

A document is a page with content. Its text and title are in the fields of its analyzer, which stems
words by the page's language: `text_en` and `title_en`. All else that a result shows is stored once.

    id          crawl:url_hash; a page that changed replaces its older version by it
    visit       64 bits of crawl, url_hash and crawled_at; tells whether the index has this version
    crawled_at  milliseconds since 1970
    crawl, site, language, analyzer   filters; `site` is the domain and the host
    address     words of the URL
    shown       JSON with title, url, crawl, language and analyzer; `text`: the text, for snippets

Tokens depend on the analyzers: whoever changes one changes its name in `_tokenizer`, so that older
indexes are refused.
"""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote

import xxhash

from crawler import config
from crawler.errors import ConfigurationError, CrawlerError, NotFound
from crawler.urls import host_of, registered_domain
from crawler.util.extras import optional

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

# Languages whose words are stemmed, and tantivy's names of the stemmers.
STEMMERS = {
    "ar": "arabic",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
}
# Both written forms of Norwegian have one stemmer.
_SAME = {"nb": "no", "nn": "no"}
# Analyzer of all other languages.
PLAIN = "plain"
ANALYZERS = (*STEMMERS, PLAIN)
# Scripts without blanks between words: each character is a token.
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_WORDS = rf"[{_UNSPACED}]|[\p{{L}}\p{{N}}\p{{M}}&&[^{_UNSPACED}]]+"
# The same scripts for Python, and the share of them above which the declared language is not
# believed: many sites declare that of their template.
_UNSPACED_RE = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_LOOKED_AT, _UNSPACED_SHARE = 2000, 0.1
# Longer tokens are no words (bytes).
_TOKEN_MAX = 80
# The least that tantivy's writer takes for each of its threads.
_HEAP_MIN_BYTES = 15_000_000
_THREADS = 2
_LOCK = "writer.lock"
_META = "meta.json"
# Names of files in the folder: ours and tantivy's.
_FILES = re.compile(r"[0-9a-f]{32}\..*|meta\.json|\.managed\.json|\.tantivy.*|\.tmp.*|writer\.lock")

# Before and after all times of visits, in milliseconds: until the year 2527.
FIRST_MS, LAST_MS = 0, 2**44
# Visits that are read together: each takes about 250 bytes.
_VISITS_MAX = 100_000
_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Settings of the index."""

    folder: Path
    heap_bytes: int = config.setting("SEARCH_HEAP_BYTES")
    text_max: int = config.setting("SEARCH_TEXT_MAX")

    @classmethod
    def from_settings(cls, settings: BaseSettings, folder: str | None = None) -> SearchSettings:
        """Read them; `folder` is one that was named instead of SEARCH_DIR."""
        given = folder or config.value(settings, "SEARCH_DIR")
        place = Path(given) if given else Path(config.value(settings, "CRAWL_DIR"), "search")
        return config.fill(cls, settings, folder=place)


@dataclass(frozen=True, slots=True)
class IndexedPage:
    """A page as it is indexed."""

    crawl: str
    url_hash: str
    crawled_at: datetime
    url: str
    title: str
    text: str = field(repr=False)
    # As the page declares it: "en-GB", "DE", or empty.
    language: str = ""

    @property
    def visit(self) -> int:
        return visit_of(self.crawl, self.url_hash, self.crawled_at)


def visit_of(crawl: str, url_hash: str, crawled_at: datetime) -> int:
    """Return what identifies a version of a page."""
    return xxhash.xxh3_64_intdigest(f"{crawl}:{url_hash}:{milliseconds(crawled_at)}".encode())


def milliseconds(at: datetime) -> int:
    """Return a time as the index has it; a time without a zone is UTC."""
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    return (at - _EPOCH) // timedelta(milliseconds=1)


def engine_text(text: str) -> str:
    """Return a text as the engine takes it: it has no halves of surrogate pairs."""
    return text.encode("utf-8", "replace").decode()


def primary_language(language: str) -> str:
    """Return the language of a language tag: "en" of "en-GB"."""
    return re.split("[-_]", language.strip().lower(), maxsplit=1)[0]


def analyzer_of(language: str, text: str) -> str:
    """Choose the analyzer of a page."""
    sample = text[:_LOOKED_AT]
    if len(_UNSPACED_RE.findall(sample)) > _UNSPACED_SHARE * len(sample):
        return PLAIN
    name = primary_language(language)
    name = _SAME.get(name, name)
    return name if name in STEMMERS else PLAIN


# --- tantivy --------------------------------------------------------------------------------------


def tantivy() -> Any:
    """Import the search engine, or say how it is installed."""
    return optional("tantivy", extra="search", what="Searching pages")


def _tokenizer(analyzer: str) -> str:
    return f"{analyzer}.1"


@cache
def analyzers() -> dict[str, Any]:
    """Make the analyzers: of text to tokens."""
    engine = tantivy()
    made = {}
    for name in ANALYZERS:
        # Marks are parts of words in Tamil, which only the slower expression knows.
        by_expression = name in (PLAIN, "ta")
        words = engine.Tokenizer.regex(_WORDS) if by_expression else engine.Tokenizer.simple()
        builder = engine.TextAnalyzerBuilder(words)
        builder = builder.filter(engine.Filter.remove_long(_TOKEN_MAX))
        builder = builder.filter(engine.Filter.lowercase())
        # Before the stemmer: words with and without their accents get the same stem.
        builder = builder.filter(engine.Filter.ascii_fold())
        if name != PLAIN:
            builder = builder.filter(engine.Filter.stemmer(STEMMERS[name]))
        made[name] = builder.build()
    return made


@cache
def schema() -> Any:
    """Make the schema: the fields of the index."""
    builder = tantivy().SchemaBuilder()
    builder.add_unsigned_field("visit", indexed=True, fast=True)
    builder.add_integer_field("crawled_at", indexed=True, fast=True)
    for name in ("id", "crawl", "site", "language", "analyzer"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    builder.add_text_field("address", tokenizer_name=_tokenizer(PLAIN))
    for name in ANALYZERS:
        builder.add_text_field(f"title_{name}", tokenizer_name=_tokenizer(name))
        builder.add_text_field(f"text_{name}", tokenizer_name=_tokenizer(name))
    builder.add_bytes_field("shown", stored=True)
    builder.add_bytes_field("text", stored=True)
    return builder.build()


def open_searcher(folder: Path) -> Any:
    """Open the last commit of an index, to search it; NotFound if there is no index. Blocking."""
    try:
        meta = (folder / _META).stat()
    except (FileNotFoundError, NotADirectoryError):
        # Without the engine, no index helps.
        tantivy()
        raise NotFound(
            f"There is no search index in {str(folder)!r}: make one by `scrapy pages index`, or "
            "name its folder by -s SEARCH_DIR=…"
        ) from None
    return _searcher(folder, meta.st_ino, meta.st_mtime_ns)


# One: it keeps its files open, and on the disk, also after they were replaced.
@lru_cache(maxsize=1)
def _searcher(folder: Path, _inode: int, _changed_ns: int) -> Any:
    """Keep the searcher of a commit: each one replaces the file that both numbers are of."""
    return _opened(folder).searcher()


def _opened(folder: Path) -> Any:
    """Open or create the index."""
    try:
        index = tantivy().Index(schema(), path=str(folder))
    except (ValueError, OSError) as error:
        raise ConfigurationError(
            f"The search index in {str(folder)!r} is damaged, or of another version ({error}); "
            "make it again by `scrapy pages index --fresh`."
        ) from error
    for name, analyzer in analyzers().items():
        index.register_tokenizer(_tokenizer(name), analyzer)
    return index


class Snapshot:
    """State of an index at one time: which versions of pages it has."""

    def __init__(self, index: Any) -> None:
        index.reload()
        self._searcher = index.searcher()

    def __len__(self) -> int:
        return int(self._searcher.num_docs)

    def visits(self, first_ms: int, end_ms: int) -> Iterator[set[int]]:
        """Yield the visits from `first_ms` to before `end_ms`, some at a time. Blocking.

        There may be many more of them than pages in the store, of which most were deleted.
        """
        spans = [(first_ms, end_ms)]
        while spans:
            first_ms, end_ms = spans.pop()
            count = self._search(first_ms, end_ms, limit=1, count=True).count
            if count > _VISITS_MAX and end_ms - first_ms > 1:
                middle_ms = (first_ms + end_ms) // 2
                spans += [(middle_ms, end_ms), (first_ms, middle_ms)]
            elif count:
                found = self._search(first_ms, end_ms, limit=count, count=False).hits
                yield set(self._searcher.fast_field_values("visit", [at for _, at in found]))

    def _search(self, first_ms: int, end_ms: int, *, limit: int, count: bool) -> Any:
        engine = tantivy()
        chosen = engine.Query.range_query(
            *(schema(), "crawled_at", engine.FieldType.Integer, first_ms, end_ms),
            include_upper=False,
            # The column of times is the fastest way to count, the sorted times to find a few.
            use_inverted_index=not count,
        )
        return self._searcher.search(chosen, limit=limit, count=count)


class IndexWriter:
    """The one writer of an index, a context manager. All of it blocks.

    Nothing is in the index before `commit`; a process that is killed leaves the last commit.
    """

    def __init__(self, settings: SearchSettings, *, fresh: bool = False) -> None:
        """`fresh`: begin with an empty index."""
        self._settings = settings
        self._fresh = fresh

    def __enter__(self) -> Self:
        folder = self._settings.folder
        # The engine first: without it, no folder is made.
        engine = tantivy()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _check_folder(folder)
            self._lock = self._locked(folder)
        except OSError as error:
            raise ConfigurationError(
                f"The search index cannot be written to {str(folder)!r} ({error.strerror}); name "
                "another folder by -s SEARCH_DIR=… or --folder."
            ) from error
        try:
            if self._fresh:
                _clear(folder)
            self._index = _opened(folder)
            threads = max(1, min(_THREADS, self._settings.heap_bytes // _HEAP_MIN_BYTES))
            self._writer = self._index.writer(self._settings.heap_bytes, threads)
        except BaseException:
            self._lock.close()
            raise
        self._engine = engine
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._writer.wait_merging_threads()
        finally:
            del self._writer
            self._lock.close()

    def snapshot(self) -> Snapshot:
        """Return the state of the last commit."""
        return Snapshot(self._index)

    def replace(self, pages: Sequence[IndexedPage]) -> None:
        """Index pages, in place of their older versions."""
        with _explained(self._settings.folder):
            for page in pages:
                self._writer.delete_documents_by_term("id", f"{page.crawl}:{page.url_hash}")
                self._writer.add_document(self._document(page))

    def remove(self, visits: Iterable[int]) -> None:
        """Remove these versions of pages; newer ones stay."""
        with _explained(self._settings.folder):
            # By a query: terms of the package are signed, and do not find large numbers.
            chosen = self._engine.Query.term_set_query(schema(), "visit", list(visits))
            self._writer.delete_documents_by_query(chosen)

    def commit(self) -> None:
        """Let searches find what was done so far."""
        with _explained(self._settings.folder):
            self._writer.commit()

    def _document(self, page: IndexedPage) -> Any:
        title, text = engine_text(page.title), engine_text(page.text[: self._settings.text_max])
        analyzer = analyzer_of(page.language, text)
        language, host = primary_language(page.language), host_of(page.url)
        shown = {
            "title": title,
            "url": page.url,
            "crawl": page.crawl,
            "language": language,
            "analyzer": analyzer,
        }
        document = self._engine.Document()
        document.add_text("id", f"{page.crawl}:{page.url_hash}")
        document.add_unsigned("visit", page.visit)
        document.add_integer("crawled_at", milliseconds(page.crawled_at))
        document.add_text("crawl", page.crawl)
        for site in {host, registered_domain(host)}:
            document.add_text("site", site)
        document.add_text("language", language)
        document.add_text("analyzer", analyzer)
        document.add_text("address", unquote(page.url.partition("://")[2]))
        document.add_text(f"title_{analyzer}", title)
        document.add_text(f"text_{analyzer}", text)
        document.add_bytes("shown", json.dumps(shown).encode())
        document.add_bytes("text", text.encode())
        return document

    @staticmethod
    def _locked(folder: Path) -> FileIO:
        file = (folder / _LOCK).open("ab", buffering=0)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise CrawlerError(
                f"Another process writes the search index in {str(folder)!r}; wait for its end."
            ) from None
        return file


def _check_folder(folder: Path) -> None:
    """Refuse a folder with files of others, which --fresh would have to spare."""
    for path in folder.iterdir():
        if not _FILES.fullmatch(path.name) or not path.is_file():
            raise ConfigurationError(
                f"{str(folder)!r} has {path.name!r}, which is no part of a search index; name a "
                "folder of its own by -s SEARCH_DIR=… or --folder."
            )


def _clear(folder: Path) -> None:
    """Delete an index, its list of files first."""
    for path in (folder / _META, *folder.iterdir()):
        if path.name != _LOCK:
            path.unlink(missing_ok=True)


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Translate tantivy's errors, such as a disk that is full."""
    try:
        yield
    except (ValueError, OSError, RuntimeError) as error:
        raise CrawlerError(
            f"The search index in {str(folder)!r} cannot be written: {error}. What was committed "
            "is kept, and `scrapy pages index` goes on from there."
        ) from error
