"""Arguments, answers and errors of the frontier's verbs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import compress
from typing import Any, TypeVar

from crawler.frontier.entry import PAGE_QUEUES, Entry

Thing = TypeVar("Thing")

# Why a URL is delayed: it failed; or it is due again after a page, or after a visit without one.
RETRY, PAGE_AGAIN, VISIT_AGAIN = "r", "c", "v"


# Not frozen, as Entry: one is made for each page.
@dataclass(slots=True)
class Lease:
    """Right to fetch one URL, until the lease is settled or its owner dies. Never changed."""

    shard: int
    token: bytes
    entry: Entry
    # When this process got it, by monotonic().
    claimed_s: float = field(default=0.0, compare=False)
    # Identity of the lease: tokens are counted by shard.
    key: tuple[int, bytes] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        self.key = (self.shard, self.token)

    @property
    def host(self) -> str:
        return self.entry.host


@dataclass(frozen=True, slots=True)
class Visit:
    """Slot of a host that was taken without a URL of it, until the visit ends or its owner dies."""

    shard: int
    token: bytes
    host: str

    @property
    def key(self) -> tuple[int, bytes]:
        """Identity of the visit: no lease has the same."""
        return self.shard, self.token


@dataclass(frozen=True, slots=True)
class NoVisit:
    """Refusal of a visit, and when to ask again."""

    # "early" (the host's clock is not due), "busy" (its slots are taken), "closed" (people excluded
    # or blocked it); "paused", "grace", "leap" as in Claim
    state: str
    # None if that is not known.
    wait_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Again:
    """Recrawl of a finished URL: when it comes back, and as which entry."""

    wait_ms: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class Beat:
    """Answer of a shard to a beat."""

    # False if the instance was declared dead.
    alive: bool
    # It changes when the server restarted, failed over or lost everything. The first epoch is the
    # time in ms at which the shard was created.
    epoch: int
    # Leases of the instance that the shard knows and the instance does not.
    strays: list[Lease]
    # The shard's time, ms.
    now_ms: int = 0
    # Writes up to this time survived the last restart of the server; 0: none did.
    survived_ms: int = 0
    # Number of leaps of the server's clock that the shard did not follow, and the last one's size.
    leaps: int = 0
    leapt_ms: int = 0


@dataclass(frozen=True, slots=True)
class Claim:
    """Answer to a claim: leases, and when the next claim makes sense."""

    leases: list[Lease]
    # "ok", "paused", "grace" (the server restarted), "leap" (its clock leapt, and a beat must find
    # out whether time has passed), "limit" (no page is left to crawl), "paced" (the rate of the
    # crawl allows none now)
    state: str
    # Milliseconds until the next host is due, None when no host waits.
    wait_ms: int | None
    # Milliseconds until the delay queue's next URLs are due, None when it is empty.
    delayed_ms: int | None
    # Routing stopped at its limit: claim again at once.
    more: bool


@dataclass(frozen=True, slots=True)
class Added:
    """Answer to an add, a character for each URL: '1' new, '0' known, '2' no room, '3' over budget.

    Only those that are new or known are marked as seen.
    """

    answers: str
    new: int = field(init=False)
    # There was no room for these.
    refused: int = field(init=False)
    # Their type has its budget.
    over_budget: int = field(init=False)

    @classmethod
    def merged(cls, places: Collection[Sequence[int]], answers: Iterable[str]) -> Added:
        """Join the answers of several calls, given the places of each call's URLs."""
        if len(places) == 1:
            return cls(*answers)
        merged = [""] * sum(map(len, places))
        for found, part in zip(places, answers, strict=True):
            for place, answer in zip(found, part, strict=True):
                merged[place] = answer
        return cls("".join(merged))

    def __post_init__(self) -> None:
        object.__setattr__(self, "new", self.answers.count("1"))
        object.__setattr__(self, "refused", self.answers.count("2"))
        object.__setattr__(self, "over_budget", self.answers.count("3"))

    def is_new(self, index: int) -> bool:
        return self.answers[index] == "1"

    def new_of(self, things: Sequence[Thing]) -> Iterable[Thing]:
        """Return the items of the new URLs, from a list with one item for each URL."""
        return compress(things, map("1".__eq__, self.answers))

    def is_refused(self, index: int) -> bool:
        """Return whether there was no room for a URL."""
        return self.answers[index] == "2"

    def is_taken(self, index: int) -> bool:
        """Return whether the frontier has a URL, new or known."""
        return self.answers[index] in "10"

    @property
    def has_all(self) -> bool:
        """Whether the frontier has all URLs."""
        return not self.refused and not self.over_budget

    def over_budget_of(self, things: Sequence[Thing]) -> Iterable[Thing]:
        """Return the items of the URLs over their budgets, from a list with one for each URL."""
        return compress(things, map("3".__eq__, self.answers))


@dataclass(frozen=True, slots=True)
class Sizes:
    """Number of URLs in each state, and the frontier's counters."""

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

    @property
    def waiting(self) -> int:
        return sum(self.front) + self.back

    @property
    def unfinished(self) -> int:
        """Number of URLs that still have to be crawled; recrawls do not count."""
        return self.waiting + self.leased + self.retries

    def __add__(self, other: Sizes) -> Sizes:
        front = tuple(a + b for a, b in zip(self.front, other.front, strict=True))
        rest: list[Any] = [
            getattr(self, field.name) + getattr(other, field.name) for field in fields(self)[1:]
        ]
        # Every instance registers with each shard.
        return replace(Sizes(front, *rest), owners=max(self.owners, other.owners))


# Names of the front queues, as people see them.
_QUEUES = ("F1", "F2", "F3", "F4", "F5", "docs", "media")


def by_queue(front: Sequence[int]) -> dict[str, int]:
    """Return the sizes of the front queues by name; those of types only if URLs wait in them."""
    named = zip(_QUEUES, front, strict=True)
    return {name: size for at, (name, size) in enumerate(named) if at < PAGE_QUEUES or size}


@dataclass(frozen=True, slots=True)
class HostState:
    """State of one host in the frontier. Times are the server's, in ms."""

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
        """Whether the crawl has met this host, or somebody changed it."""
        met = (self.clock_ms, self.waiting, self.in_flight, self.pages)
        changed = (self.blocked_until_ms, self.excluded, self.queue, self.budget, self.parallelism)
        return any((*met, *changed))

    @property
    def busy_ms(self) -> int:
        """Time until the last URL in its back queues may be fetched."""
        wait_ms = max(0, max(self.clock_ms, self.blocked_until_ms) - self.now_ms)
        return wait_ms + max(0, self.waiting - 1) * self.delay_ms if self.waiting else 0

    @property
    def state(self) -> str:
        """State in one word, see control.STATES."""
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
    """Part of a list of hosts."""

    hosts: list[HostState]
    # Number of all hosts that fit, as far as they were read.
    total: int
    # False if there are more hosts than one list reads.
    complete: bool


@dataclass(frozen=True, slots=True)
class WaitingUrls:
    """URLs that wait in the back queues of a host."""

    # By queue; gaps count.
    sizes: tuple[int, ...]
    # The next of each queue.
    first: list[Entry]


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of Redis in bytes; the limit and the share of it are 0 without a limit."""

    used_bytes: int
    limit_bytes: int
    share: float


@dataclass(frozen=True, slots=True)
class DeadGroups:
    """Dead letters, counted."""

    # Number of letters that were read, and whether these are all.
    read: int
    complete: bool
    # Reason -> host -> letters, and the other way round.
    reasons: dict[str, Counter[str]]
    hosts: dict[str, Counter[str]]
    # Reason -> time of its newest letter.
    newest_ms: dict[str, int]


@dataclass(frozen=True, slots=True)
class UrlStatus:
    """State of one URL, as far as it is cheap to find out."""

    # "unseen", "known" (done, or far back in a queue), "waiting", "leased", "delayed", "dead"
    state: str
    # Owner of the lease.
    owner: str = ""
    # Why it is dead; "retry" or "recrawl" when it is delayed.
    reason: str = ""
    # When it was buried, or is due; 0 for neither.
    at_ms: int = 0
    # Its tail has the failures so far, as `history`.
    entry: Entry | None = None


@dataclass(frozen=True, slots=True)
class Letter:
    """Dead letter: one URL of the dead-letter queue."""

    shard: int
    id: str
    reason: str
    at_ms: int
    # None if the bytes, which `data` has, are no entry.
    entry: Entry | None
    data: bytes

    @property
    def host(self) -> str:
        return self.entry.host if self.entry is not None else ""

    @property
    def place(self) -> tuple[int, int, int]:
        """Sort key of letters: time, number at this time, shard."""
        time_ms, number = self.id.split("-")
        return int(time_ms), int(number), self.shard

    @property
    def cursor(self) -> str:
        """Cursor for the letters that follow this one in a list."""
        return f"{self.id}/{self.shard}"


class OwnerDead(Exception):
    """Instance that was declared dead: its leases belong to others now."""
