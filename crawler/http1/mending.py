"""Mend the head of an answer that the parser refuses, as browsers would read it. Pure.

Lines that are no headers are left out, a length that is said twice is said once, and chunks go
before a length (RFC 9112, 6.3). What can be read in two ways stays refused.
"""

from __future__ import annotations

import re

_STATUS_LINE = re.compile(
    rb"HTTP(?:/[0-9]+(?:\.[0-9]+)?)?[ \t]+([1-9][0-9]{2})(?![0-9])[ \t]*(.*)", re.IGNORECASE
)
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:[ \t]*(.*)")
_END = re.compile(rb"\n\r{0,2}\n")
# Bytes of an end that may have come before the rest of it.
_END_BEGUN = 3
_BLANK_LINES = re.compile(rb"[\r\n]*")
_BEGIN = b"HTTP"
_SWITCHING = b"101"
# Codings that change nothing, so that a length beside them holds.
_NO_CODING = frozenset({b"", b"identity"})


class Unmendable(Exception):
    """Nobody can tell what this answer is."""


def mended(raw: bytes, known: int = 0) -> bytes | None:
    """What came of an answer, with a head that can be read; None while the head has not ended.

    The first `known` bytes were shown before, without the end of it.
    """
    heads, at = [], 0
    has_end = _END.search(raw, max(0, known - _END_BEGUN)) is not None
    while True:
        at = _start(raw, at)
        end = _END.search(raw, at) if has_end else None
        if end is None:
            _check_begin(raw[at:])
            return None
        status, head = _mended_head(raw[at : end.start()])
        heads.append(head)
        at = end.end()
        if not status.startswith(b"1") or status == _SWITCHING:
            return b"".join((*heads, raw[at:]))


def _start(raw: bytes, at: int) -> int:
    found = _BLANK_LINES.match(raw, at)
    return found.end() if found else at


def _check_begin(begun: bytes) -> None:
    """Is there a head to wait for?"""
    end = begun.find(b"\n")
    if end < 0:
        is_head = _BEGIN.startswith(begun[: len(_BEGIN)].upper())
    else:
        is_head = _STATUS_LINE.fullmatch(_spaced(begun[:end])) is not None
    if not is_head:
        raise Unmendable


def _mended_head(head: bytes) -> tuple[bytes, bytes]:
    """The status of a head, and the head."""
    first, *lines = head.split(b"\n")
    found = _STATUS_LINE.fullmatch(_spaced(first))
    if found is None:
        raise Unmendable
    status, reason = found.groups()
    fields: list[tuple[bytes, bytes]] = []
    # Whether the last line was a header, so that the next one may be more of it.
    is_field = False
    for line in lines:
        text = _spaced(line)
        if text.startswith((b" ", b"\t")):
            if is_field:
                name, value = fields[-1]
                fields[-1] = (name, b"%b %b" % (value, text.strip()))
            continue
        field = _FIELD.fullmatch(text)
        is_field = field is not None
        if field is not None:
            fields.append((field[1], field[2]))
    written = b"".join(b"%b: %b\r\n" % field for field in _framed(fields))
    return status, b"HTTP/1.1 %b %b\r\n%b\r\n" % (status, reason, written)


def _spaced(line: bytes) -> bytes:
    """A carriage return inside of a line is a blank (RFC 9112, 2.2)."""
    return line.rstrip(b"\r").replace(b"\r", b" ")


def _framed(fields: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """These headers, with one word on where the body ends."""
    lengths = _listed(fields, b"content-length")
    codings = _listed(fields, b"transfer-encoding")
    is_coded = not _NO_CODING.issuperset(codings)
    left_out = {b"content-length"} if is_coded else {b"content-length", b"transfer-encoding"}
    kept = [field for field in fields if field[0].lower() not in left_out]
    if lengths and not is_coded:
        # As text: one of them may have more digits than a number takes.
        numbers = {length.lstrip(b"0") for length in lengths}
        if len(numbers) > 1 or not all(length.isdigit() for length in lengths):
            raise Unmendable
        kept.append((b"Content-Length", lengths[0]))
    return kept


def _listed(fields: list[tuple[bytes, bytes]], wanted: bytes) -> list[bytes]:
    return [
        part.strip().lower()
        for name, value in fields
        if name.lower() == wanted
        for part in value.split(b",")
    ]
