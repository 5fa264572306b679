"""Build the names of the frontier's keys. No other Python module does.

Most keys of a shard are built by lua/shard.lua. All of them start with the shard's hash tag
(shards.py), so that the keys of a script are in one slot of Redis Cluster.
"""

from __future__ import annotations


def crawl_meta(crawl: str) -> str:
    """Hash: version of the data model, number of shards, form of URL-seen, the spider's name."""
    return f"{{{crawl}}}:crawl"


def crawl_metas() -> str:
    """Pattern for SCAN: crawl_meta of every crawl."""
    return "{*}:crawl"


def crawl_named(key: str) -> str:
    """Return the crawl of a crawl_meta key."""
    return key.removeprefix("{").removesuffix("}:crawl")


def options(crawl: str) -> str:
    """Hash: options that the whole fleet follows, each as JSON."""
    return f"{{{crawl}}}:options"


def seed_domains(crawl: str) -> str:
    """Set: registered domains of the seeds; callers bound their number."""
    return f"{{{crawl}}}:seed_domains"


def totals(crawl: str) -> str:
    """Hash: counts of all processes since the crawl was created, by names of a closed list."""
    return f"{{{crawl}}}:totals"


def minute(crawl: str, number: int) -> str:
    """Hash: counts of all processes in one minute, numbered since 1970; it expires."""
    return f"{{{crawl}}}:minute:{number}"


def owners(tag: str) -> str:
    """Sorted set of a shard: instance -> last beat."""
    return f"{tag}:owners"


def stats(tag: str) -> str:
    """Hash of a shard: counters, and notes of its scripts about time and restarts."""
    return f"{tag}:stats"


def instances(tag: str) -> str:
    """Hash of a shard: instance -> its own report, as JSON."""
    return f"{tag}:instances"


def delayed(tag: str) -> str:
    """Sorted set of a shard: due times of the buckets of delayed URLs."""
    return f"{tag}:delayed"


def dead(tag: str) -> str:
    """Stream of a shard: dead letters."""
    return f"{tag}:dead"


def probe(tag: str) -> str:
    """Set that exists only while a crawl is created."""
    return f"{tag}:probe"


def host_heap(tag: str) -> str:
    """Sorted set of a shard: waiting host -> its earliest next contact."""
    return f"{tag}:host_heap"


def pages(tag: str) -> str:
    """Hash of a shard: host -> pages crawled."""
    return f"{tag}:pages"


def ordered(tag: str) -> str:
    """Set of a shard: hosts that people changed."""
    return f"{tag}:ordered"


def leases(tag: str, owner: str) -> str:
    """Hash of a shard: token -> lease of an instance."""
    return f"{tag}:leases:{owner}"


def literal(text: str) -> str:
    """Escape a text for SCAN, so that the pattern matches nothing else."""
    return "".join(f"\\{char}" if char in "*?[]\\^-" else char for char in text)
