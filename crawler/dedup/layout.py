"""Buckets of content records, and how records are packed into them. Pure.

Also the comparison of a SimHash with all records of some buckets at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from math import log2
from typing import Self

import numpy as np

MAX_DISTANCE = 3
# A record with a fingerprint: 8 bytes of the content's hash, and the URL's fingerprint.
OWNED_BYTES = 16
HASH_BYTES = 8
# With fewer records, the names of buckets would take more room than the records.
_BUCKET_RECORDS = 64
# The oldest records of a fuller bucket are dropped. This is 16 times what a crawl was made for.
BUCKET_MAX = 1024
# Crawls of up to this many pages have four tables: 4 × 150 records to compare.
SMALL = 10_000_000
_EXACT = "x"

# Shift and number of bits of each block of a SimHash, lowest first.
_Block = tuple[int, int]
_QUARTERS: tuple[_Block, ...] = tuple((16 * number, 16) for number in range(4))
_FIFTHS: tuple[_Block, ...] = ((0, 13), (13, 13), (26, 13), (39, 13), (52, 12))


class Layout:
    """Tables of a crawl: four, or ten if it is large, each with two to the power of `bits` buckets.

    A table is a choice of blocks: the bits of these blocks select the bucket.
    """

    def __init__(self, tags: Sequence[str], *, bits: int, large: bool) -> None:
        choices = combinations(_FIFTHS, 2) if large else combinations(_QUARTERS, 1)
        self._tables = [(blocks, sum(size for _, size in blocks)) for blocks in choices]
        self.bits = min(bits, *(table_bits for _, table_bits in self._tables))
        self._tags = tags

    @classmethod
    def made_for(cls, tags: Sequence[str], pages: int) -> Self:
        """Make the tables for a crawl of this many pages."""
        bits = max(0, round(log2(max(1, pages) / _BUCKET_RECORDS)))
        return cls(tags, bits=bits, large=pages > SMALL)

    def exact(self, digest: bytes) -> str:
        """Name the bucket of a content's hash."""
        return self._name(_EXACT, int.from_bytes(digest[:4], "big") >> (32 - self.bits))

    def near(self, simhash: int) -> list[str]:
        """Name the buckets of a SimHash, that of the first table first."""
        return [
            self._name(str(number), _value(simhash, blocks) >> (table_bits - self.bits))
            for number, (blocks, table_bits) in enumerate(self._tables)
        ]

    def owned(self) -> Iterator[str]:
        """Name all buckets whose records have fingerprints."""
        for number in range(1 << self.bits):
            yield self._name(_EXACT, number)
            yield self._name("0", number)

    def _name(self, table: str, number: int) -> str:
        # The only place that builds these keys.
        return f"{self._tags[number % len(self._tags)]}:c{table}:{number:x}"


def _value(simhash: int, blocks: Sequence[_Block]) -> int:
    """Join the bits of the chosen blocks."""
    value = 0
    for shift, bits in blocks:
        value = value << bits | simhash >> shift & (1 << bits) - 1
    return value


def exact_record(digest: bytes, url_id: int) -> bytes:
    """Pack the record of a content's hash."""
    return digest[4 : 4 + HASH_BYTES] + packed(url_id)


def packed(number: int) -> bytes:
    """Pack a SimHash or a fingerprint."""
    return number.to_bytes(HASH_BYTES, "little")


def owners(bucket: bytes, hashed: bytes) -> list[int]:
    """List the fingerprints of the pages with this hash, oldest first."""
    found = []
    at = bucket.find(hashed)
    while at >= 0:
        if at % OWNED_BYTES == 0:
            owner = bucket[at + HASH_BYTES : at + OWNED_BYTES]
            found.append(int.from_bytes(owner, "little"))
        at = bucket.find(hashed, at + 1)
    return found


def owned_by(bucket: bytes, url_id: int) -> list[bytes]:
    """List the records of one page in a bucket with fingerprints."""
    owner = packed(url_id)
    # Zeros at the end are free room.
    used = len(bucket.rstrip(b"\0"))
    return [
        bucket[at : at + OWNED_BYTES]
        for at in range(0, used, OWNED_BYTES)
        if bucket[at + HASH_BYTES : at + OWNED_BYTES] == owner
    ]


def within(
    first: bytes, others: Iterable[bytes], simhash: int, max_distance: int
) -> dict[int, int]:
    """Find SimHashes within a distance, with their distances; the nearest first, then the oldest.

    `first` is the bucket of the first table, whose records have fingerprints; those of the other
    buckets have none. Zeros are free room.
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
