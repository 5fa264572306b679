"""Find texts whose SimHashes differ in at most three bits, in four or ten tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, islice

import numpy as np

from crawler.dedup.buckets import (
    CUT,
    HASH_BYTES,
    PUT,
    Buckets,
    Record,
    bits_for,
    bucket_name,
    owned_by,
    owners,
    packed,
)
from crawler.dedup.near import Change, Content, Duplicate, Question

MAX_DISTANCE = 3
# Crawls of up to this many pages have four tables: 4 × 150 records to compare.
SMALL = 10_000_000
# Similar texts that are considered. In a bucket full of them any will do.
_NEAREST = 16
# Buckets that are read in one batch.
_BATCH = 200

# Shift and number of bits of each block of a SimHash, lowest first.
_Block = tuple[int, int]
_QUARTERS: tuple[_Block, ...] = tuple((16 * number, 16) for number in range(4))
_FIFTHS: tuple[_Block, ...] = ((0, 13), (13, 13), (26, 13), (39, 13), (52, 12))


class SimHashTables:
    """Tables of a crawl: four, or ten if it is large, each with two to the power of `bits` buckets.

    A table is a choice of blocks: the bits of these blocks select the bucket. A record has the
    SimHash, in the first table with the page's fingerprint.
    """

    def __init__(
        self,
        buckets: Buckets,
        tags: Sequence[str],
        *,
        bits: int,
        large: bool,
        max_distance: int = MAX_DISTANCE,
    ) -> None:
        choices = combinations(_FIFTHS, 2) if large else combinations(_QUARTERS, 1)
        self._tables = [(blocks, sum(size for _, size in blocks)) for blocks in choices]
        self.bits = min(bits, *(table_bits for _, table_bits in self._tables))
        self._buckets = buckets
        self._tags = tags
        self._max_distance = max_distance

    @classmethod
    def made_for(
        cls, buckets: Buckets, tags: Sequence[str], pages: int, max_distance: int
    ) -> SimHashTables:
        """Make the tables for a crawl of this many pages."""
        large = pages > SMALL
        return cls(buckets, tags, bits=bits_for(pages), large=large, max_distance=max_distance)

    def names(self, content: Content) -> list[str]:
        """Name the buckets to look in, that of the first table first."""
        return [] if content.simhash is None else self._names(content.simhash)

    async def nearest(
        self, questions: Sequence[Question], buckets: Mapping[str, bytes]
    ) -> list[Duplicate | None]:
        """Find the page whose SimHash differs least; of several the oldest."""
        matches: list[dict[int, int]] = []
        for _, content in questions:
            assert content.simhash is not None
            first, *others = (buckets[name] for name in self._names(content.simhash))
            found = within(first, others, content.simhash, self._max_distance)
            matches.append(dict(islice(found.items(), _NEAREST)))
        # Only the records of the first table have fingerprints.
        firsts = {hashed: self._names(hashed)[0] for found in matches for hashed in found}
        more = [name for name in firsts.values() if name not in buckets]
        if more:
            buckets = {**buckets, **await self._buckets.read(more)}
        return [
            _nearest(url_id, found, firsts, buckets)
            for (url_id, _), found in zip(questions, matches, strict=True)
        ]

    async def remove_old(self, changes: Sequence[Change]) -> None:
        """Remove the records of earlier contents."""
        await self._cut(
            [
                (self._names(before.simhash)[0], packed(before.simhash) + packed(url_id))
                for url_id, before, now in changes
                if before is not None
                and before.simhash is not None
                and (now is None or now.simhash != before.simhash)
            ]
        )

    def records(self, url_id: int, content: Content) -> list[Record]:
        """Make the records of a page."""
        if content.simhash is None:
            return []
        hashed = PUT + packed(content.simhash)
        first, *others = self._names(content.simhash)
        return [(first, hashed + packed(url_id)), *((name, hashed) for name in others)]

    async def forget(self, url_id: int) -> bool:
        """Remove all records of a page, for which the whole first table is read."""
        found = False
        names = (bucket_name(self._tags, "0", number) for number in range(1 << self.bits))
        while batch := list(islice(names, _BATCH)):
            for name, bucket in (await self._buckets.read(batch)).items():
                records = [(name, record) for record in owned_by(bucket, url_id)]
                found = found or bool(records)
                await self._cut(records)
        return found

    async def _cut(self, records: Sequence[Record]) -> None:
        """Remove records of the first table, and their SimHashes if no other page has them."""
        if not records:
            return
        left = await self._buckets.change([(name, CUT + record) for name, record in records])
        for (_, record), others in zip(records, left, strict=True):
            if not others:
                hashed = record[:HASH_BYTES]
                names = self._names(int.from_bytes(hashed, "little"))[1:]
                await self._buckets.change([(name, CUT + hashed) for name in names])

    def _names(self, simhash: int) -> list[str]:
        return [
            bucket_name(
                self._tags, str(number), _value(simhash, blocks) >> (table_bits - self.bits)
            )
            for number, (blocks, table_bits) in enumerate(self._tables)
        ]


def _value(simhash: int, blocks: Sequence[_Block]) -> int:
    """Join the bits of the chosen blocks."""
    value = 0
    for shift, bits in blocks:
        value = value << bits | simhash >> shift & (1 << bits) - 1
    return value


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


def _nearest(
    url_id: int, found: Mapping[int, int], firsts: Mapping[int, str], buckets: Mapping[str, bytes]
) -> Duplicate | None:
    """Choose the nearest original, of several the oldest; None if it is the page itself."""
    best: Duplicate | None = None
    for hashed, distance in found.items():
        pages = owners(buckets[firsts[hashed]], packed(hashed))
        if url_id in pages:
            return None
        if pages and best is None:
            best = Duplicate(pages[0], distance=distance)
    return best
