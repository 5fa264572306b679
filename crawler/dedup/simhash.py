"""SimHash of a text: 64 bits that differ little between texts that differ little. Pure.

Also a digest of the words that do not change by themselves: without numbers, days and months.
"""

from __future__ import annotations

import re

import numpy as np
import xxhash
from xxhash import xxh3_64_digest

BITS = 64
SHINGLE = 3
# What is no part of a word is made blank: first what is not ASCII, then what is.
_BLANK = 32
_NO_WORD = re.compile(r"[^\x00-\x7f\w]")
_ASCII_WORDS = bytes(
    code if chr(code).isalnum() or chr(code) == "_" or code > 127 else _BLANK for code in range(256)
)
# Bytes of a word that are hashed as two numbers; of longer words each is hashed on its own.
_HALF_BYTES = 8
_SHORT_BYTES = 2 * _HALF_BYTES
# Of the eight bytes where a word begins, and of the next eight, those of a word of so many bytes.
_FIRST = np.array([(1 << 8 * size) - 1 for size in range(_HALF_BYTES + 1)], dtype="<u8")
_SECOND = np.append(np.zeros(_HALF_BYTES, dtype="<u8"), _FIRST)
# Hashes counted at a time: it bounds the memory, 64 bytes each.
_CHUNK = 16_384
# Of every hash the lowest bit of each byte, and how many of them a byte can count.
_LOWEST = np.uint64(0x0101010101010101)
_BYTE_MAX = 255
_PLACES = np.arange(8, dtype=np.uint64)[:, np.newaxis]
# Odd constants that mix the hashes of neighbouring words, so that their order counts.
_MIX_1 = np.uint64(0x9E3779B97F4A7C15)
_MIX_2 = np.uint64(0xC2B2AE3D27D4EB4F)


def words_of(text: str) -> bytes:
    """The words that a text is compared by: letters, digits and underscores, in small letters.

    They are separated by blanks.
    """
    lower = text.lower()
    if not lower.isascii():
        lower = _NO_WORD.sub(" ", lower)
    return lower.encode("utf-8", "replace").translate(_ASCII_WORDS)


def hashes_of(words: bytes) -> np.ndarray:
    """A hash of 64 bits for each word, in their order."""
    padded = b" %b%*b" % (words, _SHORT_BYTES, b"")
    is_word = np.frombuffer(padded, np.uint8) != _BLANK
    # Where words begin and end in what was given.
    edges = (is_word[1:] != is_word[:-1]).nonzero()[0]
    starts, ends = edges[::2], edges[1::2]
    sizes = ends - starts
    # The eight bytes from any place on, as a number.
    numbers = np.ndarray(len(words) + _HALF_BYTES + 1, "<u8", padded, 1, 1)
    hashes: np.ndarray = (numbers[starts] & _FIRST.take(sizes, mode="clip")) * _MIX_1
    hashes ^= (numbers[_HALF_BYTES:][starts] & _SECOND.take(sizes, mode="clip")) * _MIX_2
    _mix(hashes)
    for at in (sizes > _SHORT_BYTES).nonzero()[0].tolist():
        hashes[at] = xxhash.xxh3_64_intdigest(words[starts[at] : ends[at]])
    return hashes


def simhash(hashes: np.ndarray) -> int:
    """SimHash over runs of three words. Needs at least three; callers guard short texts."""
    shingles = hashes[:-2] * _MIX_1 ^ hashes[1:-1] * _MIX_2 ^ hashes[2:]
    _mix(shingles)
    # Each counts once. Like numpy's unique(), in a tenth of the time.
    shingles.sort()
    is_new = shingles[1:] != shingles[:-1]
    if not is_new.all():
        shingles = np.concatenate((shingles[:1], shingles[1:][is_new]))
    return majority(shingles)


def majority(hashes: np.ndarray) -> int:
    """Each bit as most of the hashes have it."""
    ones = sum(_ones(hashes[at : at + _CHUNK]) for at in range(0, len(hashes), _CHUNK))
    packed = np.packbits(np.greater(ones, len(hashes) // 2), bitorder="little")
    return int.from_bytes(packed.tobytes(), "little")


def _ones(hashes: np.ndarray) -> np.ndarray:
    """How many have each bit, by byte and bit. Eight are counted at once, in a byte each."""
    bits = hashes >> _PLACES
    bits &= _LOWEST
    counts = np.add.reduceat(bits, np.arange(0, len(hashes), _BYTE_MAX), axis=1)
    octets = counts.astype("<u8", copy=False).view(np.uint8).reshape(8, -1, 8)
    ones: np.ndarray = np.add.reduce(octets, axis=1, dtype=np.int64)
    return ones.T


def distance(a: int, b: int) -> int:
    """In how many bits two hashes differ."""
    return (a ^ b).bit_count()


def _mix(hashes: np.ndarray) -> None:
    """Let each bit depend on all others."""
    hashes ^= hashes >> np.uint64(32)
    hashes *= _MIX_1
    hashes ^= hashes >> np.uint64(29)


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
