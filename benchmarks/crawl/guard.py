"""Say in one line what a page costs beside plain Scrapy: `python -m benchmarks.crawl.guard`.

A quick measurement on the ground `usual`, for every build to print. It judges nothing: neither the
time of a busy machine is an error, nor that it could not be measured there. With --record the
figures of this commit are kept in benchmarks/results/crawl.jsonl.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.command import Parser, end_servers_on_sigterm
from benchmarks.crawl.__main__ import measure
from benchmarks.crawl.contenders import ALL
from benchmarks.crawl.grounds import USUAL
from benchmarks.crawl.records import RECORDS, clean_commit, keep_now
from benchmarks.crawl.rig import Disturbed
from benchmarks.figures import Figure
from crawler.errors import CrawlerError

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


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the line, and keep it if that is asked for."""
    reader = Parser(prog="benchmarks.crawl.guard", description=__doc__)
    reader.add_argument("--record", action="store_true", help=f"keep the figures in {RECORDS.name}")
    arguments = reader.parse_args(argv)
    end_servers_on_sigterm()
    try:
        commit = clean_commit() if arguments.record else ""
        contenders = [contender for contender in ALL if contender.key in _CONTENDERS]
        found = measure(True, ground=USUAL, contenders=contenders)
        figures = {figure.name: figure for figure in found if isinstance(figure, Figure)}
    except Disturbed as error:
        print(f"usual: not measured, the machine may be too busy: {error}")
        # Whoever wants a record gets none.
        return int(arguments.record)
    except CrawlerError as error:
        print(f"{reader.prog}: {error}", file=sys.stderr)
        return 1
    print(line(figures))
    if arguments.record:
        keep_now(figures.values(), commit, quick=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
