"""Compare texts as if they had no clocks: without numbers and names of days and months. Pure."""

from __future__ import annotations

import re

from xxhash import xxh3_64_digest

# The words of a text that are compared are in its beginning; hashing takes about 20 µs a KB.
_WORDS_CHARS = 100_000
_NUMBER = re.compile(r"\d+")
# Numbers a word: a page with more of them, as a table, changes with its numbers.
_NUMBERS_MAX = 0.2
_LETTERS = re.compile(r"[^\W\d_]+")
_CALENDAR = frozenset(
    "mon tue wed thu fri sat sun monday tuesday wednesday thursday friday saturday sunday jan feb "
    "mar apr may jun jul aug sep oct nov dec january february march april june july august "
    "september october november december am pm gmt utc st nd rd th t z".split()
)


def words_digest(text: str) -> bytes:
    """Hash of a text without what clocks and dates consist of; empty where little else is left."""
    text = text[:_WORDS_CHARS].lower()
    words = _LETTERS.findall(text)
    if not words or len(_NUMBER.findall(text)) > _NUMBERS_MAX * len(words):
        return b""
    plain = " ".join(word for word in words if word not in _CALENDAR)
    return xxh3_64_digest(plain.encode("utf-8", "replace"))
