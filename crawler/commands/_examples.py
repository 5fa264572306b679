"""Pages for `scrapy topic`: from files of this machine, from stored pages, from lines of a file.

All are read as a crawl reads pages, so that a model is trained with the texts that it is to score.
"""

from __future__ import annotations

import argparse
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import xxhash

from crawler import config
from crawler.admin.queries import canonical_url
from crawler.errors import ConfigurationError, NotFound
from crawler.items import Page
from crawler.parsing import sniff
from crawler.parsing.document import Unreadable
from crawler.parsing.html import HtmlReader
from crawler.parsing.reader import DocumentReader
from crawler.reading.pool import DocumentPool
from crawler.servers.connections import Servers
from crawler.storage.readers import open_reader
from crawler.topics.model import MAX_CHARS, text_of, words_in
from crawler.topics.training import MAX_EXAMPLES
from crawler.urls import Urls
from crawler.util.format import by_reason, plural

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from crawler.storage.reader import PageReader

# Bytes of a file that is one document, and of a line; lines of exports have bodies.
_FILE_BYTES, _LINE_BYTES = 50_000_000, 50_000_000
_SOURCES_SHOWN = 3
_RECORDS = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
_URLS = ("http://", "https://")
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
# Bytes that tell what a file is.
_START_BYTES = 1024
# What a page has from its document.
_OF_DOCUMENT = ("title", "text", "blocks", "links", "anchors", "language", "description")


class Unusable(Exception):
    """Example that is left out; the text is the reason, for people."""


class NotStoredPage(Unusable):
    """URL of a page that would have to be crawled first."""


class Pages:
    """Reader of single pages. The store is opened when the first URL is asked for."""

    def __init__(self, settings: BaseSettings, arguments: argparse.Namespace) -> None:
        self._settings = settings
        self._arguments = arguments
        self._urls = Urls(config.url_rules(settings))
        max_links = config.value(settings, "MAX_OUTLINKS")
        unread = [name.strip().lower() for name in config.value(settings, "TEXT_WITHOUT")]
        html = HtmlReader(max_links=max_links, urls=self._urls, anchors=True, unread=unread)
        self._reader = DocumentReader(html, max_links=max_links, urls=self._urls)
        self._documents: DocumentPool | None = None
        self._servers: Servers | None = None
        self._stored: PageReader | None = None

    async def close(self) -> None:
        """Close servers and worker processes."""
        if self._documents is not None:
            await self._documents.close()
        if self._servers is not None:
            await self._servers.close()

    async def of_file(self, path: Path) -> Page:
        """Read a file as one page."""
        body = _body_of(path)
        # Its links are those of a page on this machine.
        url = f"http://localhost/{quote(path.name)}"
        return await self._read(body, url, "" if _tells_its_type(body) else sniff.PLAIN)

    async def of_record(self, line: bytes) -> Page:
        """Read a line of JSON: an object with a body, a text or the URL of a stored page."""
        try:
            record = json.loads(line)
        except ValueError as error:
            raise Unusable("no JSON") from error
        if not isinstance(record, dict):
            raise Unusable("no JSON object")
        found = {name: record.get(name) for name in ("url", "title", "text", "body")}
        url, title, text, body = (each if isinstance(each, str) else "" for each in found.values())
        if body:
            kind = str(record.get("media_type") or record.get("content_type") or "text/html")
            return await self._read(body.encode("utf-8", "replace"), url, f"{kind}; charset=utf-8")
        if text:
            return _page(url, title=title, text=text)
        if url.startswith(_URLS):
            return await self.of_url(url)
        raise Unusable("neither body nor text nor URL")

    async def of_url(self, text: str) -> Page:
        """Read a stored page."""
        try:
            url = canonical_url(self._urls, text)
        except ConfigurationError as error:
            raise Unusable("no valid URL") from error
        if self._stored is None:
            self._servers = Servers.from_settings(self._settings)
            self._stored = await open_reader(
                self._settings, self._servers, store=self._arguments.store
            )
        record = await self._stored.metadata(url, self._arguments.crawl)
        if record is None:
            raise NotStoredPage("not stored")
        try:
            content = await self._stored.content(record)
        except NotFound as error:
            raise NotStoredPage("stored without content") from error
        if content is None:
            raise NotStoredPage("stored without content")
        headers = record.get("headers") or {}
        kind = headers.get("content-type", "") or record.get("content_type") or ""
        return await self._read(content.body, record.get("final_url") or url, kind, url)

    async def _read(self, body: bytes, base: str, content_type: str, url: str = "") -> Page:
        kind = sniff.sniff(body, content_type, base)
        try:
            if self._documents is None:
                self._documents = DocumentPool.from_settings(self._settings)
            if kind in self._documents.types:
                document = await self._documents.read(kind, body, base)
                document = self._reader.with_canonical_links(document, base)
            elif _is_binary(body):
                raise Unusable("of a type that is not read")
            else:
                document = self._reader.read(body, base, content_type=content_type)
        except Unreadable as error:
            raise Unusable(f"unreadable ({error.reason})") from error
        fields = {name: getattr(document, name) for name in _OF_DOCUMENT}
        return _page(url or base, body=body, media_type=kind, **fields)


def _body_of(path: Path) -> bytes:
    if path.stat().st_size > _FILE_BYTES:
        raise Unusable("too large")
    return path.read_bytes()


def _is_binary(body: bytes) -> bool:
    return b"\0" in body[:_START_BYTES] and not body.startswith(_UTF_16)


def _tells_its_type(body: bytes) -> bool:
    return _is_binary(body) or body[:_START_BYTES].lstrip().startswith(b"<")


def _page(url: str, **fields: Any) -> Page:
    blocks, anchors = fields.pop("blocks", None), fields.pop("anchors", ())
    page = Page(url, url, 200, datetime.now(UTC), url_hash="0", **fields)
    page.blocks, page.anchors = blocks, anchors
    return page


def is_url(text: str) -> bool:
    return text.startswith(_URLS)


# --- many of them ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Source:
    """Argument of --positive or --negative: what it is, and the pages in it."""

    name: str
    # What its pages are, for people: "file".
    what: str
    count: int
    # Gives a path, a URL or a line at a time.
    items: Callable[[], Iterator[Path | str | bytes]]


def source_of(option: str, given: str) -> Source:
    """Return what an argument names, or raise ConfigurationError."""
    if is_url(given):
        return Source(given, "stored page", 1, lambda: iter([given]))
    path = Path(given)
    if path.is_dir():
        files = sorted(
            each
            for each in path.rglob("*")
            if each.is_file() and not _is_hidden(each.relative_to(path))
        )
        if not files:
            raise ConfigurationError(f"{option} {given}: there are no files in this folder.")
        return Source(given, "file", len(files), lambda: iter(files))
    if not path.exists():
        raise ConfigurationError(
            f"{option} {given}: there is no such file or folder; URLs begin with http:// or "
            "https://."
        )
    if path.name.lower().endswith(_RECORDS):
        lines: Callable[[], Iterator[bytes]] = partial(_lines, path)
        return Source(given, "JSON line", sum(1 for _ in lines()), lines)
    with path.open("rb") as file:
        start = file.read(_START_BYTES)
    if _tells_its_type(start) or sniff.sniff(start, sniff.PLAIN, given) != sniff.PLAIN:
        return Source(given, "file", 1, lambda: iter([path]))
    texts = partial(_texts, path)
    return Source(given, "line", sum(1 for _ in texts()), texts)


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _lines(path: Path) -> Iterator[bytes]:
    opened: Any = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opened(path, "rb") as file:
            while line := file.readline(_LINE_BYTES):
                if len(line) == _LINE_BYTES:
                    most = f"{_LINE_BYTES:,} bytes"
                    raise ConfigurationError(f"{path} has a line of more than {most}.")
                if line.strip():
                    yield line
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ConfigurationError(f"{path} is damaged or no gzip file: {error}.") from error


def _texts(path: Path) -> Iterator[str]:
    for line in _lines(path):
        text = line.decode("utf-8-sig", "replace").strip()
        if text and not text.startswith("#"):
            yield text


@dataclass(slots=True)
class Examples:
    """Texts of one kind, each once, and what was left out, by reason."""

    texts: list[str] = field(default_factory=list)
    # How many of them are stored pages.
    stored: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    sources: Sequence[Source] = ()
    # The first page that was left out, for people.
    first_left_out: str = ""

    def __str__(self) -> str:
        kinds: dict[str, list[Source]] = {}
        for source in self.sources:
            kinds.setdefault(source.what, []).append(source)
        told = f"{plural(len(self.texts), 'text')} of "
        told += ", ".join(_shown(what, some) for what, some in kinds.items())
        if self.stored:
            told += f"; {plural(self.stored, 'stored page')} among them"
        if self.left_out:
            told += f"; left out: {by_reason(self.left_out)}, for example {self.first_left_out}"
        return told


def _shown(what: str, sources: Sequence[Source]) -> str:
    """Return what was read, for people: "12 files (articles/)"."""
    names = [source.name for source in sources[:_SOURCES_SHOWN]]
    if len(sources) > _SOURCES_SHOWN:
        names.append("…")
    return f"{plural(sum(source.count for source in sources), what)} ({', '.join(names)})"


async def read_examples(
    pages: Pages, sources: Sequence[Source], advance: Callable[[int], None]
) -> Examples:
    """Read all pages of some sources, MAX_EXAMPLES at the most."""
    found, known = Examples(sources=sources), set()
    for source in sources:
        for item in source.items():
            advance(1)
            if len(found.texts) >= MAX_EXAMPLES:
                found.left_out[f"beyond {MAX_EXAMPLES:,}"] += 1
                continue
            try:
                text = text_of(await _page_of(pages, item))
                if not words_in(text):
                    raise Unusable("empty")
                digest = xxhash.xxh3_64_intdigest(text.encode("utf-8", "replace"))
                if digest in known:
                    raise Unusable("repeated")
                known.add(digest)
                found.texts.append(text[:MAX_CHARS])
                found.stored += isinstance(item, str) and _is_one_url(item)
            except Unusable as error:
                found.left_out[str(error)] += 1
                found.first_left_out = found.first_left_out or _name_of(item, source)
    return found


def _name_of(item: Path | str | bytes, source: Source) -> str:
    return f"a line of {source.name}" if isinstance(item, bytes) else str(item)[:100]


def _is_one_url(text: str) -> bool:
    return is_url(text) and len(text.split(None, 1)) == 1


async def _page_of(pages: Pages, item: Path | str | bytes) -> Page:
    if isinstance(item, Path):
        return await pages.of_file(item)
    if isinstance(item, bytes):
        return await pages.of_record(item)
    if _is_one_url(item):
        return await pages.of_url(item)
    return _page("", text=item)
