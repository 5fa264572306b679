"""What runs of the fuzzer did, a line of JSON for each target and run, and the docs' table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

DOCS = Path(__file__).parent.parent / "docs"
RESULTS = DOCS / "reliability" / "fuzzing.jsonl"
PAGE = DOCS / "reliability.md"
CASES = Path(__file__).parent / "cases"
_BEGIN, _END = "<!-- fuzzing: begin -->", "<!-- fuzzing: end -->"


@dataclass(frozen=True, slots=True)
class Result:
    """What one run of one target did."""

    target: str
    at: str
    commit: str
    # All, and those that atheris made.
    executions: int
    guided: int
    seconds: float
    # Inputs that failed without instruments too: exceptions, and blow-ups of time or memory.
    failures: int
    # The process did not come back from an input, or was ended by it.
    hangs: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Self:
        return cls(**json.loads(line))


def read(path: Path = RESULTS) -> list[Result]:
    """Return what earlier runs did."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [Result.from_json(line) for line in lines]


def keep(result: Result, path: Path = RESULTS) -> None:
    """Append what a run did."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(result.to_json() + "\n")


def table(results: Sequence[Result], targets: Iterable[str]) -> str:
    """Return the table of all runs together; fuzzing a target more adds to its row."""
    lines = [
        "| target | executions | by coverage | minutes | failures | hangs | cases kept |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name in targets:
        own = [each for each in results if each.target == name]
        lines.append(_row(f"`{name}`", own, _cases(name)))
    lines.append(_row("**all**", results, sum(map(_cases, targets))))
    days = sorted({each.at for each in results})
    commits = list(dict.fromkeys(each.commit for each in results))
    about = f"{' to '.join(dict.fromkeys((days[0], days[-1])))}, commits {', '.join(commits)}"
    return "\n".join([*lines, "", f"Measured {about}."]) if days else "\n".join(lines)


def render(page: str, made: str) -> str:
    """Return the page with this table in the place of the one before."""
    if _BEGIN not in page:
        raise ValueError(f"{PAGE} has no {_BEGIN}; put it and {_END} where the table belongs")
    before, _, rest = page.partition(_BEGIN)
    return f"{before}{_BEGIN}\n{made}\n{_END}{rest.partition(_END)[2]}"


def _row(name: str, results: Sequence[Result], cases: int) -> str:
    executions = sum(each.executions for each in results)
    guided = sum(each.guided for each in results)
    minutes = sum(each.seconds for each in results) / 60
    failures, hangs = (sum(getattr(each, key) for each in results) for key in ("failures", "hangs"))
    counts = f"{executions:,} | {guided:,} | {minutes:.0f} | {failures} | {hangs} | {cases}"
    return f"| {name} | {counts} |"


def _cases(target: str) -> int:
    folder = CASES / target
    return sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0
