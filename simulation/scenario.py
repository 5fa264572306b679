"""What happens in one schedule: processes, a small web, and faults, all drawn from a seed.

A scenario is written as one line of JSON, which runs the same schedule again.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Self

# Kinds of faults, and how often each is drawn.
KILL, PAUSE, STOP = "kill", "pause", "stop"
CUT, HANG, RESTART = "cut", "hang", "restart"
SINK_AWAY, SINK_SLOW, SINK_TORN = "sink_away", "sink_slow", "sink_torn"
_WEIGHTS = {
    KILL: 5,
    PAUSE: 4,
    STOP: 2,
    CUT: 4,
    HANG: 2,
    RESTART: 4,
    SINK_AWAY: 2,
    SINK_SLOW: 1,
    SINK_TORN: 3,
}


# Moments at which faults do most harm: a request waits before its fetch, or is fetched; Redis has
# executed a verb whose reply is on its way; the last sink has a page.
GATE, FETCH, STORED = "gate", "fetch", "stored"
MOMENTS = (GATE, GATE, FETCH, STORED, "claim", "add", "release", "done", "beat")


@dataclass(frozen=True, slots=True)
class Fault:
    """Fault of one kind, at a time or at a moment.

    With a moment it hits the process that comes to it as the `nth`, after `at_s`; without one the
    process or sink with the number `target`. A process is killed some callbacks (`depth`) later. A
    server that restarts does so after `lost_s`, and loses what came since.
    """

    kind: str
    at_s: float = 0.0
    moment: str = ""
    nth: int = 1
    target: int = 0
    for_s: float = 0.0
    lost_s: float = 0.0
    depth: int = 0

    def __str__(self) -> str:
        more = [
            f"for {self.for_s:.2f} s" if self.for_s else "",
            f"losing {self.lost_s:.2f} s" if self.lost_s else "",
            f"after {self.depth} callbacks" if self.depth else "",
        ]
        return " ".join([self.kind, *filter(None, more)])


@dataclass(frozen=True, slots=True)
class Scenario:
    """One schedule of a fleet."""

    seed: int
    processes: int
    # Hosts of the web, and pages of each.
    hosts: int
    pages: int
    shards: int
    lease_ttl_s: float
    # The longest time that a command or a reply takes, which is rare.
    slow_s: float
    # Whether pages fail, redirect or raise errors in callbacks.
    has_bad_pages: bool
    faults: tuple[Fault, ...]

    @classmethod
    def drawn(cls, seed: int) -> Self:
        """Draw a scenario. Most are small: a short history says more than a long one."""
        chance = random.Random(f"scenario-{seed}")
        processes = chance.choice((1, 2, 2, 2, 3))
        ttl_s = chance.choice((1.5, 2.0, 2.0, 3.0))
        faults = chance.choice((0, 1, 1, 1, 2, 2, 3))
        return cls(
            seed=seed,
            processes=processes,
            hosts=chance.choice((1, 1, 2, 2, 3)),
            pages=chance.choice((2, 3, 4)),
            shards=chance.choice((1, 1, 1, 2)),
            lease_ttl_s=ttl_s,
            slow_s=chance.choice((0.001, 0.05, 0.5)),
            has_bad_pages=chance.random() < 0.4,
            faults=tuple(
                sorted(
                    (_fault(chance, processes, ttl_s) for _ in range(faults)),
                    key=lambda fault: fault.at_s,
                )
            ),
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        fields = json.loads(text)
        fields["faults"] = tuple(Fault(**fault) for fault in fields["faults"])
        return cls(**fields)

    def to_json(self) -> str:
        """Write it as one line."""
        return json.dumps(asdict(self), separators=(",", ":"))

    def smaller(self) -> Iterator[Scenario]:
        """Yield scenarios that are a little smaller, those that save most first."""
        for number in range(len(self.faults)):
            yield replace(self, faults=self.faults[:number] + self.faults[number + 1 :])
        for name in ("processes", "hosts", "pages", "shards"):
            size = getattr(self, name)
            for less in sorted({1, size // 2, size - 1} - {0, size}):
                yield replace(self, **{name: less})
        if self.has_bad_pages:
            yield replace(self, has_bad_pages=False)
        if self.slow_s > 0.001:
            yield replace(self, slow_s=0.001)
        for number, fault in enumerate(self.faults):
            for simpler in _simpler(fault):
                yield replace(
                    self, faults=(*self.faults[:number], simpler, *self.faults[number + 1 :])
                )


def _simpler(fault: Fault) -> Iterator[Fault]:
    for name in ("depth", "lost_s", "for_s", "at_s"):
        value = getattr(fault, name)
        if value and name in ("depth", "lost_s"):
            yield replace(fault, **{name: 0})
        rounded = round(value, 1)
        if rounded and rounded != value:
            yield replace(fault, **{name: rounded})


def _fault(chance: random.Random, processes: int, ttl_s: float) -> Fault:
    [kind] = chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
    if chance.random() < 0.3:
        # Most of the work is done at the beginning.
        fault = Fault(kind, at_s=round(0.2 + 4 * chance.random() ** 2, 4))
    else:
        nth = 1 + int(6 * chance.random() ** 2)
        at_s = chance.choice((0.0, 0.0, round(0.3 * chance.random(), 4)))
        fault = Fault(kind, at_s, chance.choice(MOMENTS), nth)
    short_s = round(0.05 + 3 * chance.random() ** 2, 4)
    long_s = round(ttl_s * (0.9 + 1.5 * chance.random()), 4)
    target = chance.randrange(processes)
    match kind:
        case "kill":
            return replace(fault, target=target, depth=chance.choice((0, 1, 3, 7, 15)))
        case "pause":
            return replace(fault, target=target, for_s=chance.choice((short_s, long_s, long_s)))
        case "stop":
            return replace(fault, target=target)
        case "cut":
            return replace(fault, target=target, for_s=chance.choice((short_s, short_s, long_s)))
        case "hang":
            return replace(fault, for_s=chance.choice((short_s, short_s, long_s)))
        case "restart":
            lost_s = chance.choice((0.0, 0.05, 0.3, 1.0)) * chance.random()
            return replace(fault, for_s=short_s, lost_s=round(lost_s, 4))
    return replace(fault, target=chance.randrange(2), for_s=short_s)
