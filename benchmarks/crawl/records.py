"""Keep figures of whole crawls: one line a commit in benchmarks/results/crawl.jsonl."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure
from benchmarks.machine import hardware, software
from crawler.errors import CrawlerError

_ROOT = Path(__file__).parent.parent.parent
RECORDS = _ROOT / "benchmarks" / "results" / "crawl.jsonl"


def record(figures: Iterable[Figure], commit: str, now: datetime, *, quick: bool) -> dict[str, Any]:
    """Return what is kept of a commit; those of quick measurements are kept apart."""
    values = {figure.name: float(f"{figure.value:.4g}") for figure in figures}
    return {
        "date": now.strftime("%Y-%m-%d"),
        "commit": commit,
        "machine": f"{hardware()}; {software()}",
        "quick" if quick else "figures": values,
    }


def without_peers(figures: Iterable[Figure]) -> list[Figure]:
    """Return our own figures and what they are beside the peers', without those of the peers."""
    return [
        figure
        for figure in figures
        if figure.name.count(".") == 2 or figure.name.split(".")[2] == "ours"
    ]


def keep(found: dict[str, Any], path: Path) -> None:
    """Add a line, or merge it with the one that the commit has."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    records = {each["commit"]: each for each in map(json.loads, lines)}
    before = records.pop(found["commit"], {})
    merged = {**before, **found}
    for kind in ("figures", "quick"):
        if kind in merged:
            merged[kind] = {**before.get(kind, {}), **found.get(kind, {})}
    records[found["commit"]] = merged
    path.write_text("".join(f"{json.dumps(each)}\n" for each in records.values()), "utf-8")


def keep_now(figures: Iterable[Figure], commit: str, *, quick: bool) -> None:
    """Keep figures that were measured just now."""
    keep(record(figures, commit, datetime.now(UTC), quick=quick), RECORDS)


def clean_commit(root: Path = _ROOT) -> str:
    """Return the commit that is measured. Raises if files differ from it, but for the results."""
    command = ["git", "status", "--porcelain", "--", ".", ":!benchmarks/results"]
    changed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root).stdout
    if changed:
        raise CrawlerError("Files differ from the commit; commit them before --record.")
    command = ["git", "rev-parse", "--short", "HEAD"]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    return found.stdout.strip()
