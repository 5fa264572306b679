"""Measure the whole way of a page: our crawl beside plain Scrapy, scrapy-redis, Crawlee and others.

All fetch the same pages from a web in memory, and stop as a broad crawl does: with links waiting.
Each run is checked to have fetched the seeds, and no page twice. The crawler has one core for
itself, the servers have the others. The contenders take turns, and medians count; what is compared
is pages per CPU-second of the crawler. The grounds: small (26 KB, plain markup), usual (26 KB, the
markup of real sites), web (140 KB on average, compressed, TLS 1.3, slow hosts).
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from time import monotonic

from benchmarks import command
from benchmarks.command import Measure
from benchmarks.crawl.contenders import ALL, Contender, base
from benchmarks.crawl.grounds import GROUNDS, Ground, of_real_pages
from benchmarks.crawl.records import RECORDS, clean_commit, keep_now, without_peers
from benchmarks.crawl.rig import Rig, Run, rig
from benchmarks.figures import Figure, Skipped, Target, at_least, at_most
from crawler.errors import CrawlerError

_ROUNDS, _QUICK_ROUNDS = 3, 2
Runs = dict[str, list[Run]]


def measure(
    quick: bool,
    *,
    ground: Ground,
    contenders: Sequence[Contender],
    rounds: int | None = None,
) -> Iterator[Figure | Skipped]:
    """Let them crawl in turns."""
    size = ground.quick if quick else ground.full
    runs: Runs = defaultdict(list)
    with rig(ground, size) as place:
        for number in range(rounds or (_QUICK_ROUNDS if quick else _ROUNDS)):
            for contender in in_turn(contenders, number):
                if number and quick and contender.is_slow:
                    continue
                run = _crawl(place, contender, f"{ground.name}, round {number + 1}")
                runs[contender.key].append(run)
    yield from figures(ground, runs)


def in_turn(contenders: Sequence[Contender], number: int) -> list[Contender]:
    """Order the contenders of a round.

    Our crawler here and in the other checkout run next to each other, as they are compared, and
    take turns in being the first.
    """
    compared = [contender for contender in contenders if contender.key in ("ours", "base")]
    others = [contender for contender in contenders if contender not in compared]
    return others + (compared[::-1] if number % 2 else compared)


def _crawl(place: Rig, contender: Contender, where: str) -> Run:
    run = place.crawl(contender)
    print(
        f"{where}: {contender.name}: {run.cpu_ms:.2f} ms of CPU a page, "
        f"{run.pages_per_s:.0f} pages/s, {run.peak_mb:.0f} MB, "
        f"{run.redis_ms:.2f} ms of Redis, {run.mongo_ms:.2f} of MongoDB, "
        f"{run.web_ms:.2f} of the web, {run.connections_per_page:.2f} connections a page, "
        f"{run.resumed_share:.0%} resumed",
        file=sys.stderr,
    )
    return run


_TARGETS: dict[str, Target] = {
    "usual.ratio_to_scrapy": at_least(10),
    "usual.ratio_to_scrapy_redis": at_least(16),
    "usual.ratio_to_crawlee": at_least(6.5),
    "usual.share_of_bare_client": at_least(0.65),
    "usual.ours.peak_mb": at_most(250),
    "usual.redis_ms_per_page": at_most(0.3),
    "usual.loop_lag_p99_ms": at_most(50),
    "web.ratio_to_scrapy": at_least(5),
    "web.ratio_to_base": at_most(0.7),
    "web.handshake_share": at_most(0.08),
    "web.redis_ms_per_page": at_most(0.3),
    "web.servers_ms_per_page": at_most(0.9),
    "web.loop_lag_p99_ms": at_most(50),
    "small.ratio_to_scrapy": at_least(8),
    "small.ratio_to_scrapy_redis": at_least(16),
    "small.no_store_ratio_to_scrapy": at_least(12),
}
# The figure, whose pages a CPU-second, and whose they are compared with.
_RATIOS = (
    ("ratio_to_scrapy", "ours", "scrapy"),
    ("ratio_to_scrapy_redis", "ours", "scrapy_redis"),
    ("ratio_to_crawlee", "ours", "crawlee"),
    ("no_store_ratio_to_scrapy", "ours_no_store", "scrapy"),
    ("share_of_bare_client", "ours", "bare"),
)


def figures(ground: Ground, runs: Runs) -> Iterator[Figure]:
    """What the runs of all contenders say; those that did not run have no figures."""

    def figure(name: str, value: float, unit: str, peer: str | None = None) -> Figure:
        target = _TARGETS.get(f"{ground.name}.{name}")
        return Figure(f"crawl.{ground.name}.{name}", value, unit, peer=peer, target=target)

    contenders = {contender.key: contender for contender in (*ALL, base(Path()))}
    names = {key: contender.name for key, contender in contenders.items()}
    for key, found in runs.items():
        costs = [run.cpu_ms for run in found]
        yield figure(f"{key}.cpu_ms_per_page", statistics.median(costs), "ms", names[key])
        yield figure(f"{key}.cpu_spread", (max(costs) - min(costs)) / min(costs), "")
        yield figure(f"{key}.pages_per_s", _median(found, "pages_per_s"), "pages/s")
        yield figure(f"{key}.mb_per_s", _median(found, "mb_per_s"), "MB/s of HTML")
        yield figure(f"{key}.peak_mb", _median(found, "peak_mb"), "MB")
        for server in ("redis", "mongo"):
            if server in contenders[key].servers:
                yield figure(f"{key}.{server}_ms_per_page", _median(found, f"{server}_ms"), "ms")
    for name, key, peer in _RATIOS:
        if key in runs and peer in runs:
            ratio = _median(runs[peer], "cpu_ms") / _median(runs[key], "cpu_ms")
            yield figure(name, ratio, "pages per CPU-second", names[peer])
    if "ours" not in runs:
        return
    ours = runs["ours"]
    yield figure("cpu_ms_per_page", _median(ours, "cpu_ms"), "ms")
    if "base" in runs:
        # Rounds that follow each other are alike, so they are compared first.
        ratio = statistics.median(
            run.cpu_ms / other.cpu_ms for run, other in zip(ours, runs["base"], strict=True)
        )
        yield figure("ratio_to_base", ratio, "of its CPU time", names["base"])
    yield figure("redis_ms_per_page", _median(ours, "redis_ms"), "ms")
    yield figure("mongo_ms_per_page", _median(ours, "mongo_ms"), "ms")
    servers_ms = statistics.median(run.redis_ms + run.mongo_ms for run in ours)
    yield figure("servers_ms_per_page", servers_ms, "ms")
    yield figure("loop_lag_p99_ms", _median(ours, "loop_lag_p99_ms"), "ms")
    yield figure("loop_own_lag_p99_ms", _median(ours, "loop_own_lag_p99_ms"), "ms")
    if ground.scheme == "https":
        yield figure("handshake_share", _median(ours, "handshake_share"), "of the CPU time")
        yield figure("resumed_share", _median(ours, "resumed_share"), "of the connections")
    yield figure("connections_per_page", _median(ours, "connections_per_page"), "")


def _noted(part: Measure, measured: list[Figure]) -> Measure:
    """Return a part whose figures go to this list too."""

    def noted(quick: bool) -> Iterator[Figure | Skipped]:
        for found in part(quick):
            if isinstance(found, Figure):
                measured.append(found)
            yield found

    return noted


def _median(runs: Sequence[Run], name: str) -> float:
    return statistics.median(getattr(run, name) for run in runs)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the grounds that are asked for."""
    reader = command.parser("benchmarks.crawl", __doc__, list(GROUNDS))
    contenders = {contender.key: contender for contender in ALL}
    reader.add_argument("--base", type=Path, metavar="DIR", help="measure this checkout too")
    reader.add_argument(
        "--pages",
        type=Path,
        metavar="DIR",
        help="real pages (.html, .html.gz): the ground web_real, in place of web",
    )
    reader.add_argument("--rounds", type=int, help=f"{_ROUNDS}, or {_QUICK_ROUNDS} when quick")
    reader.add_argument(
        "--only", metavar="CONTENDER,…", help=f"some of {', '.join(contenders)}; quick: fewer"
    )
    reader.add_argument("--record", action="store_true", help=f"keep our figures in {RECORDS.name}")
    arguments = reader.parse_args(argv)
    if arguments.rounds is not None and arguments.rounds < 1:
        reader.error(f"--rounds is {arguments.rounds}; give 1 or more")
    only = arguments.only.split(",") if arguments.only else None
    if unknown := set(only or ()).difference(contenders):
        reader.error(f"there is no contender {', '.join(sorted(unknown))}; see --help")
    for folder, part in (
        (arguments.base, "benchmarks/crawl/ours_settings.py"),
        (arguments.pages, ""),
    ):
        if folder is not None and not (folder / part).exists():
            reader.error(f"there is no {folder / part}")
    try:
        real = of_real_pages(arguments.pages.resolve()) if arguments.pages else None
        commit = clean_commit() if arguments.record else ""
    except CrawlerError as error:
        reader.error(str(error))
    parts = {}
    for name, ground in GROUNDS.items():
        keys = only or (ground.quick_contenders if arguments.quick else contenders)
        found = [contender for key, contender in contenders.items() if key in keys]
        if arguments.base is not None:
            found.append(base(arguments.base.resolve()))
        parts[name] = partial(measure, ground=ground, contenders=found, rounds=arguments.rounds)
    if real is not None:
        parts["web"] = partial(parts["web"], ground=real)
    measured: list[Figure] = []
    started_s = monotonic()
    status = command.measured(
        reader, arguments, {name: _noted(part, measured) for name, part in parts.items()}
    )
    if arguments.record and measured:
        keep_now(without_peers(measured), commit, quick=arguments.quick)
    print(f"all: {monotonic() - started_s:.0f} s", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
