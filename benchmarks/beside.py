"""Crawls of the synthetic web that have more to do than to fetch pages, and the pages beside that.

Its hosts answer after half a second. What is compared is the rate of ordinary pages, in crawls that
take turns, until each has fetched so many: four fifths of those of the crawl with the fewest. A
crawl has its defaults, but no delays.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from statistics import median

from benchmarks.crawl_process import memory_mb
from benchmarks.servers import private_redis
from crawler.errors import CrawlerError
from demo.access_log import Entry, read_log
from demo.hostile import crawl as hostile
from demo.process import DemoServer
from demo.profile import Profile
from demo.web import Web, WebOptions

_ROOT = Path(__file__).parent.parent
_LATENCY_S = 0.5
_SHARE = 0.8
_POLL_S, _TIMEOUT_S = 0.05, 600.0
# Seconds after which the log is read again. Pages come all the time, until there are no more.
_LOOK_S = 5.0
# What pages are made of, and only browsers need.
_PARTS = ("/static/", "/shared/", "/api/")
_SETTINGS = {
    "SINKS": "none",
    "ALLOW_NETWORKS": "127.0.0.0/8",
    "DELAY_MIN": 0,
    "DELAY_FACTOR": 0,
    "PROGRESS": "off",
    "ADMIN_ENABLED": False,
    "LOG_LEVEL": "WARNING",
}


@dataclass(frozen=True, slots=True)
class Work:
    """One kind of crawl: its settings, and arguments of its spider."""

    name: str
    settings: Mapping[str, object] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)
    # Begin also with all hostile servers of the web.
    all_seeds: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """One crawl: when it got its ordinary pages, in order, and the most memory of a process."""

    ends_s: Sequence[float]
    crawl_mb: float
    worker_mb: float

    def pages_per_s(self, pages: int) -> float:
        """Return the rate of its first pages."""
        return pages / (self.ends_s[pages] - self.ends_s[0])

    def __str__(self) -> str:
        pages = len(self.ends_s) - 1
        return (
            f"{pages + 1} pages, {self.pages_per_s(pages):.1f} pages/s, "
            f"{self.crawl_mb:.0f} MB, workers {self.worker_mb:.0f} MB"
        )


def crawls_in_turns(
    web: WebOptions, is_ordinary: Callable[[Profile], bool], works: Sequence[Work], rounds: int
) -> dict[str, list[Run]]:
    """Let the crawls take turns, of which each second round is the other way round."""
    runs: dict[str, list[Run]] = {work.name: [] for work in works}
    for number in range(rounds):
        for work in works if number % 2 == 0 else reversed(works):
            runs[work.name].append(_crawl(web, is_ordinary, work))
            print(f"{work.name}: {runs[work.name][-1]}", file=sys.stderr)
    return runs


def rates(runs: Mapping[str, Sequence[Run]]) -> dict[str, float]:
    """Return the pages a second of each kind of crawl."""
    fewest = min(len(run.ends_s) for found in runs.values() for run in found)
    pages = int(_SHARE * fewest)
    return {name: median(run.pages_per_s(pages) for run in found) for name, found in runs.items()}


def _crawl(web: WebOptions, is_ordinary: Callable[[Profile], bool], work: Work) -> Run:
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as name,
        private_redis() as redis,
        DemoServer(web, Path(name, "access.log"), arguments=(f"--latency={_LATENCY_S}",)) as served,
    ):
        folder = Path(name)
        values = {
            **_SETTINGS,
            **work.settings,
            "REDIS_URL": redis.url,
            "CRAWL_DIR": folder,
            "DNS_OVERRIDES": json.dumps(served.overrides),
        }
        arguments = {"scope": "any", "seeds": "http://s0.test/", **work.arguments}
        if work.all_seeds:
            arguments |= {"seeds": str(folder / "seeds"), **hostile.arguments()}
            hosts = served.ready["hostile"]
            seeds = ["http://s0.test/", *chain.from_iterable(hosts["urls"].values())]
            Path(arguments["seeds"]).write_text("\n".join(seeds), encoding="utf-8")
            values["DNS_SERVERS"] = hosts["dns"]
        command = [sys.executable, "-m", "scrapy", "crawl", "web"]
        for flag, given in (("-a", arguments), ("-s", values)):
            command += [word for key, value in given.items() for word in (flag, f"{key}={value}")]
        log = _Log(folder / "access.log", Web(web), is_ordinary)
        with Path(folder, "crawl.log").open("wb") as output:
            process = subprocess.Popen(command, cwd=_ROOT, stdout=output, stderr=output)
            try:
                crawl_mb, worker_mb = _watch(process, log)
            finally:
                process.kill()
                process.wait()
        return Run(sorted(log.ends()), crawl_mb, worker_mb)


@dataclass(frozen=True, slots=True)
class _Log:
    """Log of the web, of which only ordinary pages are looked at."""

    path: Path
    web: Web
    is_ordinary: Callable[[Profile], bool]

    def ends(self) -> Iterator[float]:
        """Yield when each page was sent."""
        if not self.path.exists():
            return
        for entry in read_log(self.path):
            if _is_page(entry) and self.is_ordinary(self.web.profile(_number_of(entry.host))):
                yield entry.end_s


def _is_page(entry: Entry) -> bool:
    if entry.status != 200 or entry.target.endswith("/robots.txt"):
        return False
    return not entry.target.startswith(_PARTS)


def _number_of(host: str) -> int:
    return int(host.removeprefix("s").removesuffix(".test"))


def _watch(process: subprocess.Popen[bytes], log: _Log) -> tuple[float, float]:
    """Wait until no more pages come; return the peaks of the crawl and of its workers."""
    crawl_mb = worker_mb = 0.0
    until_s, looked_s, pages = time.monotonic() + _TIMEOUT_S, 0.0, -1
    while process.poll() is None:
        if time.monotonic() > until_s:
            raise CrawlerError(f"The crawl takes more than {_TIMEOUT_S:.0f} s.")
        crawl_mb = max(crawl_mb, _peak_mb(process.pid))
        for pid in _children(process.pid):
            worker_mb = max(worker_mb, _peak_mb(pid))
        if time.monotonic() - looked_s > _LOOK_S:
            looked_s, before = time.monotonic(), pages
            pages = sum(1 for _ in log.ends())
            if pages == before and pages > 0:
                # Only what is beside them is left: the crawl would wait for it.
                process.kill()
                process.wait()
        time.sleep(_POLL_S)
    return crawl_mb, worker_mb


def _children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            yield from map(int, task.read_text(encoding="ascii").split())
        except OSError:
            continue


def _peak_mb(pid: int) -> float:
    try:
        return memory_mb(pid)
    except (OSError, CrawlerError):
        # It has just ended.
        return 0.0
