"""Schedules of faults: draw one from a seed, write it as JSON lines, read it again. Pure."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from chaos.faults import Fault


@dataclass(frozen=True, slots=True)
class Planned:
    """Fault to be done: when, in seconds from the storm's beginning, and what it draws from."""

    at_s: float
    kind: str
    seed: int


def draw(seed: int, kinds: Sequence[Fault], *, length_s: float, count: int) -> list[Planned]:
    """Draw so many faults, evenly in time. Every kind comes once before any comes twice."""
    chance = Random(seed)
    drawn = [kind for kind in kinds if kind.weight > 0]
    if not drawn:
        return []
    names = [kind.name for kind in chance.sample(drawn, min(len(drawn), count))]
    weights = [kind.weight for kind in drawn]
    names += [kind.name for kind in chance.choices(drawn, weights, k=count - len(names))]
    chance.shuffle(names)
    times = sorted(round(chance.uniform(0, length_s), 3) for _ in names)
    return [
        Planned(at_s, name, chance.getrandbits(32)) for at_s, name in zip(times, names, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Happened:
    """Fault that was done, with epoch seconds; `target` is what it was done to."""

    planned: Planned
    began_s: float
    ended_s: float
    target: str
    # Why it could not be done, or undone.
    error: str = ""


def to_line(done: Happened) -> str:
    """Return the line of the fault log."""
    planned = done.planned
    fields: dict[str, Any] = {
        "at_s": planned.at_s,
        "kind": planned.kind,
        "seed": planned.seed,
        "began_s": round(done.began_s, 3),
        "ended_s": round(done.ended_s, 3),
        "target": done.target,
        "error": done.error,
    }
    return json.dumps(fields)


def read(lines: Iterable[str]) -> Iterator[Happened]:
    """Yield the faults of a log; ValueError names a line that is none."""
    for number, line in enumerate(lines, 1):
        try:
            fields = json.loads(line)
            planned = Planned(float(fields["at_s"]), str(fields["kind"]), int(fields["seed"]))
            yield Happened(
                planned,
                float(fields.get("began_s", 0)),
                float(fields.get("ended_s", 0)),
                str(fields.get("target", "")),
                str(fields.get("error", "")),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"line {number} of the fault log is no fault: {error!r}") from None
