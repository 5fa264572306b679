"""The command line: see the package."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import benchmarks.hostile as package
from benchmarks import command
from benchmarks.beside import Work, crawls_in_turns, rates
from benchmarks.figures import Figure, Skipped, at_least, at_most
from benchmarks.hostile import report
from benchmarks.hostile.zoo import HOLD_MS, PEAK_MB, crawl_each
from benchmarks.machine import footer
from crawler.errors import CrawlerError
from demo.hostile.zoo import behaviours
from demo.web import WebOptions

_TARGET_RATE = 0.9
_HOSTS, _PAGES, _QUICK_PAGES = 64, 100, 30
_ROUNDS, _QUICK_ROUNDS = 3, 2
# Of the rows of `--quick`.
_EVERY = 8
_PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"


def measure_zoo(
    quick: bool, only: frozenset[str] = frozenset(), *, writes: bool = False
) -> Iterator[Figure | Skipped]:
    """Crawl each behaviour."""
    if not Path("/proc/self/status").exists():
        yield Skipped("hostile.peak_mb", "this system does not tell the memory of a process")
        return
    wanted = [each for each in behaviours() if not only or each.name in only]
    rows = []
    for row in crawl_each(wanted[:: _EVERY if quick else 1]):
        rows.append(row)
        print(row, file=sys.stderr, flush=True)
    if writes:
        text = report.replaced(_PAGE.read_text(encoding="utf-8"), report.table(rows), footer())
        _PAGE.write_text(text, encoding="utf-8")
    yield Figure("hostile.behaviours", len(rows), "", target=at_least(1 if quick or only else 60))
    yield Figure("hostile.wrong", sum(bool(row.wrong) for row in rows), "", target=at_most(0))
    hold_ms, peak_mb = max(row.hold_ms for row in rows), max(row.peak_mb for row in rows)
    yield Figure("hostile.longest_hold_ms", hold_ms, "ms", target=at_most(HOLD_MS))
    yield Figure("hostile.peak_mb", peak_mb, "MB", target=at_most(PEAK_MB))


def measure_beside(quick: bool) -> Iterator[Figure | Skipped]:
    """Crawl ordinary hosts alone, and beside the zoo."""
    web = WebOptions(_HOSTS, _QUICK_PAGES if quick else _PAGES, zoo="hostile")
    works = (Work("alone"), Work("beside", all_seeds=True))
    rounds = _QUICK_ROUNDS if quick else _ROUNDS
    found = rates(crawls_in_turns(web, lambda _: True, works, rounds))
    yield Figure("hostile.pages_per_s", found["beside"], "pages/s")
    kept = found["beside"] / found["alone"]
    yield Figure("hostile.rate_kept", kept, "", target=at_least(_TARGET_RATE))


def main() -> int:
    """Read which behaviours are meant, and measure."""
    parts = {"zoo": measure_zoo, "beside": measure_beside}
    reader = command.parser("benchmarks.hostile", package.__doc__, list(parts))
    reader.add_argument("--only", default="", metavar="NAMES", help="behaviours, with commas")
    reader.add_argument("--write", action="store_true", help="write the table into the docs")
    given = reader.parse_args()
    only = frozenset(filter(None, given.only.split(",")))
    unknown = only - {each.name for each in behaviours()}
    if unknown:
        reader.error(f"there is no behaviour {min(unknown)!r}; docs/reliability.md lists them")
    if given.write and (only or given.quick):
        raise CrawlerError("--write needs all behaviours; leave out --only and --quick")
    zoo = partial(measure_zoo, only=only, writes=given.write)
    return command.measured(reader, given, {**parts, "zoo": zoo})


if __name__ == "__main__":
    sys.exit(main())
