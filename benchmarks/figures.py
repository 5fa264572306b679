"""What a benchmark found: figures, their targets, and how they are printed. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Target:
    """The bound a value is meant to keep."""

    sign: str
    bound: float

    def met_by(self, value: float) -> bool:
        """Whether a value keeps it."""
        return value >= self.bound if self.sign == ">=" else value <= self.bound

    def __str__(self) -> str:
        return f"{self.sign} {number(self.bound)}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The target that `str` gave this text."""
        sign, _, bound = text.partition(" ")
        if sign not in (">=", "<="):
            raise ValueError(f"{text!r} is no target; write '>= 5' or '<= 5'.")
        return cls(sign, float(bound.replace(",", "")))


def at_least(bound: float) -> Target:
    """More is better."""
    return Target(">=", bound)


def at_most(bound: float) -> Target:
    """Less is better."""
    return Target("<=", bound)


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value. `ratio` is ours over the peer's."""

    name: str
    value: float
    unit: str
    peer: str | None = None
    ratio: float | None = None
    target: Target | None = None
    ratio_target: Target | None = None

    @property
    def met(self) -> bool | None:
        """Whether every target is kept; None without one."""
        found = [
            target.met_by(value)
            for target, value in ((self.target, self.value), (self.ratio_target, self.ratio))
            if target is not None and value is not None
        ]
        return all(found) if found else None

    def to_json(self) -> str:
        """One line; what there is none of is left out."""
        record: dict[str, Any] = {
            "name": self.name,
            "value": _rounded(self.value),
            "unit": self.unit,
            "peer": self.peer,
            "ratio": None if self.ratio is None else _rounded(self.ratio),
            "target": self.target and str(self.target),
            "ratio_target": self.ratio_target and str(self.ratio_target),
            "met": self.met,
        }
        return json.dumps({key: value for key, value in record.items() if value is not None})

    @classmethod
    def from_json(cls, line: str) -> Self:
        """The figure of a line, or ValueError."""
        try:
            record = json.loads(line)
            record.pop("met", None)
            for key in ("target", "ratio_target"):
                if key in record:
                    record[key] = Target.parse(record[key])
            return cls(**record)
        except (TypeError, AttributeError) as error:
            raise ValueError(f"{line!r} is no figure: {error}.") from error


@dataclass(frozen=True, slots=True)
class Skipped:
    """A figure that could not be measured here, and why."""

    name: str
    reason: str


def number(value: float) -> str:
    """A value with as many digits as it deserves."""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"


def table(figures: Sequence[Figure], footer: str) -> str:
    """All figures for people, with a footer about the machine."""
    heads = ("figure", "value", "unit", "target", "peer", "ratio", "")
    rows = [heads, *(_row(figure) for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if column in (1, 5) else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "-" * max(len(line) for line in lines))
    return "\n".join([*lines, "", footer])


def _row(figure: Figure) -> tuple[str, ...]:
    targets = [str(figure.target)] if figure.target else []
    if figure.ratio_target:
        targets.append(f"ratio {figure.ratio_target}")
    return (
        figure.name,
        number(figure.value),
        figure.unit,
        ", ".join(targets),
        figure.peer or "",
        "" if figure.ratio is None else number(figure.ratio),
        {True: "", False: "missed", None: ""}[figure.met],
    )


def _rounded(value: float) -> float:
    """Four digits: more of them would only be noise."""
    short = float(f"{value:.4g}")
    return int(short) if short == int(short) else short
