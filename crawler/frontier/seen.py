"""Forms of URL-seen: which of the two it is, and its parameters. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass


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
