"""Frontier: every known URL, its state, and every host's clock, in Redis.

Only this package touches the frontier's keys. Each verb is one Lua script (lua/) and one method. A
script is atomic, and every verb may be repeated after a lost reply.

    frontier    verbs of a crawl: add, claim, release, done, retry, bury, hand_back, visit, beat …;
                its shards and scripts
    outbox      all that a process sends to the frontier: batches for each shard, repeated until
                Redis acknowledges them, what waits until links are safe, and the way of URLs
                into it, past a cache of known ones
    sweep       search of the queues for URLs that are wanted sooner: waiting ones to be lifted to
                better queues, and recrawls to be brought forward
    control     commands of people: pause, options, hosts, single URLs, dead letters
    event_log   the last events of a crawl, for people
    entry       record of one URL, packed into bytes; pure
    records     arguments and answers of the verbs
    recrawl_counts    counts of pages that are visited again within a budget
    tuning      shares of the queues, form of URL-seen, limits; pure
    meta        what is fixed when a crawl is created, checked at each start
    start_urls  seeds that others push to Redis
    keys        names of keys

Keys: those of a shard start with `{<crawl>:<shard>}` and are built by lua/shard.lua; the others
(`{<crawl>}:crawl`, `{<crawl>}:options`, `{<crawl>}:seed_domains` …) by keys.py.
docs/architecture.md lists them all, and the states of a URL.

Settling a lease: outbox → frontier → Lua script. Public: the names below.
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
    NoVisit,
    OwnerDead,
    Sizes,
    UrlStatus,
    Visit,
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
    "NoVisit",
    "OwnerDead",
    "Sizes",
    "Tuning",
    "UrlStatus",
    "Visit",
]
