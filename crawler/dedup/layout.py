"""Where the records of a content lie: which buckets of which tables, and how they are packed. Pure.

Also the comparison of a SimHash with all records of some buckets at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from math import log2
from typing import Self

import numpy as np

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


def within(
    first: bytes, others: Iterable[bytes], simhash: int, max_distance: int
) -> dict[int, int]:
    """SimHashes within a distance, and how far they are; the nearest first, then the oldest.

    `first` has the records of the first table, each with a fingerprint; the others have none. Zeros
    are no records but room for some.
    """
    hashes = np.frombuffer(first, "<u8")[::2]
    rest = b"".join(others)
    if rest:
        hashes = np.concatenate((hashes, np.frombuffer(rest, "<u8")))
    distances = np.bitwise_count(hashes ^ np.uint64(simhash))
    near = np.flatnonzero(distances <= max_distance)
    if simhash.bit_count() <= max_distance:
        near = near[hashes[near] != 0]
    if not len(near):
        return {}
    near = near[np.argsort(distances[near], kind="stable")]
    return {int(hashes[at]): int(distances[at]) for at in near}
