"""Read the parts of ZIP files, within limits, and their XML without a tree. Pure.

Nothing is loaded, and libxml2 bounds how much entities may add.
"""

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from io import BytesIO
from posixpath import dirname, join, normpath
from typing import Protocol
from urllib.parse import unquote

from lxml import etree  # type: ignore[import-untyped]

from crawler.parsing.document import DocumentLimits, Unreadable
from crawler.parsing.feeds import whole_ampersands

_CHUNK_BYTES = 65_536
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# Elements inside of each other: more than programs write, and few enough to remember them.
_MAX_DEPTH = 500
# Begins each line of a file's table of contents.
_ENTRY = b"PK\x01\x02"
_IS_ENCRYPTED = 1
# What zipfile raises for damaged files.
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, ValueError)


class ZipFile:
    """ZIP file of a document. Whatever is wrong with it raises Unreadable."""

    def __init__(self, body: bytes, limits: DocumentLimits) -> None:
        # Before zipfile makes an object for each.
        if body.count(_ENTRY) > limits.max_entries:
            raise Unreadable("too_many_entries")
        try:
            self._file = zipfile.ZipFile(BytesIO(body))
        except _DAMAGED as error:
            raise Unreadable("damaged") from error
        # Names differ by more than case, as the formats demand.
        self._entries = {each.filename.lower(): each for each in self._file.infolist()}
        self._left = limits.max_unpacked_bytes

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._entries

    def read(self, name: str) -> bytes:
        """Return a part as a whole."""
        return b"".join(self.pieces(name))

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield a part piece by piece."""
        entry = self._entries.get(name.lower())
        if entry is None:
            raise Unreadable("damaged")
        if entry.flag_bits & _IS_ENCRYPTED:
            raise Unreadable("encrypted")
        if entry.compress_type not in _METHODS:
            # zipfile unpacks others without a limit.
            raise Unreadable("unsupported")
        try:
            with self._file.open(entry) as part:
                while piece := part.read(_CHUNK_BYTES):
                    self._left -= len(piece)
                    if self._left < 0:
                        raise Unreadable("too_large")
                    yield piece
        except _DAMAGED as error:
            raise Unreadable("damaged") from error


def path_from(part: str, target: str) -> str:
    """Return the name of a part that another one refers to."""
    return normpath(join(f"/{dirname(part)}", unquote(target))).lstrip("/")


class Full(Exception):
    """Signal that a reader has as much as it may have."""


class Target(Protocol):
    """Receiver of the elements of XML, by their local names."""

    def opened(self, name: str, attributes: Mapping[str, str]) -> None: ...

    def closed(self, name: str) -> None: ...

    def data(self, text: str) -> None: ...


def read_xml(pieces: Iterator[bytes], target: Target, *, skipped: frozenset[str]) -> None:
    """Read XML until its end, or until the target raises Full; without `skipped` elements."""
    events = _Events(target, skipped)
    parser = etree.XMLParser(
        target=events,
        recover=True,
        resolve_entities=False,
        no_network=True,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    with suppress(Full):
        try:
            for piece in pieces:
                parser.feed(piece)
            parser.close()
        except (etree.XMLSyntaxError, AssertionError, ValueError) as error:
            raise Unreadable("damaged") from error
    if events.is_empty:
        # The parser says nothing of it, as it recovers from all errors.
        raise Unreadable("damaged")


class _Events:
    """Target of lxml's parser; leaves elements out, and the namespaces of names."""

    def __init__(self, target: Target, skipped: frozenset[str]) -> None:
        self._target = target
        self._skipped = skipped
        self._depth = 0
        # Open elements inside of one that is left out, itself included.
        self._outside = 0
        # Whether there was no element.
        self.is_empty = True

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self.is_empty = False
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise Unreadable("too_deep")
        name = tag.rpartition("}")[2]
        if self._outside or name in self._skipped:
            self._outside += 1
        else:
            self._target.opened(name, whole_ampersands(attributes))

    def end(self, tag: str) -> None:
        self._depth -= 1
        if self._outside:
            self._outside -= 1
        else:
            self._target.closed(tag.rpartition("}")[2])

    def data(self, text: str) -> None:
        if not self._outside:
            self._target.data(text)

    def close(self) -> None:
        pass


def attribute(attributes: Mapping[str, str], name: str) -> str:
    """Return the attribute of this local name, or an empty text."""
    for key, value in attributes.items():
        if key.rpartition("}")[2] == name:
            return value
    return ""


class Facts:
    """Target that collects the texts of elements: title, creator, language and so on."""

    # Characters of one fact.
    _MAX = 10_000

    def __init__(self) -> None:
        self._found: dict[str, str] = {}
        self._texts: list[str] = []

    def opened(self, name: str, attributes: Mapping[str, str]) -> None:
        self._texts = []

    def data(self, text: str) -> None:
        if len(self._texts) < self._MAX:
            self._texts.append(text[: self._MAX])

    def closed(self, name: str) -> None:
        text = " ".join("".join(self._texts).split())[: self._MAX]
        self._texts = []
        if text:
            self._found.setdefault(name, text)

    def get(self, *names: str) -> str:
        """Return the first of these facts that the document has."""
        return next((self._found[name] for name in names if name in self._found), "")
