"""Measure what docs/measurements.md shows, and make its tables and plots.

`python -m benchmarks.measurements run [--quick] [--only PART …] [--pages N] [--out FILE]` measures,
and keeps each part when it is done. `python -m benchmarks.measurements render [FILE]` makes the
page.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.command import Parser, figures_of
from benchmarks.machine import hardware, short_commit, software
from benchmarks.measurements import page, plots, results

DOCS = Path(__file__).parent.parent.parent / "docs"
RESULTS = DOCS / "measurements" / "results.jsonl"
# The benchmark that measures each part, with its own part if it has several.
PARTS = {
    "scaling": ("scaling", "workers"),
    "seen": ("frontier", "seen"),
    "sustained": ("measurements.sustained",),
    "memory": ("memory",),
    "latency": ("measurements.latency",),
    "compression": ("measurements.compression",),
    "delayed": ("frontier", "delayed"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure or render; 1 if a part failed."""
    parser = Parser(prog="benchmarks.measurements", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    run = commands.add_parser("run", help="measure, and keep what was found")
    run.add_argument("--quick", action="store_true", help="smaller sizes, for a first impression")
    run.add_argument(
        "--only", nargs="+", choices=PARTS, metavar="PART", help=f"of {', '.join(PARTS)}"
    )
    run.add_argument("--out", type=Path, default=RESULTS, metavar="FILE")
    run.add_argument("--pages", type=int, metavar="N", help="how many pages `memory` crawls")
    run.set_defaults(
        do=lambda given: measure(given.only or [*PARTS], given.quick, given.out, given.pages)
    )
    make = commands.add_parser("render", help="make the page and its plots")
    make.add_argument("results", type=Path, nargs="?", default=RESULTS, metavar="FILE")
    make.add_argument("--docs", type=Path, default=DOCS, metavar="FOLDER")
    make.set_defaults(do=lambda given: render(given.results, given.docs))
    arguments = parser.parse_args(argv)
    if getattr(arguments, "pages", None) is not None and arguments.pages < 1:
        parser.error(f"--pages is {arguments.pages}; give 1 or more")
    try:
        code: int = arguments.do(arguments)
    except KeyboardInterrupt:
        # The parts that were done are kept.
        return 130
    return code


def measure(parts: Sequence[str], quick: bool, out: Path, pages: int | None = None) -> int:
    """Measure parts one after the other; the others stay in the file as they are."""
    failed = [part for part in parts if not _measure(part, quick, out, pages)]
    for part in failed:
        print(f"measurements: {part} failed; its own message says why", file=sys.stderr)
    return 1 if failed else 0


def _measure(name: str, quick: bool, out: Path, pages: int | None) -> bool:
    load, started_s = os.getloadavg()[0], time.monotonic()
    options = [f"--pages={pages}"] if name == "memory" and pages is not None else []
    figures, succeeded = figures_of(*PARTS[name], *options, quick=quick)
    took_s = time.monotonic() - started_s
    if succeeded and figures:
        commit = short_commit()
        if commit.endswith("-dirty"):
            print(f"{name}: files differ from the commit; it is kept as {commit}", file=sys.stderr)
        part = results.Part(
            name=name,
            at=time.strftime("%Y-%m-%d"),
            quick=quick,
            took_s=took_s,
            load=load,
            machine=f"{hardware()}; {software()}",
            commit=commit,
            figures={figure.name: figure for figure in figures},
        )
        results.keep(out, part)
    print(f"{name}: {len(figures)} figures in {took_s:.0f} s", file=sys.stderr, flush=True)
    return succeeded


def render(source: Path, docs: Path) -> int:
    """Write the tables into the page, and the plots beside it."""
    found = results.read(source)
    file = docs / "measurements.md"
    file.write_text(page.render(file.read_text(encoding="utf-8"), found), encoding="utf-8")
    for path in [file, *plots.draw(found, docs / "measurements")]:
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
