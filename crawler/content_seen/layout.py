"""Where the records of a content lie: which buckets of which tables, and how they are packed. Pure.

Two SimHashes that differ in at most three bits have a block of 16 bits in common, and two of five
blocks of 13. A table has a bucket for each value of one such choice of blocks (of its first bits):
four small tables, or for large crawls ten with more and smaller buckets. The first table's records
have the URL's fingerprint, the others' the SimHash alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import log2
from typing import Self

MAX_DISTANCE = 3
# A record of the exact table is 8 bytes of the content's hash and the URL's fingerprint.
OWNED_BYTES = 16
HASH_BYTES = 8
# Fewer, and the names of the buckets take more room than what is in them.
_BUCKET_RECORDS = 64
# Beyond it, oldest records are forgotten: a crawl may have 16 times the pages it was made for.
BUCKET_MAX = 1024
# Pages up to which four tables are enough: 4 × 150 records to look at.
SMALL = 10_000_000
_EXACT = "x"

# (shift, bits) of each block, lowest first.
_Block = tuple[int, int]
_QUARTERS: tuple[_Block, ...] = tuple((16 * number, 16) for number in range(4))
_FIFTHS: tuple[_Block, ...] = ((0, 13), (13, 13), (26, 13), (39, 13), (52, 12))


class Layout:
    """The tables of a crawl: four or ten, each with two to the power of `bits` buckets."""

    def __init__(self, tags: Sequence[str], *, bits: int, large: bool) -> None:
        choices = combinations(_FIFTHS, 2) if large else combinations(_QUARTERS, 1)
        self._tables = [_Table(blocks) for blocks in choices]
        self.bits = min(bits, *(table.bits for table in self._tables))
        self._tags = tags

    @classmethod
    def made_for(cls, tags: Sequence[str], pages: int) -> Self:
        """The tables of a crawl that is to have so many pages."""
        bits = max(0, round(log2(max(1, pages) / _BUCKET_RECORDS)))
        return cls(tags, bits=bits, large=pages > SMALL)

    def exact(self, digest: bytes) -> str:
        """Bucket of a content's hash."""
        return self._name(_EXACT, int.from_bytes(digest[:4], "big") >> (32 - self.bits))

    def near(self, simhash: int) -> list[str]:
        """Buckets of a SimHash, that of the first table first."""
        return [
            self._name(str(number), table.value(simhash) >> (table.bits - self.bits))
            for number, table in enumerate(self._tables)
        ]

    def owned(self) -> Iterator[str]:
        """All buckets whose records have fingerprints."""
        for number in range(1 << self.bits):
            yield self._name(_EXACT, number)
            yield self._name("0", number)

    def _name(self, table: str, number: int) -> str:
        # The only place that builds names of content-seen.
        return f"{self._tags[number % len(self._tags)]}:c{table}:{number:x}"


class _Table:
    """One choice of blocks."""

    def __init__(self, blocks: Sequence[_Block]) -> None:
        self._blocks = [(shift, (1 << bits) - 1, bits) for shift, bits in blocks]
        self.bits = sum(bits for _, bits in blocks)

    def value(self, simhash: int) -> int:
        """The bits of the chosen blocks."""
        value = 0
        for shift, mask, bits in self._blocks:
            value = value << bits | simhash >> shift & mask
        return value


def exact_record(digest: bytes, url_id: int) -> bytes:
    """The record of a content's hash."""
    return digest[4 : 4 + HASH_BYTES] + packed(url_id)


def packed(number: int) -> bytes:
    """A SimHash or a fingerprint as records have it."""
    return number.to_bytes(HASH_BYTES, "little")


def owners(bucket: bytes, hashed: bytes) -> list[int]:
    """Fingerprints of the pages with this hash, oldest first."""
    found = []
    at = bucket.find(hashed)
    while at >= 0:
        if at % OWNED_BYTES == 0:
            owner = bucket[at + HASH_BYTES : at + OWNED_BYTES]
            found.append(int.from_bytes(owner, "little"))
        at = bucket.find(hashed, at + 1)
    return found


def owned_by(bucket: bytes, url_id: int) -> list[bytes]:
    """The records of one page in a bucket with fingerprints."""
    owner = packed(url_id)
    # Zeros at its end are room for more.
    used = len(bucket.rstrip(b"\0"))
    return [
        bucket[at : at + OWNED_BYTES]
        for at in range(0, used, OWNED_BYTES)
        if bucket[at + HASH_BYTES : at + OWNED_BYTES] == owner
    ]
