"""Shares and turns of the queues, form of URL-seen, and other limits of a frontier. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from crawler.frontier.entry import PAGE_QUEUES


@dataclass(frozen=True, slots=True)
class UrlSeen:
    """Form of URL-seen, and its parameters as the Lua scripts take them."""

    name: str
    argument: str


def intset(bucket_max: int = 512) -> UrlSeen:
    """Bucketed sets of 32-bit integers: 4.5 bytes a URL, no limit, URLs can be forgotten.

    `bucket_max` is the size up to which the server keeps a set compact (set-max-intset-entries).
    """
    return UrlSeen("intset", str(bucket_max))


def bloom(capacity: int = 10_000_000, false_positives: float = 0.001) -> UrlSeen:
    """Chained Bloom filters: 1.8 bytes a URL, some new URLs are lost, none can be forgotten."""
    bits = math.ceil(-capacity * math.log(false_positives) / math.log(2) ** 2)
    hashes = max(1, round(bits / capacity * math.log(2)))
    return UrlSeen("bloom", f"{bits} {hashes} {capacity}")


@dataclass(frozen=True, slots=True)
class TypeBudget:
    """Share of the turns of documents or media while pages wait too, and most URLs of the type.

    A URL counts when it is added, whatever becomes of it. 0: no limit.
    """

    share: float
    max_per_host: int = 10_000
    max: int = 0


class TypeBudgets(NamedTuple):
    """Budgets of the types with queues of their own, in the order of these queues."""

    document: TypeBudget = TypeBudget(0.2)
    medium: TypeBudget = TypeBudget(0.1)


@dataclass(frozen=True, slots=True)
class Tuning:
    """Settings of a frontier: shares of its queues, delays, limits. Times in milliseconds."""

    # These four may change while a crawl runs, see Frontier.set_queues.
    weights: Sequence[int] = (40, 30, 20, 7, 3)
    load_weights: Sequence[int] = (60, 25, 10, 4, 1)
    load_threshold: int = 100_000
    type_budgets: TypeBudgets = field(default_factory=TypeBudgets)
    parallelism: int = 1
    # Time between two fetches of a host that may have several, while its own delay is unknown.
    spacing_ms: int = 0
    dead_max: int = 100_000
    # With so many waiting URLs or more, new ones for queues 4 to 7 are refused; 0: never.
    full_at: int = 0
    # Nothing is claimed for so long after a restart of the server, so that every instance beats.
    grace_ms: int = 10_000
    url_seen: UrlSeen = field(default_factory=intset)

    def per_shard(self, shards: int) -> Tuning:
        """Return the tuning of each of so many shards: each counts only its own URLs."""
        return replace(self, full_at=-(-self.full_at // shards))


def type_turns(shares: Sequence[float]) -> str:
    """Return the turns of the types: the digit 1 for pages, and from 6 on for those with shares."""
    # Of 100 turns, and one at the least of a share that is not 0.
    weights = [max(1, round(100 * share)) if share else 0 for share in shares]
    order = turns([100 - sum(weights), *weights])
    return "".join(digit if digit == "1" else str(PAGE_QUEUES - 1 + int(digit)) for digit in order)


def turns(weights: Sequence[int]) -> str:
    """Return one round of smooth weighted round-robin, a digit (from 1) for each turn.

    Each queue gets its weight's share of the round, spread evenly: the queue with the most credit
    takes the turn and pays the sum of all weights for it.
    """
    return _turns(tuple(weights))


@lru_cache(maxsize=16)
def _turns(weights: tuple[int, ...]) -> str:
    if not weights or len(weights) > 9 or any(weight < 0 for weight in weights) or not sum(weights):
        raise ValueError(f"weights {list(weights)}: give 1 to 9 numbers of 0 or more, not all 0")
    total = sum(weights)
    credit = [0] * len(weights)
    order = []
    for _ in range(total):
        credit = [have + weight for have, weight in zip(credit, weights, strict=True)]
        best = max(range(len(weights)), key=lambda queue: (credit[queue], -queue))
        credit[best] -= total
        order.append(str(best + 1))
    return "".join(order)
