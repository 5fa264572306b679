"""The content of a page as it is compared: text without boilerplate, and its SimHash. Pure.

A text is compared by its shingles, all runs of three words in it. A SimHash has 64 bits, of which
similar texts differ in few; minhash.py makes sketches of the same shingles. `words_digest` is a
digest of the words without numbers, days and months, which change by themselves.

Boilerplate is what many pages of a host share. Only pages that are no duplicates are learnt: copies
of an article must not make it boilerplate. The memory belongs to this process and is bounded. The
first pages of a host are compared with all of their text.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import xxhash
from xxhash import xxh3_64_digest

from crawler.urls import host_of
from crawler.util.words import BLANK, words_of

if TYPE_CHECKING:
    from crawler.items import Page

Hashed = TypeVar("Hashed")

SHINGLE = 3
# Words up to 16 bytes are hashed as two numbers, all at once; longer words one by one.
_HALF_BYTES = 8
_SHORT_BYTES = 2 * _HALF_BYTES
# By the size of a word: masks for its bytes among the first eight, and among the next eight.
_FIRST = np.array([(1 << 8 * size) - 1 for size in range(_HALF_BYTES + 1)], dtype="<u8")
_SECOND = np.append(np.zeros(_HALF_BYTES, dtype="<u8"), _FIRST)
# The lowest bit of each byte, and the most that a byte can count.
_LOWEST = np.uint64(0x0101010101010101)
_BYTE_MAX = 255
# Times so many hashes are counted at a time. This bounds the memory: 64 bytes each, 1 MB.
_CUTS = 64
_PLACES = np.arange(8, dtype=np.uint64)[:, np.newaxis]
# Odd constants that mix the hashes of neighbouring words, so that their order counts.
_MIX_1 = np.uint64(0x9E3779B97F4A7C15)
_MIX_2 = np.uint64(0xC2B2AE3D27D4EB4F)


def _hashes_and_starts(words: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Hash each word to 64 bits; also returns where each begins."""
    padded = b" %b%*b" % (words, _SHORT_BYTES, b"")
    is_word = np.frombuffer(padded, np.uint8) != BLANK
    # Where words begin and end in `words`.
    edges = (is_word[1:] != is_word[:-1]).nonzero()[0]
    starts, ends = edges[::2], edges[1::2]
    sizes = ends - starts
    # The eight bytes at each position, as a number.
    numbers = np.ndarray(len(words) + _HALF_BYTES + 1, "<u8", padded, 1, 1)
    hashes: np.ndarray = (numbers[starts] & _FIRST.take(sizes, mode="clip")) * _MIX_1
    hashes ^= (numbers[_HALF_BYTES:][starts] & _SECOND.take(sizes, mode="clip")) * _MIX_2
    mix(hashes)
    for at in (sizes > _SHORT_BYTES).nonzero()[0].tolist():
        hashes[at] = xxhash.xxh3_64_intdigest(words[starts[at] : ends[at]])
    return hashes, starts


def simhashes(texts: Sequence[str], min_words: int) -> list[int | None]:
    """Compute the SimHash of each text; None for texts with fewer words than this, at least three.

    Several texts are hashed in the same arrays: each operation on a small array costs as much as
    hundreds of words.
    """
    return of_each(majorities, shingles_of(texts, min_words))


def shingles_of(texts: Sequence[str], min_words: int) -> list[np.ndarray | None]:
    """Hash the shingles of each text, each once; None for texts with fewer words than this."""
    words = [words_of(text) for text in texts]
    hashes, starts = _hashes_and_starts(b" ".join(words))
    # Where each text ends, in words.
    ends = starts.searchsorted(list(accumulate(len(each) + 1 for each in words))).tolist()
    # Those that go from one text into the next are of none.
    shingles = _shingles(hashes)
    places = zip([0, *ends], ends, strict=False)
    return [
        _distinct(shingles[start : end - SHINGLE + 1]) if end - start >= min_words else None
        for start, end in places
    ]


def of_each(
    hash_all: Callable[[Sequence[np.ndarray]], list[Hashed]], parts: Sequence[np.ndarray | None]
) -> list[Hashed | None]:
    """Hash all arrays that are there together."""
    found = iter(hash_all([part for part in parts if part is not None]))
    return [next(found) if part is not None else None for part in parts]


def _shingles(hashes: np.ndarray) -> np.ndarray:
    """Hash each run of three words."""
    shingles: np.ndarray = hashes[:-2] * _MIX_1 ^ hashes[1:-1] * _MIX_2 ^ hashes[2:]
    mix(shingles)
    return shingles


def _distinct(shingles: np.ndarray) -> np.ndarray:
    """Return each hash once, and sort the array. Like numpy's unique(), in a tenth of the time."""
    shingles.sort()
    is_new = shingles[1:] != shingles[:-1]
    if is_new.all():
        return shingles
    return np.concatenate((shingles[:1], shingles[1:][is_new]))


def majorities(parts: Sequence[np.ndarray]) -> list[int]:
    """For each array of hashes, set each bit as most of its hashes have it."""
    if not parts:
        return []
    hashes = np.concatenate(parts) if len(parts) > 1 else parts[0]
    # Counts begin anew with each array, and after as many hashes as a byte can count.
    cuts: list[int] = []
    firsts: list[int] = []
    size = 0
    for part in parts:
        firsts.append(len(cuts))
        cuts += range(size, size + len(part), _BYTE_MAX)
        size += len(part)
    cuts.append(size)
    counts = [_ones(hashes, cuts[at : at + _CUTS + 1]) for at in range(0, len(cuts) - 1, _CUTS)]
    octets = np.concatenate(counts, axis=1) if len(counts) > 1 else counts[0]
    ones = np.add.reduceat(octets, firsts, axis=1, dtype=np.int64)
    is_set = ones > np.array([[len(part) // 2] for part in parts])
    packed = np.packbits(is_set.transpose(1, 2, 0), axis=-1, bitorder="little")
    found: list[int] = packed.reshape(-1, 8).view("<u8")[:, 0].tolist()
    return found


def _ones(hashes: np.ndarray, cuts: list[int]) -> np.ndarray:
    """Count the hashes that have each bit, between each two cuts; eight bits at once.

    The result has an axis for the bits of a byte, one for the cuts, and one for the bytes.
    """
    first = cuts[0]
    bits = hashes[first : cuts[-1]] >> _PLACES
    bits &= _LOWEST
    counts = np.add.reduceat(bits, [cut - first for cut in cuts[:-1]], axis=1)
    return counts.astype("<u8", copy=False).view(np.uint8).reshape(8, -1, 8)


def distance(a: int, b: int) -> int:
    """Count the bits in which two hashes differ."""
    return (a ^ b).bit_count()


def mix(hashes: np.ndarray) -> None:
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
# Characters of languages without blanks.
_MIN_CHARS = 10
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

    def shingles_of(self, pages: Sequence[Page], min_words: int) -> list[np.ndarray | None]:
        """Hash the shingles of pages without boilerplate; None for those with few words."""
        return shingles_of([self._own_text(page) for page in pages], min_words)

    def article_shingles_of(self, pages: Sequence[Page], min_words: int) -> list[np.ndarray | None]:
        """Hash the shingles of the main text of each page, or of its text if it has none."""
        return shingles_of([self._article_of(page) for page in pages], min_words)

    def _article_of(self, page: Page) -> str:
        if page.article is None:
            return self._own_text(page)
        return " ".join(self.without(host_of(page.final_url), page.article))

    def _own_text(self, page: Page) -> str:
        if page.blocks is None:
            return page.text
        return " ".join(self.without(host_of(page.final_url), page.blocks))

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
        for hashed, block in {hash(block): block for block in blocks}.items():
            count = counts.get(hashed)
            if count is not None:
                counts[hashed] = count + 1
            elif _has_words(block):
                counts[hashed] = 1
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
    if len(block.split(" ", _MIN_WORDS - 1)) == _MIN_WORDS:
        return True
    # Characters of three bytes each.
    return len(block) >= _MIN_CHARS and len(block.encode(errors="replace")) > 2 * len(block)
