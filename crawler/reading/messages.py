"""Messages between a crawl and its worker processes, and documents in them. Pure.

A message is its size in four bytes, and as many bytes: msgpack, or the body of a file as it is. For
each file a worker gets two, [type, URL, nofollow] and the body, and sends one, the answer. A worker
may have been taken over by the file that it reads, so nothing in its answers is trusted: their
size, their types, the words.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Self, get_type_hints

import msgpack

from crawler.parsing.document import (
    MAX_DESCRIPTION,
    MAX_FEEDS,
    MAX_LANGUAGE,
    MAX_LANGUAGES,
    MAX_TITLE,
    Document,
    DocumentLimits,
    Link,
    Unreadable,
)
from crawler.parsing.paragraphs import MAX_HEADING_CHARS, MAX_HEADINGS
from crawler.parsing.rights import bounded as bounded_statements
from crawler.util.packed import Damaged
from crawler.util.packed import unpacked as read_packed

# Bytes of the size before each message.
SIZE = struct.Struct(">I")
# The first message of a worker.
READY = "ready"
# The longest answer. The text of a document may be in it three times, in any alphabet.
MAX_ANSWER_BYTES = 32_000_000
_REASON = re.compile(r"[a-z][a-z_]{0,39}")
_MAX_PARTS = 100_000


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker is told when it starts, as the argument of its command."""

    # Seconds for one file, and bytes of memory.
    timeout_s: float
    memory_bytes: int
    nice: int
    limits: DocumentLimits
    # Paths of the user's readers, by type.
    own: Mapping[str, str] = field(default_factory=dict)
    # A worker that reads pages has the options of their reader (ReaderOptions); its types are
    # Content-Types.
    pages: Mapping[str, Any] | None = None

    def to_argument(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_argument(cls, text: str) -> Self:
        found = json.loads(text)
        return cls(**{**found, "limits": DocumentLimits(**found["limits"])})


class Garbage(Exception):
    """Bytes that are no message, or a message that is no answer."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Answer of a worker whose reader raised another exception than Unreadable."""

    error: str


Answer = Document | Unreadable | Failed


def packed(message: object) -> bytes:
    """Return a message with its size in front."""
    data: bytes = msgpack.packb(message, datetime=True, unicode_errors="replace")
    return SIZE.pack(len(data)) + data


def unpacked(data: bytes) -> Any:
    """Return a message, without its size; raise Garbage."""
    try:
        return read_packed(
            data, timestamp=3, max_array_len=_MAX_PARTS, max_map_len=_MAX_PARTS, max_ext_len=100
        )
    except Damaged as error:
        raise Garbage(f"a message that cannot be unpacked ({error})") from error


def packed_answer(answer: Answer, *, is_last: bool = False) -> bytes:
    """Return an answer as a message; `is_last` says that the worker takes no more files.

    A document that is too large for a message is unreadable.
    """
    match answer:
        case Document():
            message = packed({"document": _record(answer), "last": is_last})
            if len(message) - SIZE.size <= MAX_ANSWER_BYTES:
                return message
            return packed({"unread": "too_large", "last": True})
        case Unreadable() if _REASON.fullmatch(answer.reason):
            return packed({"unread": answer.reason, "last": is_last})
        case Unreadable():
            error = f"Unreadable({answer.reason!r:.60}): give one word as the reason"
            return packed({"failed": error, "last": is_last})
    return packed({"failed": answer.error, "last": is_last})


def answer_in(data: bytes) -> tuple[Answer, bool]:
    """Return the answer in a message without its size, and whether it is the last; or Garbage."""
    match unpacked(data):
        case {"document": dict() as record, "last": bool() as is_last}:
            try:
                return document_of(record), is_last
            except TypeError as error:
                raise Garbage(f"a document that is none ({error})") from error
        case {"unread": str() as reason, "last": bool() as is_last} if _REASON.fullmatch(reason):
            return Unreadable(reason), is_last
        case {"failed": str() as error, "last": bool() as is_last}:
            return Failed(error), is_last
    raise Garbage("a message that is no answer")


def document_of(record: Mapping[str, Any]) -> Document:
    """Make a document of its fields; raise TypeError, which says which one is wrong."""
    for name, value in record.items():
        if name not in _TYPES:
            raise TypeError(f"{name!r:.40} is no field of a document; it has {', '.join(_TYPES)}")
        if not _CHECKS[_TYPES[name]](value):
            raise TypeError(f"{name} is {value!r:.60}, not of the type {_name_of(_TYPES[name])}")
    anchors = [
        Link(**each) if isinstance(each, dict) else each for each in record.get("anchors", ())
    ]
    return Document(**{**record, "anchors": anchors})


def bounded(document: Document, limits: DocumentLimits) -> Document:
    """Cut what sinks store of a document to the lengths that our own readers keep to."""
    document.title = document.title[:MAX_TITLE]
    document.author = document.author[:MAX_TITLE]
    document.description = document.description[:MAX_DESCRIPTION]
    document.language = document.language[:MAX_LANGUAGE]
    headings = document.headings[:MAX_HEADINGS]
    # Markdown has marks before some characters.
    document.headings = [heading[: 2 * MAX_HEADING_CHARS] for heading in headings]
    document.rights = bounded_statements(document.rights)
    document.feeds = document.feeds[:MAX_FEEDS]
    document.languages = dict(islice(document.languages.items(), MAX_LANGUAGES))
    document.anchors = document.anchors[: limits.max_links]
    return document


def _record(document: Document) -> dict[str, Any]:
    """Return the fields of a document that say something."""
    return dict(_fields(document))


def _fields(document: Document) -> Iterator[tuple[str, Any]]:
    for name in _TYPES:
        value = getattr(document, name)
        if isinstance(value, datetime):
            yield name, value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        elif name == "anchors":
            yield name, [asdict(link) for link in value]
        # An empty list of these says that there is nothing to compare.
        elif value or (value is not None and name in ("blocks", "article")):
            yield name, value


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def _is_link(value: object) -> bool:
    if isinstance(value, Link):
        return True
    return (
        isinstance(value, dict)
        and value.keys() <= {"url", "rel", "text"}
        and "url" in value
        and all(isinstance(part, str) for part in value.values())
    )


_TYPES = {
    name: kind
    for name, kind in get_type_hints(Document).items()
    if name in {each.name for each in fields(Document)}
}
_CHECKS: dict[Any, Callable[[object], bool]] = {
    str: lambda value: isinstance(value, str),
    bool: lambda value: isinstance(value, bool),
    datetime | None: lambda value: value is None or isinstance(value, datetime),
    list[str]: _are_texts,
    list[str] | None: lambda value: value is None or _are_texts(value),
    dict[str, str]: lambda value: (
        isinstance(value, dict) and _are_texts([*value]) and _are_texts([*value.values()])
    ),
    dict[str, float]: lambda value: (
        isinstance(value, dict)
        and _are_texts([*value])
        and all(isinstance(each, int | float) for each in value.values())
    ),
    list[Link]: lambda value: isinstance(value, list) and all(map(_is_link, value)),
}


def _name_of(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and kind in (str, bool) else str(kind)
