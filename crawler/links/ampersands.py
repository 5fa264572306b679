"""Mend XML in which URLs have bare ampersands, as those of many sitemaps and feeds do. Pure.

Parsers leave out what follows such an ampersand. In CDATA sections it is right as it is.
"""

from __future__ import annotations

import re

# Not followed by what makes it a reference, such as "amp;" or "#38;".
_BARE = re.compile(rb"&(?!#?\w{1,10};)")
_LONGEST_REFERENCE = 13
_OPEN, _CLOSE = b"<![CDATA[", b"]]>"
# Enough to tell one byte a character from two.
_LOOKED_AT = 4
_BOMS = (b"\xff\xfe", b"\xfe\xff")


class Ampersands:
    """Takes a document in pieces; what may be half of something waits for its other half."""

    def __init__(self) -> None:
        self._waiting = b""
        self._in_cdata = False
        self._is_wide: bool | None = None

    def feed(self, piece: bytes, *, last: bool = False) -> bytes:
        """The mended text up to where it is sure; with the last piece, to the end."""
        data = self._waiting + piece
        if self._is_wide is None and (last or len(data) >= _LOOKED_AT):
            self._is_wide = data.startswith(_BOMS) or b"\0" in data[:_LOOKED_AT]
        if self._is_wide is None:
            self._waiting = data
            return b""
        if self._is_wide:
            # Two bytes a character: left as it is, for in these our bytes are others.
            self._waiting = b""
            return data
        done, at = [], 0
        while (found := data.find(_CLOSE if self._in_cdata else _OPEN, at)) >= 0:
            done.append(self._mended(data[at:found]))
            at = found
            self._in_cdata = not self._in_cdata
        sure = len(data) if last else self._sure(data, at)
        done.append(self._mended(data[at:sure]))
        self._waiting = data[sure:]
        return b"".join(done)

    def _mended(self, text: bytes) -> bytes:
        return text if self._in_cdata or b"&" not in text else _BARE.sub(b"&amp;", text)

    def _sure(self, data: bytes, at: int) -> int:
        """Where the last piece of markup or reference begins that may not be whole."""
        end = len(data)
        if self._in_cdata:
            return max(at, end - len(_CLOSE) + 1)
        markup = data.find(_OPEN[:1], max(at, end - len(_OPEN) + 1))
        reference = data.find(b"&", max(at, end - _LONGEST_REFERENCE + 1))
        return min((place for place in (markup, reference) if place >= 0), default=end)


def mended(document: bytes) -> bytes:
    """A whole document with its bare ampersands mended."""
    return Ampersands().feed(document, last=True) if b"&" in document else document
