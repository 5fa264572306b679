"""Recognise content that was stored before: exactly by its hash, nearly by its SimHash.

Keys of a crawl, in one slot: `exact:<first hex digits>` hashes (content hash -> URL fingerprint)
and `near:<band>:<16 bits>` lists of packed (SimHash, URL fingerprint). A record is written when the
page is durable, so two equal pages fetched at the same time may both be stored, never neither.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crawler.policy.similarity import BITS, distance

if TYPE_CHECKING:
    from redis.asyncio import Redis

_RECORD = struct.Struct(">QQ")
_BANDS = 4
# Two hashes that differ in no more bits than this have a band in common.
MAX_DISTANCE = _BANDS - 1
_BAND_BITS = BITS // _BANDS
# Records looked at in one bucket; older ones are forgotten.
_BUCKET_MAX = 200
_EXACT_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The page that has this content already."""

    of: int
    # Bits that differ; None when the bytes are the same.
    distance: int | None


class ContentSeen:
    """The content of one crawl."""

    def __init__(self, redis: Redis, crawl: str, max_distance: int) -> None:
        self._redis = redis
        self._prefix = f"{{{crawl}:content}}:"
        self._max_distance = max_distance

    async def find(self, url_id: int, digest: bytes, simhash: int | None) -> Duplicate | None:
        """An earlier page with this content; the page itself is no duplicate of itself."""
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.hget(self._exact(digest), digest)
        for key in self._near(simhash):
            pipeline.lrange(key, 0, -1)
        exact, *buckets = await pipeline.execute()
        if exact is not None:
            of = int.from_bytes(exact, "big")
            return Duplicate(of, None) if of != url_id else None
        best: Duplicate | None = None
        for record in {record for bucket in buckets for record in bucket}:
            other, of = _RECORD.unpack(record)
            bits = distance(other, simhash or 0)
            if of == url_id or bits > self._max_distance:
                continue
            if best is None or bits < (best.distance or 0):
                best = Duplicate(of, bits)
        return best

    async def record(self, url_id: int, digest: bytes, simhash: int | None) -> None:
        """Remember the content of a page that is durable."""
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.hsetnx(self._exact(digest), digest, url_id.to_bytes(8, "big"))
        for key in self._near(simhash):
            record = _RECORD.pack(simhash, url_id)
            # Once only, however often the page is crawled: it would push the others out.
            pipeline.lrem(key, 0, record)  # type: ignore[arg-type]
            pipeline.lpush(key, record)
            pipeline.ltrim(key, 0, _BUCKET_MAX - 1)
        await pipeline.execute()

    def _exact(self, digest: bytes) -> str:
        return f"{self._prefix}exact:{digest.hex()[:_EXACT_DIGITS]}"

    def _near(self, simhash: int | None) -> list[str]:
        if simhash is None:
            return []
        mask = (1 << _BAND_BITS) - 1
        return [
            f"{self._prefix}near:{band}:{simhash >> (band * _BAND_BITS) & mask}"
            for band in range(_BANDS)
        ]
