"""Build the names of the frontier's keys. No other Python module does.

Most keys of a shard are built by lua/shard.lua. All of them start with the shard's hash tag
(`tags` in frontier.py), so that the keys of a script are in one slot of Redis Cluster.
"""

from functools import partial


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


def recrawl_classes(crawl: str) -> str:
    """Hash: class of pages -> number of those that are visited again within a budget; `per_s`."""
    return f"{{{crawl}}}:recrawl_classes"


def on_disk(crawl: str) -> str:
    """Hash: processes with spooled pages or spilled URLs on their disks -> where."""
    return f"{{{crawl}}}:on_disk"


def stores(crawl: str) -> str:
    """Hash: sink with the pages of the crawl -> what tells its store from one made anew."""
    return f"{{{crawl}}}:stores"


def deleted(crawl: str) -> str:
    """String: there for a while after people deleted the crawl."""
    return f"{{{crawl}}}:deleted"


def rebuilding(crawl: str) -> str:
    """String: there until the frontier of a crawl is made anew from its stored pages."""
    return f"{{{crawl}}}:rebuilding"


def totals(crawl: str) -> str:
    """Hash: counts of all processes since the crawl was created, by names of a closed list."""
    return f"{{{crawl}}}:totals"


def minute(crawl: str, number: int) -> str:
    """Hash: counts of all processes in one minute, numbered since 1970; it expires."""
    return f"{{{crawl}}}:minute:{number}"


def ten_minutes(crawl: str, number: int) -> str:
    """Hash: as `minute`, of ten minutes."""
    return f"{{{crawl}}}:ten_minutes:{number}"


def log(crawl: str) -> str:
    """List: the last events of the crawl, the newest first; writers bound its length."""
    return f"{{{crawl}}}:log"


def stop(crawl: str, owner: str) -> str:
    """String: there while an instance is asked to stop; it expires."""
    return f"{{{crawl}}}:stop:{owner}"


def _of_shard(tag: str, *, name: str) -> str:
    return f"{tag}:{name}"


# Keys of a shard, each made of the shard's hash tag. leases() has the owner in its name, too.
# Sorted set: instance -> last beat.
owners = partial(_of_shard, name="owners")
# Hash: counters, and notes of its scripts about time and restarts.
stats = partial(_of_shard, name="stats")
# Hash: instance -> its own report, as JSON.
instances = partial(_of_shard, name="instances")
# Sorted set: due times of the buckets of delayed URLs.
delayed = partial(_of_shard, name="delayed")
# Stream: dead letters.
dead = partial(_of_shard, name="dead")
# Set that exists only while a crawl is created.
probe = partial(_of_shard, name="probe")
# Sorted set: waiting host -> its earliest next contact.
host_heap = partial(_of_shard, name="host_heap")
# Hash: id -> queue and host of the URLs that the sweep under way is to lift.
lifts = partial(_of_shard, name="lifts:now")
# String: instance that sweeps; it expires.
sweeper = partial(_of_shard, name="sweeper")
# Hash: host -> pages crawled.
pages = partial(_of_shard, name="pages")
# Hashes: host -> its URLs found so far, links to it from other domains.
found = partial(_of_shard, name="found")
inbound = partial(_of_shard, name="inbound")
# Set: hosts that people changed.
ordered = partial(_of_shard, name="ordered")


def leases(tag: str, owner: str) -> str:
    """Hash of a shard: token -> lease of an instance."""
    return f"{tag}:leases:{owner}"


def literal(text: str) -> str:
    """Escape a text for SCAN, so that the pattern matches nothing else."""
    return "".join(f"\\{char}" if char in "*?[]\\^-" else char for char in text)
