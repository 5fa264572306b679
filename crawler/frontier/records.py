"""What the frontier's verbs take, return and raise."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields
from itertools import compress
from typing import Any, TypeVar

from crawler.frontier.entry import Entry

Thing = TypeVar("Thing")

# Why a URL is put off: it failed; or it gave a page, or a visit without one, and is due again.
RETRY, PAGE_AGAIN, VISIT_AGAIN = "r", "c", "v"


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to fetch one URL, until it is settled or its owner dies."""

    shard: int
    token: bytes
    entry: Entry
    # When this process got it, on the clock of monotonic().
    claimed_s: float = field(default=0.0, compare=False)

    @property
    def key(self) -> tuple[int, bytes]:
        """What tells this lease from every other: tokens count per shard."""
        return self.shard, self.token


@dataclass(frozen=True, slots=True)
class Again:
    """A URL that is done for now comes back after a while, as this entry."""

    wait_ms: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class Beat:
    """What a shard said to a beat."""

    # False: the instance was declared dead.
    alive: bool
    # Another one when the server restarted or failed over, or lost everything. The first is the
    # time at which the shard was created, ms.
    epoch: int
    # Leases that the shard knows as the instance's, and the instance does not.
    strays: list[Lease]
    # The shard's time, ms.
    now_ms: int = 0
    # Up to when the server had kept what was written at its last restart; 0: it had nothing.
    survived_ms: int = 0
    # How often the server's clock leapt and the shard did not follow, and how far the last time.
    leaps: int = 0
    leapt_ms: int = 0


@dataclass(frozen=True, slots=True)
class Claim:
    """What a claim brought, and when the next one makes sense."""

    leases: list[Lease]
    # "ok", "paused", "grace" (the server restarted), "leap" (its clock leapt, a beat finds out
    # whether time has passed), "limit" (no page is left to crawl)
    state: str
    # Milliseconds until the next host is due, None when no host waits.
    wait_ms: int | None
    # Milliseconds until the delay queue's next URLs are due, None when it is empty.
    delayed_ms: int | None
    # Routing stopped at its limit: claim again at once.
    more: bool


@dataclass(frozen=True, slots=True)
class Added:
    """What became of URLs that were added, each in its place: '1' new, '0' known, '2' refused."""

    answers: str

    @classmethod
    def merged(cls, places: Collection[Sequence[int]], answers: Iterable[str]) -> Added:
        """Join the answers of several shards, given the places of each shard's URLs."""
        merged = [""] * sum(map(len, places))
        for found, part in zip(places, answers, strict=True):
            for place, answer in zip(found, part, strict=True):
                merged[place] = answer
        return cls("".join(merged))

    def __len__(self) -> int:
        return len(self.answers)

    @property
    def new(self) -> int:
        return self.answers.count("1")

    @property
    def refused(self) -> int:
        return self.answers.count("2")

    def is_new(self, index: int) -> bool:
        return self.answers[index] == "1"

    def new_of(self, things: Sequence[Thing]) -> Iterable[Thing]:
        """What belongs to the new ones, of a list with something for each URL."""
        return compress(things, map("1".__eq__, self.answers))

    def is_refused(self, index: int) -> bool:
        """There was no room; the URL was not marked as seen."""
        return self.answers[index] == "2"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many URLs are in each state, and what the counters say."""

    front: tuple[int, ...]
    back: int
    leased: int
    retries: int
    recrawls: int
    added: int
    done: int
    pages: int
    dead: int
    trimmed: int
    claimed: int
    reclaimed: int
    retried: int
    dropped_excluded: int
    dropped_purged: int
    dropped_budget: int
    refused: int
    hosts: int
    owners: int
    paused: int

    @classmethod
    def from_numbers(cls, numbers: list[int]) -> Sizes:
        return cls(tuple(numbers[:5]), *numbers[5:])

    @property
    def waiting(self) -> int:
        return sum(self.front) + self.back

    @property
    def unfinished(self) -> int:
        """URLs that still have to be crawled; recrawls do not count."""
        return self.waiting + self.leased + self.retries

    def __add__(self, other: Sizes) -> Sizes:
        front = tuple(a + b for a, b in zip(self.front, other.front, strict=True))
        rest: list[Any] = [
            getattr(self, field.name) + getattr(other, field.name) for field in fields(self)[1:]
        ]
        return Sizes(front, *rest)


@dataclass(frozen=True, slots=True)
class HostState:
    """What the frontier keeps of one host. Times are the server's, in ms."""

    host: str
    clock_ms: int
    delay_ms: int
    waiting: int
    in_flight: int
    pages: int
    blocked_until_ms: int
    excluded: bool
    queue: int
    budget: int | None
    parallelism: int | None
    # When this was read.
    now_ms: int

    @property
    def is_known(self) -> bool:
        """Has the crawl met it, or somebody given it an order?"""
        met = (self.clock_ms, self.waiting, self.in_flight, self.pages)
        ordered = (self.blocked_until_ms, self.excluded, self.queue, self.budget, self.parallelism)
        return any((*met, *ordered))

    @property
    def state(self) -> str:
        """In one word: see host_orders.STATES."""
        if self.excluded:
            return "excluded"
        if self.blocked_until_ms > self.now_ms:
            return "blocked"
        if self.in_flight:
            return "in_flight"
        if not self.waiting:
            return "idle"
        return "ready" if self.clock_ms <= self.now_ms else "resting"


@dataclass(frozen=True, slots=True)
class HostPage:
    """A part of a list of hosts."""

    hosts: list[HostState]
    # How many fit in all, as far as was looked.
    total: int
    # False when there are more hosts than one list looks at.
    complete: bool


@dataclass(frozen=True, slots=True)
class UrlStatus:
    """Where a URL is, as far as that is cheap to know."""

    # "unseen", "known" (done, or far back in a queue), "waiting", "leased", "delayed", "dead"
    state: str
    # Of the lease.
    owner: str = ""
    # Why it is dead; "retry" or "recrawl" when it is delayed.
    reason: str = ""
    # When it died, or is due; 0 for neither.
    at_ms: int = 0
    # With the failures so far in its tail, as `history`.
    entry: Entry | None = None


@dataclass(frozen=True, slots=True)
class Letter:
    """One URL of the dead-letter queue."""

    shard: int
    id: str
    reason: str
    at_ms: int
    # None when the bytes are no entry; they are kept in `data`.
    entry: Entry | None
    data: bytes

    @property
    def host(self) -> str:
        return self.entry.host if self.entry is not None else ""

    @property
    def place(self) -> tuple[int, int, int]:
        """By which letters are in order: time, number within it, shard."""
        time_ms, number = self.id.split("-")
        return int(time_ms), int(number), self.shard

    @property
    def cursor(self) -> str:
        """Where a list that ended with this letter goes on."""
        return f"{self.id}/{self.shard}"


class OwnerDead(Exception):
    """This instance was declared dead: its leases belong to others now."""
