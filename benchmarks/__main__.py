"""Run all benchmarks, each in a process of its own, and keep what they found in results/."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.command import figures_of, parser
from benchmarks.figures import Figure, table
from benchmarks.machine import footer, short_commit

BENCHMARKS = (
    "frontier",
    "fetch",
    "connections",
    "links",
    "read",
    "main_text",
    "priority",
    "recrawl",
    "topic",
    "content",
    "near_duplicates",
    "store",
    "archive",
    "search",
    "documents",
    "hostile",
    "understanding",
    "sinks",
    "crawl",
    "render",
    "memory",
    "scaling",
)
RESULTS = Path(__file__).parent / "results"


def main(argv: Sequence[str] | None = None) -> int:
    """Run them; 1 if one of them failed."""
    arguments = parser("benchmarks", __doc__).parse_args(argv)
    figures: list[Figure] = []
    failed = []
    for name in BENCHMARKS:
        found, succeeded = figures_of(name, quick=arguments.quick)
        figures += found
        failed += [] if succeeded else [name]
    lines = "".join(f"{figure.to_json()}\n" for figure in figures)
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{time.strftime('%Y-%m-%d')}-{short_commit()}.jsonl"
    path.write_text(lines, encoding="utf-8")
    if arguments.json:
        print(lines, end="")
    else:
        print(table(figures, f"{footer()}\nKept in {path}"))
    for name in failed:
        print(f"benchmarks: {name} failed; its own message says why", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
