"""Mend the head of a response that the parser refuses, as browsers read it. Pure.

Bytes before the status line and lines that are not headers are left out. Equal lengths count as
one, a length that is not a number counts as absent, and chunks take precedence over a length
(RFC 9112, 6.3). A head that can be read in two ways stays refused.
"""

from __future__ import annotations

import re

_STATUS_LINE = re.compile(
    rb"HTTP(?:/[0-9]+(?:\.[0-9]+)?)?[ \t]+([1-9][0-9]{2})(?![0-9])[ \t]*(.*)", re.IGNORECASE
)
# After lines that are not HTTP the status line must be strict.
_LATE_STATUS_LINE = re.compile(rb"(?<=\n)HTTP/[0-9]\.[0-9] [1-9][0-9]{2}(?![0-9])")
_GARBAGE_MAX = 4096
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:[ \t]*(.*)")
_END = re.compile(rb"\n\r{0,2}\n")
# Bytes of an end that may have come earlier than its last byte.
_END_BEGUN = 3
_BLANK_LINES = re.compile(rb"[\r\n]*")
_BEGIN = b"HTTP"
_SWITCHING = b"101"
# Codings that change nothing: a length beside them is valid.
_NO_CODING = frozenset({b"", b"identity"})
# Longer numbers are invalid: no body has that many bytes.
_LENGTH_DIGITS = 18


class Unmendable(Exception):
    """Error for a head that cannot be mended."""


class NotBegun(Exception):
    """Error for a response whose status line has not come yet, and may never come."""


def mended(raw: bytes, known: int = 0, *, may_begin_late: bool = True) -> bytes | None:
    """Return the response so far with a valid head; None while the head has not ended.

    The first `known` bytes were passed before and do not contain the end. If the response
    `may_begin_late`, bytes before its status line are left out, and NotBegun is raised while there
    is no status line. Raises Unmendable.
    """
    heads, at = [], _status_line(raw) if may_begin_late else 0
    has_end = _END.search(raw, max(at, known - _END_BEGUN)) is not None
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


def _status_line(raw: bytes) -> int:
    """Find where the first head begins."""
    at = _start(raw, 0)
    try:
        _check_begin(raw[at:])
    except Unmendable:
        found = _LATE_STATUS_LINE.search(raw, at, at + _GARBAGE_MAX)
        if found is not None:
            return found.start()
        if len(raw) - at >= _GARBAGE_MAX:
            raise
        raise NotBegun from None
    return at


def _start(raw: bytes, at: int) -> int:
    found = _BLANK_LINES.match(raw, at)
    return found.end() if found else at


def _check_begin(begun: bytes) -> None:
    """Raise Unmendable unless these bytes may be the begin of a head."""
    end = begun.find(b"\n")
    if end < 0:
        is_head = _BEGIN.startswith(begun[: len(_BEGIN)].upper())
    else:
        is_head = _STATUS_LINE.fullmatch(_spaced(begun[:end])) is not None
    if not is_head:
        raise Unmendable


def _mended_head(head: bytes) -> tuple[bytes, bytes]:
    """Return the status of a head, and the head as it should be."""
    first, *lines = head.split(b"\n")
    found = _STATUS_LINE.fullmatch(_spaced(first))
    if found is None:
        raise Unmendable
    status, reason = found.groups()
    fields: list[tuple[bytes, bytes]] = []
    # Whether the last line was a header, which the next one may continue.
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
    """Replace carriage returns inside of a line by blanks (RFC 9112, 2.2)."""
    return line.rstrip(b"\r").replace(b"\r", b" ")


def _framed(fields: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers with at most one header that tells where the body ends."""
    lengths = _listed(fields, b"content-length")
    codings = _listed(fields, b"transfer-encoding")
    is_coded = not _NO_CODING.issuperset(codings)
    left_out = {b"content-length"} if is_coded else {b"content-length", b"transfer-encoding"}
    kept = [field for field in fields if field[0].lower() not in left_out]
    if not is_coded:
        digits = {length.lstrip(b"0") or b"0" for length in lengths if length.isdigit()}
        numbers = {number for number in digits if len(number) <= _LENGTH_DIGITS}
        if len(numbers) > 1:
            raise Unmendable
        kept += [(b"Content-Length", number) for number in numbers]
    return kept


def _listed(fields: list[tuple[bytes, bytes]], wanted: bytes) -> list[bytes]:
    return [
        part.strip().lower()
        for name, value in fields
        if name.lower() == wanted
        for part in value.split(b",")
    ]
