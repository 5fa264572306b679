"""Names of keys outside the shards. No other Python module builds a name of the frontier's.

The keys of a shard are built by lua/shard.lua, and start with the shard's hash tag (shards.py), so
that one script's keys share a slot of Redis Cluster.
"""

from __future__ import annotations


def crawl_meta(crawl: str) -> str:
    """Hash: version of the data model, number of shards, form of URL-seen, the spider's name."""
    return f"{{{crawl}}}:crawl"


def crawl_metas() -> str:
    """A pattern for SCAN that matches the above of every crawl."""
    return "{*}:crawl"


def crawl_named(key: str) -> str:
    """The crawl to which such a key belongs."""
    return key.removeprefix("{").removesuffix("}:crawl")


def options(crawl: str) -> str:
    """Hash: options that the whole fleet follows, each as JSON."""
    return f"{{{crawl}}}:options"


def seed_domains(crawl: str) -> str:
    """Set: registered domains of the seeds, bounded by whoever adds them."""
    return f"{{{crawl}}}:seed_domains"


def totals(crawl: str) -> str:
    """Hash: what all processes counted since the crawl was created, from a closed list of names."""
    return f"{{{crawl}}}:totals"


def minute(crawl: str, number: int) -> str:
    """Hash: the same for one minute, by its number since 1970; expires."""
    return f"{{{crawl}}}:minute:{number}"


def owners(tag: str) -> str:
    """Sorted set of a shard: instance -> last beat."""
    return f"{tag}:owners"


def stats(tag: str) -> str:
    """Hash of a shard: counters, and what its scripts remember of time and restarts."""
    return f"{tag}:stats"


def instances(tag: str) -> str:
    """Hash of a shard: instance -> what it says of itself."""
    return f"{tag}:instances"


def delayed(tag: str) -> str:
    """Sorted set of a shard: due times of the buckets of delayed URLs."""
    return f"{tag}:delayed"


def dead(tag: str) -> str:
    """Stream of a shard: dead letters."""
    return f"{tag}:dead"


def probe(tag: str) -> str:
    """Set that is made and removed while a crawl is created."""
    return f"{tag}:probe"


def host_heap(tag: str) -> str:
    """Sorted set of a shard: host that waits -> earliest next contact."""
    return f"{tag}:host_heap"


def pages(tag: str) -> str:
    """Hash of a shard: host -> pages crawled."""
    return f"{tag}:pages"


def ordered(tag: str) -> str:
    """Set of a shard: hosts of which people said something."""
    return f"{tag}:ordered"


def leases(tag: str, owner: str) -> str:
    """Hash of a shard: token -> what an instance has leased."""
    return f"{tag}:leases:{owner}"


def literal(text: str) -> str:
    """A pattern for SCAN that matches this text and nothing else."""
    return "".join(f"\\{char}" if char in "*?[]\\^-" else char for char in text)
