"""Read sitemaps: XML, indexes of others, text, RSS and Atom, gzipped or not. Pure.

The file is unpacked and parsed piece by piece, without a tree, within the limits of the protocol
(sitemaps.org). A damaged file is read as far as possible.
"""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from lxml import etree  # type: ignore[import-untyped]

from crawler.parsing.feeds import Ampersands, feed_time, permalink, whole_ampersands
from crawler.urls import DEFAULT, Rejected, Urls

MAX_URLS = 50_000
MAX_BYTES = 50 * 1024 * 1024
_CHUNK = 64 * 1024
_GZIP = b"\x1f\x8b"
# Gzip members in one file.
_MEMBERS_MAX = 1000
_AS_GZIP = 16 + zlib.MAX_WBITS
_BOMS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
# Characters of one element that are read; longer URLs are not crawled.
_MAX_TEXT = 8192
# Far more than a full sitemap with its images has.
_MAX_ELEMENTS = 2_000_000
# Elements within each other; those of a sitemap are four levels deep.
_MAX_DEPTH = 100
# Repeated and rejected ones included.
_MAX_ADDRESSES = 2 * MAX_URLS
# Elements of one URL: of sitemaps, and of feeds.
_LOCATED = frozenset({"url", "sitemap"})
_RECORDS = _LOCATED | {"item", "entry"}
# Roots of files whose records may have their address as their own text.
_ROOTS = frozenset({"urlset", "sitemapindex"})
# The role of an element, by its place in the file.
_RECORD, _ADDRESS, _FIELD, _OTHER = range(4)
_TIMES = frozenset({"lastmod", "pubdate", "updated", "date"})


@dataclass(frozen=True, slots=True)
class Located:
    """Canonical URL of a sitemap, with the facts that the sitemap states about it."""

    url: str
    modified: datetime | None = None
    priority: float = 0.5
    # How often the page changes, in the words of the protocol.
    changefreq: str = ""


@dataclass(slots=True)
class Sitemap:
    """Content of a sitemap: pages, and other sitemaps if it is an index."""

    pages: list[Located] = field(default_factory=list)
    sitemaps: list[str] = field(default_factory=list)
    # How URLs are written, for those that are not written in canonical form.
    written: dict[str, str] = field(default_factory=dict)
    # Number of URLs that are not crawled, such as those of other schemes.
    rejected: int = 0
    # The file has more than the protocol allows, or could not be read to its end.
    cut: bool = False


def read(body: bytes, url: str, urls: Urls = DEFAULT) -> Sitemap:
    """Read the sitemap at `url`, each URL once. Never raises for its content."""
    found = _Collector(url, urls)
    chunks = _unpacked(body, found.sitemap)
    try:
        first = next(chunks, b"").lstrip(b"\xef\xbb\xbf \t\r\n")
        if _looks_like_xml(first):
            _read_xml(first, chunks, found)
        else:
            _read_lines(first, chunks, found)
    except (etree.XMLSyntaxError, zlib.error, AssertionError, ValueError, _Full):
        found.sitemap.cut = True
    return found.sitemap


def _read_xml(first: bytes, more: Iterable[bytes], found: _Collector) -> None:
    parser = etree.XMLParser(
        target=found, recover=True, resolve_entities=False, no_network=True, huge_tree=False
    )
    ampersands = Ampersands()
    for chunk in chain((first,), more):
        parser.feed(ampersands.feed(chunk))
    parser.feed(ampersands.feed(b"", last=True))
    parser.close()


def _read_lines(first: bytes, more: Iterable[bytes], found: _Collector) -> None:
    encoding = _BOMS.get(first[:2])
    decoder = codecs.getincrementaldecoder(encoding or "utf-8")("replace")
    rest = ""
    for chunk in chain((first[2:] if encoding else first,), more):
        *lines, rest = (rest + decoder.decode(chunk)).replace("\r", "\n").split("\n")
        found.lines(lines)
        rest = rest[:_MAX_TEXT]
    found.lines([rest])


def _looks_like_xml(start: bytes) -> bool:
    return start[:1] == b"<" or start[2:3] == b"<" or start[3:4] == b"<"


def _unpacked(body: bytes, sitemap: Sitemap) -> Iterator[bytes]:
    """Yield the file in pieces, unpacked if it is gzipped, up to the limit."""
    if not body.startswith(_GZIP):
        sitemap.cut = len(body) > MAX_BYTES
        for at in range(0, min(len(body), MAX_BYTES), _CHUNK):
            yield body[at : min(at + _CHUNK, MAX_BYTES)]
        return
    left, at = MAX_BYTES, 0
    # A gzip file may have several members.
    for _ in range(_MEMBERS_MAX):
        if not body.startswith(_GZIP, at) or left <= 0:
            return
        unpacker = zlib.decompressobj(_AS_GZIP)
        data = b""
        while left > 0 and not unpacker.eof:
            if not data:
                # In pieces, because zlib copies the unused part of its input.
                data = body[at : at + _CHUNK]
                at += len(data)
            if not data:
                break
            chunk = unpacker.decompress(data, min(_CHUNK, left))
            data = unpacker.unconsumed_tail
            left -= len(chunk)
            if chunk:
                yield chunk
        at -= len(unpacker.unused_data)
        sitemap.cut = not unpacker.eof
    sitemap.cut |= body.startswith(_GZIP, at)


class _Full(Exception):
    """Signal that the sitemap has as many URLs as it may have."""


class _Collector:
    """Target of lxml's parser that collects the URLs of a sitemap, without a tree."""

    def __init__(self, url: str, urls: Urls) -> None:
        self.sitemap = Sitemap()
        self._urls = urls
        base = urls.base(url)
        self._base = None if isinstance(base, Rejected) else base
        self._seen: set[str] = set()
        # Names and roles of the open elements, from the root on.
        self._path: list[tuple[str, int]] = []
        # The last record that began: its name, fields and addresses.
        self._name = ""
        self._record: dict[str, str] = {}
        self._located: list[str] = []
        self._guid: Mapping[str, str] = {}
        self._text: list[str] = []
        self._chars = 0
        self._elements = 0
        self._addresses = 0

    # --- called by lxml ------------------------------------------------------------------------

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._elements += 1
        if self._elements > _MAX_ELEMENTS or len(self._path) >= _MAX_DEPTH:
            raise _Full
        # Text before a child counts: the parent may have no `loc`, or an element was not closed.
        self._take()
        name = tag.rpartition("}")[2].lower()
        role = self._role(name)
        self._path.append((name, role))
        if role == _RECORD:
            # The last record may not have been closed.
            self._finish()
            self._name = name
        elif name == "guid":
            self._guid = attributes
        elif name == "link" and self._name == "entry" and role == _FIELD:
            attributes = whole_ampersands(attributes)
            href = attributes.get("href")
            if href and attributes.get("rel", "alternate") == "alternate":
                self._record.setdefault("link", href)

    def data(self, text: str) -> None:
        # Most calls are for blanks between elements.
        if self._chars < _MAX_TEXT and (self._text or not text.isspace()):
            self._text.append(text)
            self._chars += len(text)

    def end(self, tag: str) -> None:
        self._take()
        if self._path and self._path.pop()[1] == _RECORD:
            self._finish()

    def close(self) -> None:
        """End the file, perhaps in the middle of a record."""
        self._text = []
        self._finish()

    def _role(self, name: str) -> int:
        """Find the role of an element of this name below the open ones."""
        parent, role = self._path[-1] if self._path else ("", _OTHER)
        if role == _ADDRESS:
            # For example <loc><url>…</url></loc>.
            return _ADDRESS if name in ("url", "loc") else _OTHER
        if role == _FIELD:
            return _OTHER
        if name in _RECORDS:
            return _RECORD
        if role == _RECORD:
            return _ADDRESS if name == "loc" and parent in _LOCATED else _FIELD
        return _OTHER

    def _take(self) -> None:
        """Read the text of the innermost element."""
        if not self._text:
            return
        text, self._text, self._chars = "".join(self._text).strip(), [], 0
        if not self._path:
            return
        name, role = self._path[-1]
        if role == _RECORD and name in _LOCATED and self._path[0][0] in _ROOTS:
            # For example <sitemap>http://…</sitemap>.
            role = _ADDRESS if text.lower().startswith(("http://", "https://")) else role
        if role == _ADDRESS:
            self._located.append(text)
            if len(self._located) > MAX_URLS:
                raise _Full
        elif role == _FIELD:
            if name == "guid":
                text = permalink(text, self._guid)
            if text:
                self._record.setdefault("time" if name in _TIMES else name, text)

    def _finish(self) -> None:
        """Add the addresses of the last record."""
        record, addresses = self._record, self._located
        if self._name not in _LOCATED:
            addresses = [record.get("link") or record.get("guid", "")]
        self._record, self._located = {}, []
        if not any(addresses):
            return
        is_map, changefreq = self._name == "sitemap", record.get("changefreq", "").lower()
        facts = feed_time(record.get("time", "")), _priority(record), changefreq
        for address in addresses:
            absolute = address if self._base is None else self._base.join(address)
            self._add(absolute, facts, is_map=is_map)

    # --- text ----------------------------------------------------------------------------------

    def lines(self, lines: Iterable[str]) -> None:
        """Add lines that have a URL each."""
        for line in lines:
            if line.strip():
                self._add(line.strip())

    # -------------------------------------------------------------------------------------------

    def _add(
        self,
        address: str,
        facts: tuple[datetime | None, float, str] = (None, 0.5, ""),
        *,
        is_map: bool = False,
    ) -> None:
        self._addresses += 1
        if self._addresses > _MAX_ADDRESSES:
            raise _Full
        spelling = self._urls.spelling(address)
        if isinstance(spelling, Rejected):
            self.sitemap.rejected += 1
            return
        url, written = spelling
        if url in self._seen:
            return
        if len(self._seen) >= MAX_URLS:
            raise _Full
        self._seen.add(url)
        if written:
            self.sitemap.written[url] = written
        if is_map:
            self.sitemap.sitemaps.append(url)
        else:
            self.sitemap.pages.append(Located(url, *facts))


def _priority(record: dict[str, str]) -> float:
    try:
        value = float(record.get("priority", 0.5))
    except ValueError:
        return 0.5
    return min(1.0, max(0.0, value)) if value == value else 0.5  # noqa: PLR0124 - not a number
