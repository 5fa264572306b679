"""The time of a shard, by which its scripts and its scores go."""

from __future__ import annotations

from crawler.frontier import keys
from crawler.frontier.connection import Client


async def shard_time_ms(redis: Client, tag: str) -> int:
    """The server's clock, less the leaps that the shard did not follow (lua/shard.lua)."""
    seconds, micros = await redis.time()
    skew_ms = await redis.hget(keys.stats(tag), "skew_ms")
    return int(seconds) * 1000 + int(micros) // 1000 + int(skew_ms or 0)
