"""What was measured, part by part: one line of JSON for each part."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from benchmarks.figures import Figure


@dataclass(frozen=True, slots=True)
class Part:
    """Figures that were measured together, and on what."""

    name: str
    # The day, as 2026-11-18.
    at: str
    quick: bool
    took_s: float
    # Average load of the minute before.
    load: float
    machine: str
    commit: str
    figures: Mapping[str, Figure]

    def value(self, name: str) -> float:
        """The value of a figure."""
        return self.figures[name].value

    def peer(self, name: str) -> float:
        """The value of the peer that a figure is compared with."""
        ratio = self.figures[name].ratio
        assert ratio is not None, f"{name} has no peer"
        return self.value(name) / ratio

    def to_json(self) -> str:
        """One line."""
        record = {
            "part": self.name,
            "at": self.at,
            "quick": self.quick,
            "took_s": round(self.took_s),
            "load": round(self.load, 1),
            "machine": self.machine,
            "commit": self.commit,
            "figures": [json.loads(figure.to_json()) for figure in self.figures.values()],
        }
        return json.dumps(record, ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str) -> Self:
        """The part of a line."""
        record = json.loads(line)
        figures = (Figure.from_json(json.dumps(each)) for each in record.pop("figures"))
        return cls(
            name=record.pop("part"), figures={figure.name: figure for figure in figures}, **record
        )


Results = Mapping[str, Part]


def read(path: Path) -> dict[str, Part]:
    """All parts of a file, none if it does not exist."""
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    return {part.name: part for part in map(Part.from_json, lines)}


def keep(path: Path, part: Part) -> None:
    """Put a part into the file, instead of an older one of its name."""
    parts = read(path) | {part.name: part}
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{each.to_json()}\n" for each in parts.values())
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)
