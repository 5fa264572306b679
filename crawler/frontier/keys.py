"""Names of the frontier's keys. No other Python module builds one; lua/shard.lua mirrors it.

Every key of a shard starts with the shard's hash tag, so that one script's keys share a slot of
Redis Cluster.
"""

from __future__ import annotations


def shard_tag(crawl: str, shard: int) -> str:
    """Prefix of every key of a shard, and the key that routes a script to its node."""
    return f"{{{crawl}:{shard}}}"


def crawl_meta(crawl: str) -> str:
    """Hash: version of the data model, number of shards, options of the crawl."""
    return f"{{{crawl}}}:crawl"


def start_urls(name: str) -> str:
    """List of seeds that anyone may push, named as scrapy-redis users know it."""
    return f"{name}:start_urls"
