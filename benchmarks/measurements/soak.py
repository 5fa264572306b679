"""Does anything grow in an hour of a crawl that the growth of its frontier does not explain?

`python -m benchmarks.measurements.soak run --hours 1` crawls the ground `usual` of the crawl
benchmark with several processes into Redis and MongoDB, at a set rate, and visits pages again. The
web is so large that it never ends. All is looked at from outside, again and again: what was seen is
a row of soak.csv at once, so that a run that was ended early counts for as long as it was.
`python -m benchmarks.measurements.soak render` makes plots, table and verdict of the rows.

The first quarter is not judged: caches fill, and servers take memory. Of the rest a line is fitted
to each series, and its rise from the begin to the end must not be more than is allowed. Of Redis
only what its URLs, pages and hosts do not take by docs/capacity.md counts, and MongoDB must take no
more for a page at the end than at the begin.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import matplotlib as mpl
import numpy as np
import psutil
from matplotlib.figure import Figure as Drawing

from benchmarks.command import Parser, end_servers_on_sigterm
from benchmarks.crawl.pages import Size
from benchmarks.crawl_process import shard_tags
from benchmarks.machine import hardware, software
from benchmarks.measurements.plots import BLUE, STYLE
from benchmarks.measurements.sustained import (
    DATABASE,
    crawl_of,
    require_free_disk,
    servers_and_web,
)
from benchmarks.servers import PrivateMongo, PrivateRedis
from crawler.errors import CrawlerError
from crawler.frontier import keys

_FOLDER = Path(__file__).parent.parent.parent / "docs" / "reliability"
_PAGE = _FOLDER.parent / "reliability.md"
_BEGIN, _END = "<!-- soak: begin -->", "<!-- soak: end -->"
# 8 million pages, of which an hour fetches a small part.
_SIZE = Size(seeds=500, hosts=20_000)
_EVERY_S = 10.0
# What the servers may write in an hour for each page a second.
_GB_A_RATE = 0.25
# Rows of which nothing can be said.
_FEWEST = 8
_NOT_JUDGED = 0.25
# Bytes of Redis by docs/capacity.md, rounded up: of a URL ever seen, of one that waits, of one that
# waits for its recrawl with what is known of its visits, of a page's content, of a host.
_SEEN, _WAITING, _RECRAWL, _PAGE_BYTES, _HOST = 5, 50, 300, 80, 360
# Allowed rises: MB of a process, files and tasks that come and go with its fetches, MB of Redis
# that nothing explains (its buffers), share of what MongoDB takes for a page.
_PROCESS_MB, _FILES, _TASKS, _REDIS_MB, _MONGO_SHARE = 15.0, 64.0, 100.0, 20.0, 0.25


@dataclass(frozen=True, slots=True)
class Row:
    """What was seen at a moment. Those of several processes are sums, the lag is the worst."""

    at_s: float
    processes: int
    pages: int
    known: int
    waiting: int
    recrawls: int
    hosts: int
    process_mb: float
    files: int
    tasks: int
    lag_ms: float
    redis_mb: float
    redis_rss_mb: float
    mongo_mb: float
    mongo_rss_mb: float


@dataclass(frozen=True, slots=True)
class Finding:
    """Rise of one series over the rows that are judged, and how much is allowed."""

    name: str
    unit: str
    first: float
    rise: float
    allowed: float

    @property
    def is_fine(self) -> bool:
        """Whether it rose no more than is allowed."""
        return self.rise <= self.allowed


def judged(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that count: all but those of the first quarter of the time."""
    start_s = rows[0].at_s + _NOT_JUDGED * (rows[-1].at_s - rows[0].at_s)
    found = [row for row in rows if row.at_s >= start_s]
    if len(found) < _FEWEST:
        raise CrawlerError(
            f"{len(found)} rows are too few for a verdict, {_FEWEST} are needed; run it for longer."
        )
    return found


def rise(times: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """Fit a line; return where it begins, and how much it rises to the end."""
    slope, start = np.polyfit(np.array(times) - times[0], np.array(values), 1)
    return float(start), float(slope * (times[-1] - times[0]))


def explained_mb(row: Row) -> float:
    """Return what Redis may take for what the frontier has."""
    used = (
        _SEEN * row.known
        + _WAITING * row.waiting
        + _RECRAWL * row.recrawls
        + _PAGE_BYTES * row.pages
        + _HOST * row.hosts
    )
    return used / 2**20


def findings(rows: Sequence[Row]) -> list[Finding]:
    """Judge each series."""
    rows = judged(rows)
    times = [row.at_s for row in rows]
    count = max(row.processes for row in rows)

    def of(name: str, unit: str, values: Sequence[float], allowed: float) -> Finding:
        return Finding(name, unit, *rise(times, values), allowed)

    half = len(rows) // 2
    early, late = (_mb_a_page(part) for part in (rows[: half + 1], rows[half:]))
    return [
        of("memory of the processes", "MB", [row.process_mb for row in rows], _PROCESS_MB * count),
        of("open files of the processes", "", [row.files for row in rows], _FILES * count),
        of("tasks of the event loops", "", [row.tasks for row in rows], _TASKS * count),
        of(
            "memory of Redis beyond its URLs, pages and hosts",
            "MB",
            [row.redis_mb - explained_mb(row) for row in rows],
            _REDIS_MB,
        ),
        Finding("MongoDB a page", "KB", early * 1024, (late - early) * 1024,
                _MONGO_SHARE * early * 1024),
    ]  # fmt: skip


def _mb_a_page(rows: Sequence[Row]) -> float:
    """Return what MongoDB takes more for each page more, by a fitted line."""
    pages = np.array([row.pages for row in rows], float)
    if pages[0] == pages[-1]:
        raise CrawlerError("No page was stored meanwhile, so nothing can be said of MongoDB.")
    return float(np.polyfit(pages, np.array([row.mongo_mb for row in rows]), 1)[0])


# --- looking --------------------------------------------------------------------------------------


class _Watch:
    """Looks at a crawl of several processes and at its servers."""

    def __init__(self, pids: Sequence[int], redis: PrivateRedis, mongo: PrivateMongo) -> None:
        self._redis, self._mongo = redis, mongo
        self._processes = [psutil.Process(pid) for pid in pids]
        self._redis_process = psutil.Process(redis.client.info("server")["process_id"])
        self._started_s = time.monotonic()

    def row(self) -> Row:
        client, database = self._redis.client, self._mongo.client[DATABASE]
        tags = shard_tags(self._redis)
        stats = [client.hgetall(f"{tag}:stats") for tag in tags]

        def total(name: bytes) -> int:
            return sum(int(each.get(name, 0)) for each in stats)

        fronts = [client.llen(f"{tag}:front:{number}") for tag in tags for number in range(1, 8)]
        about = [
            json.loads(report)
            for tag in tags[:1]
            for report in client.hgetall(f"{tag}:instances").values()
        ]
        size = database.command("dbStats")
        return Row(
            at_s=round(time.monotonic() - self._started_s, 1),
            processes=len(self._processes),
            pages=int(client.hget(keys.totals("web"), "pages") or 0),
            known=total(b"added"),
            waiting=sum(fronts) + total(b"back"),
            recrawls=total(b"recrawls"),
            hosts=sum(client.hlen(f"{tag}:found") for tag in tags),
            process_mb=_rss_mb(*self._processes),
            files=sum(process.num_fds() for process in self._processes),
            tasks=sum(each.get("tasks", 0) for each in about),
            lag_ms=max((each.get("loop_lag_ms", 0.0) for each in about), default=0.0),
            redis_mb=round(client.info("memory")["used_memory"] / 2**20, 2),
            redis_rss_mb=_rss_mb(self._redis_process),
            mongo_mb=round((size["storageSize"] + size["indexSize"]) / 2**20, 2),
            mongo_rss_mb=_rss_mb(self._mongo.process),
        )


def _rss_mb(*processes: psutil.Process) -> float:
    return round(sum(process.memory_info().rss for process in processes) / 2**20, 1)


def _rows(hours: float, processes: int, rate: float) -> Iterator[Row]:
    arguments = {"recrawl": "fixed:20m", "max_pages_per_minute": str(round(60 * rate))}
    # By default no page is visited again so soon.
    settings = {"RECRAWL": json.dumps({"min_s": 60})}
    with ExitStack() as stack:
        redis, mongo, port = stack.enter_context(servers_and_web(_SIZE, None))
        crawl = crawl_of(
            _SIZE, redis, mongo, port, count=processes, arguments=arguments, settings=settings
        )
        running = stack.enter_context(crawl)
        watch = _Watch([process.pid for process in running], redis, mongo)
        end_s = time.monotonic() + hours * 3600
        while (now_s := time.monotonic()) < end_s:
            yield watch.row()
            time.sleep(max(0.0, min(now_s + _EVERY_S, end_s) - time.monotonic()))
        yield watch.row()


def _run(given: argparse.Namespace) -> int:
    require_free_disk(1 + given.hours * given.rate * _GB_A_RATE)
    end_servers_on_sigterm()
    folder: Path = given.out
    folder.mkdir(parents=True, exist_ok=True)
    facts = {
        "at": time.strftime("%Y-%m-%d"),
        "machine": f"{hardware()}; {software()}",
        "load": round(os.getloadavg()[0], 1),
    }
    (folder / "soak.json").write_text(json.dumps(facts) + "\n", encoding="utf-8")
    with (folder / "soak.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in fields(Row))
        for row in _rows(given.hours, given.processes, given.rate):
            writer.writerow(astuple(row))
            file.flush()
    found = findings(read(folder / "soak.csv"))
    print(table(found))
    return 0 if all(each.is_fine for each in found) else 1


# --- showing --------------------------------------------------------------------------------------


def read(path: Path) -> list[Row]:
    """Read the rows of a run."""
    with path.open(newline="", encoding="utf-8") as file:
        kinds = {field.name: float if field.type == "float" else int for field in fields(Row)}
        return [
            Row(**{name: kinds[name](float(value)) for name, value in line.items()})
            for line in csv.DictReader(file)
        ]


def table(found: Sequence[Finding]) -> str:
    """Return the verdict."""
    lines = ["| series | at first | rise | allowed | verdict |", "|---|---:|---:|---:|---|"]
    for each in found:
        unit = f" {each.unit}".rstrip()
        verdict = "flat" if each.is_fine else "**grows**"
        lines.append(
            f"| {each.name} | {each.first:,.1f}{unit} | {each.rise:+,.1f}{unit} | "
            f"{each.allowed:,.1f}{unit} | {verdict} |"
        )
    return "\n".join(lines)


def section(rows: Sequence[Row], about: str) -> str:
    """Return what the docs say of a run."""
    first, last = rows[0], rows[-1]
    seconds = last.at_s - first.at_s
    lags = sorted(row.lag_ms for row in rows)
    pages = last.pages - first.pages
    said = (
        f"{seconds / 60:.0f} minutes, {last.processes} processes, {pages:,} pages "
        f"({pages / seconds:.1f} a second), {last.known:,} URLs known at the end, "
        f"{last.recrawls:,} waiting for their recrawl, {last.hosts:,} hosts. Redis had "
        f"{last.redis_mb:,.0f} MB at the end, MongoDB {last.mongo_mb:,.0f} MB of data. The worst "
        f"lag of an event loop at a look was {lags[len(lags) // 2]:.0f} ms in the median, and "
        f"{lags[-1]:.0f} ms at the most."
    )
    plot = "![Rate, memory, files, tasks and lag over time](reliability/soak.svg)"
    return "\n".join([table(findings(rows)), "", said, "", about, "", plot])


def _render(given: argparse.Namespace) -> int:
    folder: Path = given.out
    rows = read(folder / "soak.csv")
    path = folder / "soak.json"
    facts = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    about = (
        f"Measured {facts['at']} on {facts['machine']}." if facts else "The run was ended early."
    )
    page = given.page.read_text(encoding="utf-8")
    before, _, rest = page.partition(_BEGIN)
    made = section(rows, about)
    page = f"{before}{_BEGIN}\n{made}\n{_END}{rest.partition(_END)[2]}"
    given.page.write_text(page, encoding="utf-8")
    _draw(rows, folder / "soak.svg")
    return 0


def _draw(rows: Sequence[Row], path: Path) -> None:
    minutes = [row.at_s / 60 for row in rows]
    rates = [
        (later.pages - before.pages) / max(later.at_s - before.at_s, 0.1)
        for before, later in zip(rows, rows[6:], strict=False)
    ]
    series = {
        "pages/s, of a minute": [*[rates[0] if rates else 0.0] * (len(rows) - len(rates)), *rates],
        "memory of the processes, MB": [row.process_mb for row in rows],
        "open files": [row.files for row in rows],
        "tasks": [row.tasks for row in rows],
        "worst lag of an event loop, ms": [row.lag_ms for row in rows],
        "URLs known, thousands": [row.known / 1000 for row in rows],
        "Redis, MB": [row.redis_mb for row in rows],
        "MongoDB, MB of data": [row.mongo_mb for row in rows],
    }
    with mpl.rc_context(STYLE):
        drawing = Drawing(figsize=(9, 9), layout="constrained")
        plots = drawing.subplots(4, 2, sharex=True)
        for axes, (title, values) in zip(plots.flat, series.items(), strict=True):
            axes.plot(minutes, values, color=BLUE, linewidth=1.2)
            axes.set(title=title, ylim=(0, max(*values, 0.1) * 1.15))
        for axes in plots[-1]:
            axes.set(xlabel="minutes")
        drawing.savefig(path, transparent=True, metadata={"Date": None, "Creator": None})


def main(argv: Sequence[str] | None = None) -> int:
    """Run or render; 1 if something grows."""
    parser = Parser(prog="benchmarks.measurements.soak", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    run = commands.add_parser("run", help="crawl, and look")
    run.add_argument("--hours", type=float, default=1.0)
    run.add_argument("--processes", type=int, default=2)
    run.add_argument("--rate", type=float, default=50.0, help="pages a second, of all processes")
    run.set_defaults(do=_run)
    make = commands.add_parser("render", help="make the plots, and the section of the docs")
    make.add_argument("--page", type=Path, default=_PAGE, metavar="FILE")
    make.set_defaults(do=_render)
    for each in (run, make):
        each.add_argument("--out", type=Path, default=_FOLDER, metavar="FOLDER")
    given = parser.parse_args(argv)
    try:
        code: int = given.do(given)
    except CrawlerError as error:
        print(f"soak: {error}", file=sys.stderr)
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
