"""Does a crawl keep its speed, its memory and its files for ten minutes, and what does it use?

One process with the settings of a crawl, but no delays, crawls the ground `usual` of the crawl
benchmark into Redis and MongoDB. It is watched from outside, window by window. A page counts when
it is in MongoDB. The crawler has one core, the servers and the web have the others.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

import psutil

from benchmarks.command import run
from benchmarks.cores import Cores, running_on
from benchmarks.crawl.grounds import USUAL
from benchmarks.crawl.pages import Size, url_of
from benchmarks.crawl.rig import web
from benchmarks.crawl_process import crawl_processes
from benchmarks.figures import Figure, Target, at_most
from benchmarks.servers import PrivateMongo, PrivateRedis, private_mongo, private_redis
from crawler.errors import CrawlerError
from crawler.frontier import keys

_WINDOW_S, _WINDOWS = 30.0, 20
_QUICK_WINDOW_S, _QUICK_WINDOWS = 5.0, 6
# One seed for each host; ten minutes of a fast machine are half of the pages.
_SIZE = Size(seeds=2_000, hosts=2_000)
DATABASE = "sustained"
_FIRST_PAGE_S = 60.0
_FREE_GB = 20
# Of a busy crawl; few pages at a time cost Redis more, see benchmarks/scaling/workers.py.
_REDIS_MS_MOST = 0.3


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has used up to now, and what it has."""

    cpu_s: float
    memory_mb: float
    files: int
    written_bytes: int
    received_bytes: int
    # None if it is not counted.
    sent_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """What a crawl has done up to a moment."""

    at_s: float
    pages: int
    crawler: Usage
    redis: Usage
    mongo: Usage


class Watch:
    """Looks at a crawl and its servers."""

    def __init__(self, pid: int, redis: PrivateRedis, mongo: PrivateMongo) -> None:
        self._redis = redis.client
        self._mongo = mongo
        self.pid = pid
        self._crawler_process = psutil.Process(pid)
        self._redis_process = psutil.Process(redis.client.info("server")["process_id"])

    def sample(self) -> Sample:
        """Look at all of them."""
        moved = self._redis.info("stats")
        network = self._mongo.client.admin.command("serverStatus")["network"]
        return Sample(
            at_s=time.monotonic(),
            pages=self.pages(),
            crawler=_usage(self._crawler_process, self._web_bytes()),
            redis=_usage(
                self._redis_process,
                moved["total_net_input_bytes"],
                moved["total_net_output_bytes"],
            ),
            mongo=_usage(self._mongo.process, network["bytesIn"], network["bytesOut"]),
        )

    def pages(self) -> int:
        """Pages in MongoDB."""
        return self._mongo.client[DATABASE]["pages_metadata"].estimated_document_count()

    def _web_bytes(self) -> int:
        """What the crawler says it has received from the web, a few seconds ago at most."""
        return int(self._redis.hget(keys.totals("web"), "bytes") or 0)


def _usage(process: psutil.Process, received_bytes: int, sent_bytes: int | None = None) -> Usage:
    cpu = process.cpu_times()
    return Usage(
        cpu_s=cpu.user + cpu.system,
        memory_mb=process.memory_info().rss / 2**20,
        files=process.num_fds(),
        written_bytes=process.io_counters().write_bytes,
        received_bytes=received_bytes,
        sent_bytes=sent_bytes,
    )


def measure(quick: bool) -> Iterator[Figure]:
    """Watch one crawl."""
    window_s, windows = (_QUICK_WINDOW_S, _QUICK_WINDOWS) if quick else (_WINDOW_S, _WINDOWS)
    if not quick:
        require_free_disk(_FREE_GB)
    yield from figures(_samples(window_s, windows), window_s)


def require_free_disk(needed_gb: float) -> None:
    """Raise CrawlerError if the pages of a crawl may not fit where the servers have their data."""
    folder = tempfile.gettempdir()
    free_gb = shutil.disk_usage(folder).free / 1e9
    if free_gb < needed_gb:
        raise CrawlerError(
            f"{folder} has {free_gb:.0f} GB free, and the pages may take {needed_gb:.0f}: "
            "set TMPDIR to a folder with more room, or measure with --quick."
        )


def _samples(window_s: float, windows: int) -> list[Sample]:
    """Crawl, and look at each end of a window."""
    with watched_crawl(_SIZE) as watch:
        samples = [watch.sample()]
        for number in range(windows):
            time.sleep(max(0.0, samples[0].at_s + (number + 1) * window_s - time.monotonic()))
            samples.append(watch.sample())
            print(_line(samples), file=sys.stderr, flush=True)
    return samples


@contextmanager
def watched_crawl(size: Size) -> Iterator[Watch]:
    """Crawl a web of this size inside the block, which begins with the first page."""
    cores = Cores.found()
    with ExitStack() as stack:
        redis, mongo, port = stack.enter_context(servers_and_web(size, cores.servers))
        stack.enter_context(running_on(cores.client))
        (process,) = stack.enter_context(crawl_of(size, redis, mongo, port))
        watch = Watch(process.pid, redis, mongo)
        _wait_for_pages(watch)
        yield watch


@contextmanager
def servers_and_web(
    size: Size, cores: str | None
) -> Iterator[tuple[PrivateRedis, PrivateMongo, int]]:
    """Serve a web of this size, and what a crawl of it needs, inside the block."""
    with ExitStack() as stack:
        port, _ = stack.enter_context(web(USUAL, size, cores))
        with running_on(cores):
            redis = stack.enter_context(private_redis())
            mongo = stack.enter_context(private_mongo())
        yield redis, mongo, port


@contextmanager
def crawl_of(
    size: Size,
    redis: PrivateRedis,
    mongo: PrivateMongo,
    port: int,
    *,
    count: int = 1,
    arguments: Mapping[str, str] = MappingProxyType({}),
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Crawl this web inside the block with so many processes."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        seeds = Path(folder, "seeds.txt")
        urls = (url_of(number, size, port) for number in range(size.seeds))
        seeds.write_text("\n".join(urls), encoding="utf-8")
        ours = {
            "DNS_OVERRIDES": json.dumps({".test": "127.0.0.1"}),
            "ALLOW_NETWORKS": "127.0.0.0/8",
            "DELAY_MIN": "0",
            "DELAY_FACTOR": "0",
            "SINKS": "mongo",
            "MONGO_URI": mongo.url,
            "MONGO_DATABASE": DATABASE,
            **settings,
        }
        given = {"seeds": str(seeds), "scope": "any", **arguments}
        with crawl_processes(redis, count, arguments=given, settings=ours) as processes:
            yield processes


def _wait_for_pages(watch: Watch) -> None:
    deadline_s = time.monotonic() + _FIRST_PAGE_S
    while not watch.pages():
        if time.monotonic() > deadline_s:
            raise CrawlerError(f"The crawl stored no page in {_FIRST_PAGE_S:.0f} s.")
        time.sleep(0.1)


def _line(samples: list[Sample]) -> str:
    before, now = samples[-2:]
    rate = (now.pages - before.pages) / (now.at_s - before.at_s)
    return (
        f"window {len(samples) - 1}: {rate:.0f} pages/s, {now.crawler.memory_mb:.0f} MB, "
        f"{now.crawler.files} files"
    )


def figures(samples: list[Sample], window_s: float) -> Iterator[Figure]:
    """Make figures of the windows, and of all of them together."""
    yield Figure("sustained.window_s", window_s, "s")
    for number, (before, now) in enumerate(pairwise(samples), start=1):
        name, took_s = f"sustained.window_{number}", now.at_s - before.at_s
        yield Figure(f"{name}.pages_per_s", (now.pages - before.pages) / took_s, "pages/s")
        yield Figure(f"{name}.memory_mb", now.crawler.memory_mb, "MB")
        yield Figure(f"{name}.files", now.crawler.files, "")
        for key, earlier, later in (
            ("cpu", before.crawler, now.crawler),
            ("redis_cpu", before.redis, now.redis),
            ("mongo_cpu", before.mongo, now.mongo),
        ):
            yield Figure(f"{name}.{key}", (later.cpu_s - earlier.cpu_s) / took_s, "of a core")
    first, last = samples[0], samples[-1]
    pages, seconds = last.pages - first.pages, last.at_s - first.at_s
    yield Figure("sustained.seconds", seconds, "s")
    yield Figure("sustained.pages", pages, "pages")
    yield Figure("sustained.pages_per_s", pages / seconds, "pages/s")
    yield from _growth(samples)
    for key, before_all, after_all in (
        ("crawler", first.crawler, last.crawler),
        ("redis", first.redis, last.redis),
        ("mongo", first.mongo, last.mongo),
    ):
        target = at_most(_REDIS_MS_MOST) if key == "redis" else None
        yield from _a_page(f"sustained.{key}", before_all, after_all, pages, target)


def _growth(samples: list[Sample]) -> Iterator[Figure]:
    """Compare the last third of the windows with the first: what grows would never end."""
    third = (len(samples) - 1) // 3
    if not third:
        return
    early, late = samples[: third + 1], samples[-third - 1 :]
    cpu = _cpu_ms(late) / _cpu_ms(early)
    yield Figure("sustained.cpu_growth", cpu, "×", target=at_most(1.1))
    # The caches fill in the first third.
    grown_mb = late[-1].crawler.memory_mb - early[-1].crawler.memory_mb
    yield Figure("sustained.memory_growth_mb", grown_mb, "MB", target=at_most(15))
    most_early, most_late = (
        max(sample.crawler.files for sample in part[1:]) for part in (early, late)
    )
    # They come and go with the fetches, of which there are 64.
    yield Figure("sustained.files_growth", most_late - most_early, "", target=at_most(64))


def _cpu_ms(samples: Sequence[Sample]) -> float:
    """CPU time of the crawler a page, from the first sample to the last."""
    first, last = samples[0], samples[-1]
    return (last.crawler.cpu_s - first.crawler.cpu_s) / (last.pages - first.pages) * 1000


def _a_page(
    name: str, before: Usage, after: Usage, pages: int, target: Target | None
) -> Iterator[Figure]:
    cpu_ms = (after.cpu_s - before.cpu_s) / pages * 1000
    yield Figure(f"{name}.cpu_ms_per_page", cpu_ms, "ms", target=target)
    yield Figure(f"{name}.memory_mb", after.memory_mb, "MB")
    for what in ("received", "sent", "written"):
        until, since = (getattr(usage, f"{what}_bytes") for usage in (after, before))
        if until is not None:
            yield Figure(f"{name}.{what}_kb_per_page", (until - since) / pages / 1000, "KB")


if __name__ == "__main__":
    sys.exit(run("benchmarks.measurements.sustained", __doc__, {"sustained": measure}))
