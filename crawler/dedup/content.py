"""The content of a page as it is compared: text without boilerplate, and its SimHash. Pure.

A SimHash has 64 bits, of which similar texts differ in few. `words_digest` is a digest of the words
without numbers, days and months, which change by themselves.

Boilerplate is what many pages of a host share. Only pages that are no duplicates are learnt: copies
of an article must not make it boilerplate. The memory belongs to this process and is bounded. The
first pages of a host are compared with all of their text.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import xxhash
from xxhash import xxh3_64_digest

from crawler.urls import host_of

if TYPE_CHECKING:
    from crawler.items import Page

SHINGLE = 3
# Characters that are no part of a word become blanks: first those outside of ASCII, then the rest.
_BLANK = 32
_NO_WORD = re.compile(r"[^\x00-\x7f\w]")
_ASCII_WORDS = bytes(
    code if chr(code).isalnum() or chr(code) == "_" or code > 127 else _BLANK for code in range(256)
)
# Words up to 16 bytes are hashed as two numbers, all at once; longer words one by one.
_HALF_BYTES = 8
_SHORT_BYTES = 2 * _HALF_BYTES
# By the size of a word: masks for its bytes among the first eight, and among the next eight.
_FIRST = np.array([(1 << 8 * size) - 1 for size in range(_HALF_BYTES + 1)], dtype="<u8")
_SECOND = np.append(np.zeros(_HALF_BYTES, dtype="<u8"), _FIRST)
# Hashes that are counted at a time. This bounds the memory: 64 bytes each.
_CHUNK = 16_384
# The lowest bit of each byte, and the most that a byte can count.
_LOWEST = np.uint64(0x0101010101010101)
_BYTE_MAX = 255
_PLACES = np.arange(8, dtype=np.uint64)[:, np.newaxis]
# Odd constants that mix the hashes of neighbouring words, so that their order counts.
_MIX_1 = np.uint64(0x9E3779B97F4A7C15)
_MIX_2 = np.uint64(0xC2B2AE3D27D4EB4F)


def words_of(text: str) -> bytes:
    """Return the words of a text in lower case, separated by blanks.

    Words are letters, digits and underscores.
    """
    lower = text.lower()
    if not lower.isascii():
        lower = _NO_WORD.sub(" ", lower)
    return lower.encode("utf-8", "replace").translate(_ASCII_WORDS)


def hashes_of(words: bytes) -> np.ndarray:
    """Hash each word to 64 bits, in order."""
    padded = b" %b%*b" % (words, _SHORT_BYTES, b"")
    is_word = np.frombuffer(padded, np.uint8) != _BLANK
    # Where words begin and end in `words`.
    edges = (is_word[1:] != is_word[:-1]).nonzero()[0]
    starts, ends = edges[::2], edges[1::2]
    sizes = ends - starts
    # The eight bytes at each position, as a number.
    numbers = np.ndarray(len(words) + _HALF_BYTES + 1, "<u8", padded, 1, 1)
    hashes: np.ndarray = (numbers[starts] & _FIRST.take(sizes, mode="clip")) * _MIX_1
    hashes ^= (numbers[_HALF_BYTES:][starts] & _SECOND.take(sizes, mode="clip")) * _MIX_2
    _mix(hashes)
    for at in (sizes > _SHORT_BYTES).nonzero()[0].tolist():
        hashes[at] = xxhash.xxh3_64_intdigest(words[starts[at] : ends[at]])
    return hashes


def simhash(hashes: np.ndarray) -> int:
    """Compute the SimHash over runs of three words. Needs at least three words."""
    shingles = hashes[:-2] * _MIX_1 ^ hashes[1:-1] * _MIX_2 ^ hashes[2:]
    _mix(shingles)
    # Each run counts once. Like numpy's unique(), in a tenth of the time.
    shingles.sort()
    is_new = shingles[1:] != shingles[:-1]
    if not is_new.all():
        shingles = np.concatenate((shingles[:1], shingles[1:][is_new]))
    return majority(shingles)


def majority(hashes: np.ndarray) -> int:
    """Set each bit as most of the hashes have it."""
    ones = sum(_ones(hashes[at : at + _CHUNK]) for at in range(0, len(hashes), _CHUNK))
    packed = np.packbits(np.greater(ones, len(hashes) // 2), bitorder="little")
    return int.from_bytes(packed.tobytes(), "little")


def _ones(hashes: np.ndarray) -> np.ndarray:
    """Count the hashes that have each bit, by byte and bit; eight bits at once."""
    bits = hashes >> _PLACES
    bits &= _LOWEST
    counts = np.add.reduceat(bits, np.arange(0, len(hashes), _BYTE_MAX), axis=1)
    octets = counts.astype("<u8", copy=False).view(np.uint8).reshape(8, -1, 8)
    ones: np.ndarray = np.add.reduce(octets, axis=1, dtype=np.int64)
    return ones.T


def distance(a: int, b: int) -> int:
    """Count the bits in which two hashes differ."""
    return (a ^ b).bit_count()


def _mix(hashes: np.ndarray) -> None:
    """Make each bit depend on all others."""
    hashes ^= hashes >> np.uint64(32)
    hashes *= _MIX_1
    hashes ^= hashes >> np.uint64(29)


# Only the beginning of a text is compared: hashing takes about 20 µs for each KB.
_WORDS_CHARS = 100_000
_NUMBER = re.compile(r"\d+")
# Numbers for each word. A page with more, such as a table, changes with its numbers.
_NUMBERS_MAX = 0.2
_LETTERS = re.compile(r"[^\W\d_]+")
_CALENDAR = frozenset(
    "mon tue wed thu fri sat sun monday tuesday wednesday thursday friday saturday sunday jan feb "
    "mar apr may jun jul aug sep oct nov dec january february march april june july august "
    "september october november december am pm gmt utc st nd rd th t z".split()
)


def words_digest(text: str) -> bytes:
    """Hash a text without clock times and dates; empty if little else is left."""
    text = text[:_WORDS_CHARS].lower()
    words = _LETTERS.findall(text)
    if not words or len(_NUMBER.findall(text)) > _NUMBERS_MAX * len(words):
        return b""
    plain = " ".join(word for word in words if word not in _CALENDAR)
    return xxh3_64_digest(plain.encode("utf-8", "replace"))


# Hosts that are remembered; with their blocks they take 25 MB at most.
_HOSTS_KEPT = 1_000
_BLOCKS_KEPT = 256
# Blocks of a page that are learnt: half from its beginning, half from its end.
_BLOCKS_LEARNT = 128
# Shorter texts may be part of any sentence.
_MIN_WORDS = 5
# A block is boilerplate if at least three pages have it, and one page in four.
_PAGES = 3
_ONE_IN = 4
# Pages after which all counts are halved, so that a host may change its boilerplate.
_HALVED_AFTER = 64


class Boilerplate:
    """Blocks that pages share, for the hosts that were seen last."""

    def __init__(self) -> None:
        self._hosts: OrderedDict[str, _BlockCounts] = OrderedDict()

    def without(self, host: str, blocks: Sequence[str]) -> Sequence[str]:
        """Remove the boilerplate from the blocks of a page."""
        known = self._hosts.get(host)
        if known is None or known.pages < _PAGES:
            return blocks
        with suppress(KeyError):
            # Another thread may have removed the host: long texts are compared in threads.
            self._hosts.move_to_end(host)
        counts, least = known.counts, max(_PAGES, known.pages / _ONE_IN)
        return [block for block in blocks if counts.get(hash(block), 0) < least]

    def simhash(self, page: Page, min_words: int) -> int | None:
        """Compute the SimHash of a page without its boilerplate; None if it has few words."""
        text = page.text
        if page.blocks is not None:
            text = " ".join(self.without(host_of(page.final_url), page.blocks))
        hashes = hashes_of(words_of(text))
        return simhash(hashes) if len(hashes) >= min_words else None

    def learn(self, host: str, blocks: Sequence[str]) -> None:
        """Learn the blocks of a page that is no duplicate."""
        known = self._hosts.get(host)
        if known is None:
            known = self._hosts[host] = _BlockCounts()
            if len(self._hosts) > _HOSTS_KEPT:
                self._hosts.popitem(last=False)
        known.learn(blocks)


class _BlockCounts:
    """Number of a host's pages that have a block, by the hash of its text."""

    __slots__ = ("counts", "pages")

    def __init__(self) -> None:
        self.pages = 0
        self.counts: dict[int, int] = {}

    def learn(self, blocks: Sequence[str]) -> None:
        if len(blocks) > _BLOCKS_LEARNT:
            half = _BLOCKS_LEARNT // 2
            blocks = [*blocks[:half], *blocks[-half:]]
        counts = self.counts
        for hashed in {hash(block) for block in blocks if _has_words(block)}:
            counts[hashed] = counts.get(hashed, 0) + 1
        self.pages += 1
        if self.pages >= _HALVED_AFTER:
            self.pages //= 2
            self.counts = {hashed: count // 2 for hashed, count in counts.items() if count > 1}
        if len(self.counts) > _BLOCKS_KEPT:
            # Keep the blocks that most pages have; of equal ones the newest.
            order = sorted(self.counts.items(), key=lambda item: item[1])
            self.counts = dict(order[-_BLOCKS_LEARNT:])


def _has_words(block: str) -> bool:
    """Whether a block has enough words. Counting all blanks would take ten times as long."""
    return len(block.split(" ", _MIN_WORDS - 1)) == _MIN_WORDS
