"""The frontier: every known URL, its state, and every host's clock, in Redis.

The only package that touches the frontier's keys. One Lua script for each verb (lua/), one method
for each script; a script is atomic, and every verb may be repeated.

    frontier      the verbs of a crawl: add, claim, release, done, retry, bury, hand_back, beat …
    control       what people do: pause, options, hosts (host_control), single URLs, dead letters
    entry         the record of one URL, packed; pure
    outbox, lane  what a process has to say to each shard, in batches, until it is acknowledged
    acknowledgements   what a failing master may still lose
    meta, keys, shards, scripts, tuning, records, host_index, start_urls

Keys: those of a shard start with `{<crawl>:<shard>}` and are built by lua/shard.lua; the others
(`{<crawl>}:crawl`, `{<crawl>}:options`, `{<crawl>}:seed_domains` …) by keys.py.
docs/architecture.md lists them all, and the states of a URL.

Public: the names below.
"""

from crawler.frontier.control import CrawlControl
from crawler.frontier.entry import Entry, Kind
from crawler.frontier.frontier import ADD_MAX, Frontier
from crawler.frontier.records import (
    Added,
    Again,
    Beat,
    Claim,
    HostPage,
    HostState,
    Lease,
    Letter,
    OwnerDead,
    Sizes,
    UrlStatus,
)
from crawler.frontier.tuning import Tuning

__all__ = [
    "ADD_MAX",
    "Added",
    "Again",
    "Beat",
    "Claim",
    "CrawlControl",
    "Entry",
    "Frontier",
    "HostPage",
    "HostState",
    "Kind",
    "Lease",
    "Letter",
    "OwnerDead",
    "Sizes",
    "Tuning",
    "UrlStatus",
]
