"""How a frontier serves its queues. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from crawler.frontier.seen import Intset, UrlSeen


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
