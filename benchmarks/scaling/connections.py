"""Can one process have 5,000 fetches under way, and does a page cost more then?

The web takes so long for an answer that all fetches wait at the same time. A crawl with a
twentieth of them, on a web that is that much faster, has as many pages a second: what one page
costs more in the large one is work that grows with the number of fetches.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.crawl_process import cpu_s, crawl_processes, memory_mb, shard_tags
from benchmarks.figures import Figure, Skipped, at_least, at_most
from benchmarks.scaling.lag import LAG_FILE, NO_ROBOTS, lags_ms, percentile
from benchmarks.scaling.web import Web, WebSize, late_web, url_of
from benchmarks.servers import PrivateRedis, private_redis
from crawler.errors import CrawlerError
from crawler.frontier import keys
from crawler.util import file_limit

_LESS = 20
# No connection is kept for later: in both crawls each page has a new one.
_KEPT = 0
# Share of the fetches that must be under way before they are measured.
_NEARLY = 0.98
_PAGES_A_HOST = 20
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of a crawl in which as many fetches as may be were under way."""

    # The fewest that were at any moment of it.
    at_once: int
    pages: int
    seconds: float
    cpu_s: float
    memory_mb: float
    lags_ms: list[float]
    # URLs that were not fetched at the first attempt.
    failed: int

    @property
    def cpu_ms(self) -> float:
        """Milliseconds of CPU time a page."""
        return self.cpu_s / self.pages * 1000


def measure(quick: bool) -> Iterator[Figure | Skipped]:
    """Fetches at once, memory, lag, errors, and CPU time a page beside a smaller crawl."""
    at_once, latency_s, seconds = (2000, 8.0, 8.0) if quick else (5000, 20.0, 25.0)
    needed = file_limit.Connections(at_once, _KEPT).files
    if not Path("/proc/self/status").exists():
        yield Skipped("scaling.connections", "this system does not tell the memory of a process")
        return
    if (most := file_limit.limits()[1]) < needed:
        yield Skipped(
            "scaling.connections", f"only {most} files may be open, and {needed} are needed"
        )
        return
    small = _crawl(at_once // _LESS, latency_s / _LESS, seconds)
    large = _crawl(at_once, latency_s, seconds)
    yield from figures(small, large, at_once)


def figures(small: Stretch, large: Stretch, at_once: int) -> Iterator[Figure]:
    """What the two crawls say."""
    name = "scaling.connections"
    yield Figure(f"{name}.at_once", large.at_once, "fetches", target=at_least(_NEARLY * at_once))
    yield Figure(f"{name}.pages_per_s", large.pages / large.seconds, "pages/s")
    fewer = at_once // _LESS
    peer = f"{fewer} fetches"
    ratio = large.cpu_ms / small.cpu_ms
    yield Figure(
        *(f"{name}.cpu_ms_per_page", large.cpu_ms, "ms", peer, ratio), ratio_target=at_most(1.25)
    )
    yield Figure(
        f"{name}.memory_mb", large.memory_mb, "MB", peer, large.memory_mb / small.memory_mb
    )
    kb = (large.memory_mb - small.memory_mb) * 1024 / (at_once - fewer)
    yield Figure(f"{name}.memory_kb_per_fetch", kb, "KB")
    for part, share in (("lag_p50_ms", 0.5), ("lag_p99_ms", 0.99), ("lag_max_ms", 1.0)):
        target = at_most(50) if part == "lag_p99_ms" else None
        yield Figure(f"{name}.{part}", percentile(large.lags_ms, share), "ms", target=target)
    yield Figure(f"{name}.failed", large.failed, "", target=at_most(0))


def _crawl(at_once: int, latency_s: float, seconds: float) -> Stretch:
    """Crawl with so many fetches at once, and measure it from when they are reached."""
    size = WebSize(hosts=2 * at_once, pages=_PAGES_A_HOST, latency_s=latency_s, links=4)
    with (
        late_web(size) as web,
        private_redis() as server,
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
    ):
        seeds, lag_file = Path(folder, "seeds.txt"), Path(folder, "lag.json")
        seeds.write_text("".join(f"{url_of(host, 0)}\n" for host in range(size.hosts)))
        settings = {
            **web.settings,
            "CONCURRENT_REQUESTS": str(at_once),
            "DOWNLOAD_KEEPALIVE_HOSTS": str(_KEPT),
            "DOWNLOAD_TIMEOUT": "60",
            "DELAY_MIN": "0",
            "DELAY_FACTOR": "0",
        }
        environment = {
            "SCRAPY_SETTINGS_MODULE": "benchmarks.scaling.metered_settings",
            LAG_FILE: str(lag_file),
            # A crawl has one robots.txt for many pages, but here all hosts are new.
            NO_ROBOTS: "yes",
        }
        deadline_s = time.monotonic() + 60 + 3 * latency_s
        with crawl_processes(
            server, arguments={"seeds": str(seeds)}, settings=settings, environment=environment
        ) as (process,):
            # When as many have ended, they begin and end at different times.
            while (now := web.totals()).waiting < _NEARLY * at_once or now.answered < at_once:
                if time.monotonic() > deadline_s:
                    raise CrawlerError(f"There were never more than {now.waiting_most} fetches.")
                time.sleep(0.1)
            before, cpu_before_s = web.totals(), cpu_s(process)
            fewest = _fewest_waiting(web, seconds)
            after, used_s = web.totals(), cpu_s(process) - cpu_before_s
            taken_mb = memory_mb(process.pid, peak=False)
            failed = _failed(server)
        return Stretch(
            fewest,
            after.answered - before.answered,
            after.at_s - before.at_s,
            used_s,
            taken_mb,
            lags_ms(lag_file, before.at_s, after.at_s),
            failed,
        )


def _fewest_waiting(web: Web, seconds: float) -> int:
    """Look for so long, and return the fewest requests that waited for their answer."""
    until_s = time.monotonic() + seconds
    fewest = web.totals().waiting
    while time.monotonic() < until_s:
        time.sleep(_LOOK_S)
        fewest = min(fewest, web.totals().waiting)
    return fewest


def _failed(server: PrivateRedis) -> int:
    """How many fetches were repeated later, or given up."""
    found = (server.client.hmget(keys.stats(tag), "retried", "dead") for tag in shard_tags(server))
    return sum(int(each or 0) for values in found for each in values)
