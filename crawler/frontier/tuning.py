"""How a frontier serves its queues, in which turns, and which form of URL-seen it has. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Intset:
    """Bucketed sets of 32-bit integers: 4.5 bytes a URL, grows without end, can forget."""

    # What the server keeps compact (set-max-intset-entries).
    bucket_max: int = 512
    name: str = "intset"

    @property
    def argument(self) -> str:
        return str(self.bucket_max)


@dataclass(frozen=True, slots=True)
class Bloom:
    """Chained Bloom filters: 1.8 bytes a URL, a known share of new URLs is lost, cannot forget."""

    capacity: int = 10_000_000
    false_positives: float = 0.001
    name: str = "bloom"

    @property
    def bits(self) -> int:
        return math.ceil(-self.capacity * math.log(self.false_positives) / math.log(2) ** 2)

    @property
    def hashes(self) -> int:
        return max(1, round(self.bits / self.capacity * math.log(2)))

    @property
    def argument(self) -> str:
        return f"{self.bits} {self.hashes} {self.capacity}"


UrlSeen = Intset | Bloom


@dataclass(frozen=True, slots=True)
class Tuning:
    """How a frontier serves its queues. Times in milliseconds."""

    # The first three may change while a crawl runs, see Frontier.serve.
    weights: Sequence[int] = (40, 30, 20, 7, 3)
    load_weights: Sequence[int] = (60, 25, 10, 4, 1)
    load_threshold: int = 100_000
    parallelism: int = 1
    # Between two starts at a host that may have several, while its own delay is not known.
    spacing_ms: int = 0
    dead_max: int = 100_000
    # Discoveries for queues 4 and 5 are refused from this number of waiting URLs on; 0: never.
    full_at: int = 0
    # Claims rest so long after a restart of the server: every instance has beaten by then.
    grace_ms: int = 10_000
    url_seen: UrlSeen = field(default_factory=Intset)

    def of_a_shard(self, shards: int) -> Tuning:
        """The same for one of so many shards, each of which counts its own URLs."""
        return replace(self, full_at=-(-self.full_at // shards))


def turns(weights: Sequence[int]) -> str:
    """One round of smooth weighted round-robin, a digit (from 1) a turn.

    Each queue gets its weight's share of the round, spread as evenly as it can be: the queue with
    the most credit takes the turn and pays the sum of all weights for it.
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
