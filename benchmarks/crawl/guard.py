"""Say in one line what a page costs beside plain Scrapy: `python -m benchmarks.crawl.guard`.

A quick measurement on the ground `usual`, for every build to print. It judges nothing: the time of
a busy machine is no error. With --record the figures of this commit are kept, one line a commit, in
benchmarks/results/crawl.jsonl.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.command import Parser, end_servers_on_sigterm
from benchmarks.crawl.__main__ import measure
from benchmarks.crawl.contenders import ALL
from benchmarks.crawl.grounds import USUAL
from benchmarks.figures import Figure
from benchmarks.machine import hardware, short_commit, software
from crawler.errors import CrawlerError

RECORDS = Path(__file__).parent.parent / "results" / "crawl.jsonl"
_CONTENDERS = ("scrapy", "ours")


def line(figures: dict[str, Figure]) -> str:
    """What a page costs, in a sentence."""
    ours, scrapy, ratio = (
        figures[f"crawl.usual.{name}"].value
        for name in ("cpu_ms_per_page", "scrapy.cpu_ms_per_page", "ratio_to_scrapy")
    )
    return (
        f"usual: {ours:.2f} ms of CPU a page, plain Scrapy {scrapy:.1f} ms: "
        f"{ratio:.1f} times as many pages per CPU-second"
    )


def record(figures: dict[str, Figure], commit: str, now: datetime) -> dict[str, Any]:
    """What is kept of a commit."""
    return {
        "date": now.strftime("%Y-%m-%d"),
        "commit": commit,
        "machine": f"{hardware()}; {software()}",
        "figures": {name: float(f"{figure.value:.4g}") for name, figure in figures.items()},
    }


def keep(found: dict[str, Any], path: Path) -> None:
    """Add a line, in place of the one that the commit has."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    kept = [each for each in lines if json.loads(each)["commit"] != found["commit"]]
    path.write_text("\n".join([*kept, json.dumps(found), ""]), encoding="utf-8")


def _clean_commit() -> str:
    """The commit that is measured. Raises if files differ from it, but for the results."""
    command = ["git", "status", "--porcelain", "--", ".", f":!{RECORDS.parent.name}"]
    root = RECORDS.parent.parent
    changed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root).stdout
    if changed:
        raise CrawlerError("Files differ from the commit; commit them before --record.")
    return short_commit().removesuffix("-dirty")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the line, and keep it if that is asked for."""
    reader = Parser(prog="benchmarks.crawl.guard", description=__doc__)
    reader.add_argument("--record", action="store_true", help=f"keep the figures in {RECORDS.name}")
    arguments = reader.parse_args(argv)
    end_servers_on_sigterm()
    try:
        commit = _clean_commit() if arguments.record else ""
        contenders = [contender for contender in ALL if contender.key in _CONTENDERS]
        found = measure(True, ground=USUAL, contenders=contenders)
        figures = {figure.name: figure for figure in found if isinstance(figure, Figure)}
    except CrawlerError as error:
        print(f"{reader.prog}: {error}", file=sys.stderr)
        return 1
    print(line(figures))
    if arguments.record:
        keep(record(figures, commit, datetime.now(UTC)), RECORDS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
