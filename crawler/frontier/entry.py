"""Pack the record of one URL into bytes: compact, versioned, decoded strictly. Pure.

Layout (big-endian; the Lua scripts read the first 13 bytes and the host, see lua/shard.lua):

    byte  0      version << 4 | kind << 2 | flags (1 = https, 2 = more follows the URL)
    byte  1      depth
    byte  2      front queue << 5 | attempts; queues 1 to 5 are of pages, 6 of documents, 7 of media
    byte  3      reclaims: number of owners that died with a lease on the URL
    byte  4      length of the host's part outside the politeness group (0 = the whole host)
    bytes 5-12   id, the URL's fingerprint
    bytes 13-20  the parent's id, zero for seeds
    bytes 21-24  when the URL was first offered to the frontier, unix seconds; zero if not known
    bytes 25-    the canonical URL without its scheme; then the written form of the URL (see
                 crawler/urls/canonical.py) and the tail in msgpack: each is optional, and follows a
                 newline

Entries of version 1, which crawls of earlier releases have, are without bytes 21-24. They are read,
and become version 2 when they are packed again.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import lru_cache
from typing import Any

import msgpack

from crawler.urls import written_url
from crawler.urls.canonical import LOWER_ESCAPES

VERSION = 2
MAX_DEPTH = 255
MAX_ATTEMPTS = 31
# Failures that an entry remembers, in its tail as [reason, unix time].
HISTORY = 8
# Front queues: those of pages by priority, then one of documents, and one of media and other files.
PAGE_QUEUES = 5
DOCUMENTS, MEDIA = 6, 7
QUEUES = 7

_HEADER = struct.Struct(">BBBBBQQI")
# First part of the header: all that version 1 has.
_HEADER_1 = struct.Struct(">BBBBBQQ")
_HEADER_BYTES = {1: _HEADER_1.size, VERSION: _HEADER.size}
_HTTPS = 1
_MORE = 2
_KIND_SHIFT, _KIND_MASK = 2, 3
# First bytes of a written form. No tail begins so: msgpack begins maps with other bytes.
_WRITTEN = (b"?", b"/", b"%")
_GROUP_SKIP_AT = 4
# The same header in three parts: before the id, the id, and what follows it.
_PACK_NEW = struct.Struct(">5sQ12s").pack
_REST = struct.Struct(">QI")
_NEW_HTTP, _NEW_HTTPS = VERSION << 4, VERSION << 4 | _HTTPS


class Kind(IntEnum):
    """Kind of document behind the URL of an entry, set by the code that makes the entry."""

    PAGE = 0
    SITEMAP = 1


_KINDS = {kind.value: kind for kind in Kind}


class DamagedEntry(ValueError):
    """Bytes that are no entry; the text says what is wrong."""


@dataclass(slots=True)
class Entry:
    """Record of one URL in the frontier. It is never changed, but replaced.

    The class is not frozen: making an entry would take three times as long, and a page makes one
    for each link.
    """

    id: int
    url: str
    queue: int = 1
    depth: int = 0
    parent: int = 0
    attempts: int = 0
    reclaims: int = 0
    group_skip: int = 0
    kind: Kind = Kind.PAGE
    # Written form of the URL if it differs from the canonical one; see `written_url`.
    written: str = ""
    # When the URL was first offered to the frontier, in unix seconds; 0 if that is not known.
    discovered_s: int = 0
    # Optional parts: method, body, callback, validators, redirects …
    tail: dict[str, Any] = field(default_factory=dict)
    # Politeness group: the URL's authority, less the part that the grouping leaves out.
    host: str = field(init=False, compare=False, repr=False)
    # URL as it was written: the one that is checked against robots.txt and fetched.
    written_url: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        start = self.url.index("//") + 2 + self.group_skip
        self.host = self.url[start : self.url.index("/", start)]
        self.written_url = written_url(self.url, self.written)

    def retried(self, reason: str = "", *, now_s: float = 0.0) -> Entry:
        """Return this entry with one more attempt, and the reason why the last one failed."""
        attempts = min(self.attempts + 1, MAX_ATTEMPTS)
        if not reason:
            return replace(self, attempts=attempts)
        history = [*self.tail.get("history", ()), [reason, round(now_s)]][-HISTORY:]
        return replace(self, attempts=attempts, tail={**self.tail, "history": history})


def encode(entry: Entry) -> bytes:
    """Pack an entry; its URL must be canonical."""
    scheme, _, rest = entry.url.partition("://")
    first = VERSION << 4 | entry.kind << _KIND_SHIFT | (_HTTPS if scheme == "https" else 0)
    head = _HEADER.pack(
        first,
        min(entry.depth, MAX_DEPTH),
        entry.queue << 5 | entry.attempts,
        entry.reclaims,
        entry.group_skip,
        entry.id,
        entry.parent,
        entry.discovered_s,
    )
    data = head + rest.encode()
    if entry.written:
        data = _with_more(data, entry.written.encode())
    return add_tail(data, entry.tail)


class NewEntries:
    """Encoder of the links of one page, without an Entry for each: a page has many links."""

    __slots__ = ("_http", "_https", "_rest")

    def __init__(self, depth: int, parent: int, now_s: float) -> None:
        self._http, self._https = _starts(min(depth, MAX_DEPTH))
        self._rest = _REST.pack(parent, int(now_s))

    def encode(self, id_: int, url: str, queue: int, group_skip: int, written: str = "") -> bytes:
        """Return the same bytes as encode(Entry(…))."""
        if not written and not group_skip:
            if url[4] == "s":
                return _PACK_NEW(self._https[queue], id_, self._rest) + url[8:].encode()
            return _PACK_NEW(self._http[queue], id_, self._rest) + url[7:].encode()
        start, location = (
            (self._https[queue], url[8:]) if url[4] == "s" else (self._http[queue], url[7:])
        )
        if written:
            start = bytes((start[0] | _MORE,)) + start[1:]
            location = f"{location}\n{written}"
        start = start[:_GROUP_SKIP_AT] + bytes((group_skip,))
        return _PACK_NEW(start, id_, self._rest) + location.encode()


@lru_cache(maxsize=MAX_DEPTH + 1)
def _starts(depth: int) -> tuple[list[bytes], list[bytes]]:
    """Return the bytes before the id of new entries, for http and for https, by their queue."""
    queues = range(QUEUES + 1)
    http, https = (
        [bytes((first, depth, queue << 5, 0, 0)) for queue in queues]
        for first in (_NEW_HTTP, _NEW_HTTPS)
    )
    return http, https


def add_tail(data: bytes, tail: dict[str, Any]) -> bytes:
    """Append a tail to the bytes of an entry that has none."""
    return _with_more(data, msgpack.packb(tail)) if tail else data


def _with_more(data: bytes, more: bytes) -> bytes:
    return bytes((data[0] | _MORE,)) + data[1:] + b"\n" + more


def host_in(data: bytes) -> bytes:
    """Return the politeness group of an encoded entry."""
    start = _HEADER_BYTES[data[0] >> 4] + data[_GROUP_SKIP_AT]
    return data[start : data.index(b"/", start)]


def decode(data: bytes) -> Entry:
    """Unpack an entry, or raise DamagedEntry."""
    if len(data) <= _HEADER_1.size:
        raise DamagedEntry(f"an entry of {len(data)} bytes is too short")
    first, depth, second, reclaims, group_skip, id_, parent = _HEADER_1.unpack_from(data)
    version = first >> 4
    if version not in _HEADER_BYTES:
        raise DamagedEntry(f"entry version {version}, expected 1 to {VERSION}")
    start = _HEADER_BYTES[version]
    discovered_s = int.from_bytes(data[_HEADER_1.size : start])
    queue = second >> 5
    if not 1 <= queue <= QUEUES:
        raise DamagedEntry(f"front queue {queue}, expected 1 to {QUEUES}")
    kind = first >> _KIND_SHIFT & _KIND_MASK
    if kind not in _KINDS:
        raise DamagedEntry(f"entry kind {kind}, expected 0 to {max(_KINDS)}")
    rest, written = data[start:], ""
    tail: dict[str, Any] = {}
    try:
        if first & _MORE:
            rest, _, more = rest.partition(b"\n")
            written, tail = _read_more(more)
        location = rest.decode()
    except DamagedEntry:
        raise
    except ValueError as error:
        raise DamagedEntry(f"unreadable entry: {error}") from error
    slash = location.find("/")
    if not group_skip < slash or "\n" in location or not location[:slash].isascii():
        raise DamagedEntry("the entry's URL has no host or no path")
    scheme = "https" if first & _HTTPS else "http"
    entry = Entry(
        id=id_,
        url=f"{scheme}://{location}",
        queue=queue,
        depth=depth,
        parent=parent,
        attempts=second & MAX_ATTEMPTS,
        reclaims=reclaims,
        group_skip=group_skip,
        kind=_KINDS[kind],
        written=written,
        discovered_s=discovered_s,
        tail=tail,
    )
    return _modern(entry) if tail else entry


def _read_more(more: bytes) -> tuple[str, dict[str, Any]]:
    """Return the written form of the URL, and the tail."""
    written = ""
    if more.startswith(_WRITTEN):
        raw, newline, more = more.partition(b"\n")
        written = raw.decode()
        if written[0] == LOWER_ESCAPES and written != LOWER_ESCAPES:
            raise DamagedEntry("the entry's URL has an unknown written form")
        if not newline:
            return written, {}
    tail = msgpack.unpackb(more)
    if not isinstance(tail, dict):
        raise DamagedEntry("the entry's tail is no map")
    history = tail.get("history")
    if history is not None and not (isinstance(history, list) and all(map(_is_failure, history))):
        raise DamagedEntry("the entry's history is no list of failures")
    return written, tail


def _is_failure(value: Any) -> bool:
    """Return whether a value is the reason and the time of a failed attempt."""
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)


# --- entries of earlier releases ------------------------------------------------------------------

# Their tails have the whole written URL, and they have no kind.
_WHOLE_URL = "url"


def _modern(entry: Entry) -> Entry:
    """Bring an entry of an earlier release to today's form."""
    tail = entry.tail
    if isinstance(whole := tail.get(_WHOLE_URL), str):
        authority = entry.url[: entry.url.index("/", 8)]
        entry.tail = {name: value for name, value in tail.items() if name != _WHOLE_URL}
        if whole.startswith(f"{authority}/") and "\n" not in whole:
            entry = replace(entry, written=whole[len(authority) :])
    if entry.kind is Kind.PAGE and _was_sitemap(tail):
        entry.kind = Kind.SITEMAP
    return entry


def _was_sitemap(tail: dict[str, Any]) -> bool:
    """Return whether a tail is that of a sitemap of our own spider, by more than the callback."""
    if tail.get("callback") != "parse_sitemap":
        return False
    arguments, meta = tail.get("cb_kwargs"), tail.get("meta")
    return (
        isinstance(arguments, dict)
        and arguments.keys() == {"site", "level"}
        and isinstance(meta, dict)
        and "download_any_type" in meta
    )
