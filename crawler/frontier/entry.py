"""The record of one URL in the frontier: compact, versioned, strict to decode. Pure.

Layout (big-endian; the Lua scripts read the first 21 bytes and the host, see lua/shard.lua):

    byte  0      version << 4 | flags (1 = https, 2 = a tail follows the URL)
    byte  1      depth
    byte  2      front queue << 5 | attempts
    byte  3      reclaims: how often a dead owner's lease was taken back
    byte  4      length of the host's part that is not in the politeness group (0 = the whole host)
    bytes 5-12   id, the URL's fingerprint
    bytes 13-20  the parent's id, zero for seeds
    bytes 21-    the canonical URL without its scheme; then, with a tail, a newline and msgpack
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import Any

import msgpack

VERSION = 1
MAX_DEPTH = 255
MAX_ATTEMPTS = 31
# Failures that an entry remembers, in its tail as [reason, unix time].
HISTORY = 8
QUEUES = 5
# In the tail of an entry that is fetched by another spelling than its canonical one.
GIVEN_URL = "url"

_HEADER = struct.Struct(">BBBBBQQ")
_HTTPS = 1
_TAIL = 2
_GROUP_SKIP_AT = 4
_PACK = _HEADER.pack
_NEW_HTTP, _NEW_HTTPS = VERSION << 4, VERSION << 4 | _HTTPS


class DamagedEntry(ValueError):
    """Bytes that are no entry. The text says what is wrong with them."""


@dataclass(slots=True)
class Entry:
    """One URL on its way through the frontier. It is never changed, but replaced.

    Not frozen: making one would take three times as long, and a page makes one a link.
    """

    id: int
    url: str
    queue: int = 1
    depth: int = 0
    parent: int = 0
    attempts: int = 0
    reclaims: int = 0
    group_skip: int = 0
    # What a plain GET of the URL does not need: method, body, callback, validators, redirects …
    tail: dict[str, Any] = field(default_factory=dict)

    @property
    def given_url(self) -> str:
        """What is fetched: the URL as a spider's request spelled it, if that is another way."""
        return str(self.tail.get(GIVEN_URL, self.url))

    @property
    def host(self) -> str:
        """The politeness group: the URL's authority, less what the grouping leaves out."""
        start = self.url.index("//") + 2 + self.group_skip
        return self.url[start : self.url.index("/", start)]

    def retried(self, reason: str = "", *, now_s: float = 0.0) -> Entry:
        """The same entry with one more attempt on its record, and why the last one failed."""
        attempts = min(self.attempts + 1, MAX_ATTEMPTS)
        if not reason:
            return replace(self, attempts=attempts)
        history = [*self.tail.get("history", ()), [reason, round(now_s)]][-HISTORY:]
        return replace(self, attempts=attempts, tail={**self.tail, "history": history})


def encode(entry: Entry) -> bytes:
    """The bytes of an entry; the URL must be canonical."""
    scheme, _, rest = entry.url.partition("://")
    tail = entry.tail
    flags = (_HTTPS if scheme == "https" else 0) | (_TAIL if tail else 0)
    head = _HEADER.pack(
        VERSION << 4 | flags,
        min(entry.depth, MAX_DEPTH),
        entry.queue << 5 | entry.attempts,
        entry.reclaims,
        entry.group_skip,
        entry.id,
        entry.parent,
    )
    data = head + rest.encode()
    return data + b"\n" + msgpack.packb(tail) if tail else data


class NewEntries:
    """Entries of one page's links, as bytes at once: a page has many, and few need more."""

    __slots__ = ("_depth", "_parent")

    def __init__(self, depth: int, parent: int) -> None:
        self._depth = min(depth, MAX_DEPTH)
        self._parent = parent

    def encode(self, id_: int, url: str, queue: int, group_skip: int) -> bytes:
        """What encode(Entry(…)) gives."""
        first, location = (_NEW_HTTPS, url[8:]) if url[4] == "s" else (_NEW_HTTP, url[7:])
        head = _PACK(first, self._depth, queue << 5, 0, group_skip, id_, self._parent)
        return head + location.encode()


def add_tail(data: bytes, tail: dict[str, Any]) -> bytes:
    """The bytes of an entry that has none, with this tail."""
    return bytes((data[0] | _TAIL,)) + data[1:] + b"\n" + msgpack.packb(tail) if tail else data


def host_in(data: bytes) -> str:
    """The politeness group of an encoded entry."""
    start = _HEADER.size + data[_GROUP_SKIP_AT]
    return data[start : data.index(b"/", start)].decode()


def decode(data: bytes) -> Entry:
    """The entry of these bytes, or DamagedEntry."""
    if len(data) <= _HEADER.size:
        raise DamagedEntry(f"an entry of {len(data)} bytes is too short")
    first, depth, second, reclaims, group_skip, id_, parent = _HEADER.unpack_from(data)
    if first >> 4 != VERSION:
        raise DamagedEntry(f"entry version {first >> 4}, expected {VERSION}")
    queue = second >> 5
    if not 1 <= queue <= QUEUES:
        raise DamagedEntry(f"front queue {queue}, expected 1 to {QUEUES}")
    rest, tail = data[_HEADER.size :], {}
    try:
        if first & _TAIL:
            rest, _, packed = rest.partition(b"\n")
            tail = msgpack.unpackb(packed)
            if not isinstance(tail, dict):
                raise DamagedEntry("the entry's tail is no map")
        location = rest.decode()
    except DamagedEntry:
        raise
    except ValueError as error:
        raise DamagedEntry(f"unreadable entry: {error}") from error
    if b"/" not in rest[group_skip:]:
        raise DamagedEntry("the entry's URL has no host or no path")
    scheme = "https" if first & _HTTPS else "http"
    return Entry(
        id=id_,
        url=f"{scheme}://{location}",
        queue=queue,
        depth=depth,
        parent=parent,
        attempts=second & MAX_ATTEMPTS,
        reclaims=reclaims,
        group_skip=group_skip,
        tail=tail,
    )
