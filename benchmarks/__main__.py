"""Run all benchmarks, each in a process of its own, and keep what they found in results/."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.command import parser
from benchmarks.figures import Figure, table
from benchmarks.machine import footer, short_commit

BENCHMARKS = (
    "frontier",
    "fetch",
    "links",
    "priority",
    "recrawl",
    "content",
    "store",
    "archive",
    "search",
    "sinks",
    "crawl",
)
RESULTS = Path(__file__).parent / "results"


def main(argv: Sequence[str] | None = None) -> int:
    """Run them; 1 if one of them failed."""
    arguments = parser("benchmarks", __doc__).parse_args(argv)
    lines: list[str] = []
    failed = [name for name in BENCHMARKS if not _measure(name, arguments.quick, lines)]
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{time.strftime('%Y-%m-%d')}-{short_commit()}.jsonl"
    path.write_text("".join(lines), encoding="utf-8")
    if arguments.json:
        print("".join(lines), end="")
    else:
        figures = [Figure.from_json(line) for line in lines]
        print(table(figures, f"{footer()}\nKept in {path}"))
    for name in failed:
        print(f"benchmarks: {name} failed; its own message says why", file=sys.stderr)
    return 1 if failed else 0


def _measure(name: str, quick: bool, lines: list[str]) -> bool:
    """Run one, adding its lines. Its messages for people go to stderr as they come."""
    command = [sys.executable, "-m", f"benchmarks.{name}", "--json", *(["--quick"] * quick)]
    print(f"{name} …", file=sys.stderr, flush=True)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines.extend(process.stdout)
    return process.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
