"""Split a text into words, in a fifth of the time of a regular expression. Pure."""

import re
from collections.abc import Iterator

import numpy as np

# Characters that are split at a time: the interpreter's lock is held meanwhile, for up to 10 ms.
_PIECE_CHARS = 100_000
# Characters that are no part of a word become blanks.
BLANK = 32
_NO_WORD = re.compile(r"[^\x00-\x7f\w]")
_ASCII_WORDS = bytes(
    ord(chr(code).lower()) if chr(code).isalnum() or chr(code) == "_" else BLANK
    for code in range(128)
) + bytes(range(128, 256))
# What becomes of each UTF-16 unit: its lower case, or a blank. That is wrong for characters of two
# units, and for these: the lower case depends on the characters around it, or has two characters.
_UNUSUAL = ("Σ", "İ")
_UNITS = np.arange(0x10000, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")
_WORDS = np.frombuffer(
    _NO_WORD.sub(" ", _UNITS.replace("İ", " ").lower()).encode("utf-16-le"), "<u2"
)

# Characters of Chinese and Japanese, which have no blanks between words, and their number.
_FIRST, _NUMBER = np.uint16(0x3040), np.uint16(0xA000 - 0x3040)
_OF_ONE = re.compile("[\u3040-\u9fff]")


def words_of(text: str) -> bytes:
    """Return the words of a text in lower case, separated by blanks.

    Words are letters, digits and underscores. Each character of Chinese and Japanese is one.
    """
    if len(text) <= _PIECE_CHARS:
        return _words_of(text)
    return b"".join(map(_words_of, _pieces(text)))


def _pieces(text: str) -> Iterator[str]:
    """Split a long text after blanks, if it has some."""
    at = 0
    while at < len(text):
        start, at = at, text.rfind(" ", at + 1, at + _PIECE_CHARS) + 1 or at + _PIECE_CHARS
        yield text[start:at]


def _words_of(text: str) -> bytes:
    if not text.isascii():
        units = text.encode("utf-16-le", "replace")
        if len(units) > 2 * len(text) or any(char in text for char in _UNUSUAL):
            text = _OF_ONE.sub(r" \g<0> ", _NO_WORD.sub(" ", text.lower()))
        else:
            words = _WORDS[np.frombuffer(units, "<u2")]
            is_one = words - _FIRST < _NUMBER
            text = (_apart(words, is_one) if is_one.any() else words).tobytes().decode("utf-16-le")
    return text.encode("utf-8", "replace").translate(_ASCII_WORDS)


def _apart(units: np.ndarray, is_one: np.ndarray) -> np.ndarray:
    """Put a blank before and after each of some units."""
    found = units.repeat(1 + 2 * is_one)
    starts = is_one.nonzero()[0]
    starts += 2 * np.arange(len(starts))
    found[starts] = found[starts + 2] = BLANK
    return found
