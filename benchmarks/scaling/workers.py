"""How much faster do more crawl processes crawl, and what does a page cost Redis then?

On a web that answers late, so that processes wait for it and not for the machine's cores: each
fetches few pages at a time. Processes join a crawl that is under way, and each stage is measured
when the new ones crawl, by the web's own account.

Redis' time a page has no target here. A process that fetches 8 pages a second claims and settles
nearly each of them alone, with a call for each step. A busy process does it for many at once: what
a page costs then is `sustained.redis.cpu_ms_per_page`.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.crawl_process import cpu_s, crawl_processes
from benchmarks.figures import Figure, Skipped, at_least, at_most
from benchmarks.scaling.web import Totals, Web, WebSize, late_web, url_of
from benchmarks.servers import PrivateRedis, private_redis
from crawler.errors import CrawlerError

# Of the design's report, and powers of two.
_STAGES = (1, 2, 3, 4, 5, 7, 8, 10, 15, 16, 20)
_QUICK_STAGES = (1, 2, 4, 8)
_WEB = WebSize(hosts=2000, pages=60, latency_s=1.0, links=10)
_DELAY_S = 0.5
# Fetches of a process at a time: with the latency, 8 pages a second.
_AT_ONCE = 8
# Pages of a stage, at least: else few workers are measured by too few of them.
_PAGES, _QUICK_PAGES = 300, 50
# Those of the process that contacts every host once before.
_AT_ONCE_BEFORE = 300
_BEFORE_S = 120.0


@dataclass(frozen=True, slots=True)
class Stage:
    """A stretch of the crawl with so many processes."""

    workers: int
    pages: int
    seconds: float
    # CPU time of all processes, and of Redis.
    cpu_s: float
    redis_s: float
    # Scripts that were run on Redis.
    redis_calls: int

    @property
    def pages_per_s(self) -> float:
        return self.pages / self.seconds


def measure(quick: bool) -> Iterator[Figure | Skipped]:
    """Pages a second, and Redis' CPU time a page."""
    if not Path("/proc/self/stat").exists():
        yield Skipped("scaling.workers", "this system does not tell the CPU time of a process")
        return
    counts, settle_s, seconds, pages = (
        (_QUICK_STAGES, 3.0, 6.0, _QUICK_PAGES) if quick else (_STAGES, 4.0, 12.0, _PAGES)
    )
    with ExitStack() as stack:
        web = stack.enter_context(late_web(_WEB, delay_s=_DELAY_S))
        server = stack.enter_context(private_redis())
        seeds = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")), "seeds")
        seeds.write_text("".join(f"{url_of(host, 0)}\n" for host in range(_WEB.hosts)))
        _contact_all(web, server, seeds)
        stretches = {workers: stretch_s(workers, seconds, pages) for workers in counts}
        stages = list(_stages(web, server, stretches, settle_s))
        totals = web.totals()
    yield from figures(stages, totals)


def stretch_s(workers: int, least_s: float, pages: int) -> float:
    """Return how long a stage is measured: so many pages at full speed, and so many seconds."""
    return max(least_s, pages / (workers * _AT_ONCE / _WEB.latency_s))


def figures(stages: list[Stage], totals: Totals) -> Iterator[Figure]:
    """What the stages say, each beside the first."""
    yield Figure("scaling.workers.hosts", _WEB.hosts, "")
    yield Figure("scaling.workers.latency_s", _WEB.latency_s, "s")
    yield Figure("scaling.workers.delay_s", _DELAY_S, "s")
    yield Figure("scaling.workers.at_once", _AT_ONCE, "fetches")
    for stage in stages:
        name = f"scaling.workers_{stage.workers}"
        yield Figure(f"{name}.pages_per_s", stage.pages_per_s, "pages/s")
        speedup = stage.pages_per_s / stages[0].pages_per_s
        yield Figure(f"{name}.speedup", speedup, "×", target=at_least(0.9 * stage.workers))
        yield Figure(f"{name}.redis_ms_per_page", stage.redis_s / stage.pages * 1000, "ms")
        yield Figure(f"{name}.redis_calls_per_page", stage.redis_calls / stage.pages, "")
        yield Figure(f"{name}.cpu_ms_per_page", stage.cpu_s / stage.pages * 1000, "ms")
    yield Figure("scaling.workers.violations", totals.early, "", target=at_most(0))
    yield Figure("scaling.workers.repeated_pages", totals.repeated, "", target=at_most(0))


def _contact_all(web: Web, server: PrivateRedis, seeds: Path) -> None:
    """Let one process read the robots.txt and a page of every host.

    The start of a crawl is another question: benchmarks/scaling/seeds.py.
    """
    settings = _settings(web, _AT_ONCE_BEFORE)
    deadline_s = time.monotonic() + _BEFORE_S
    with crawl_processes(server, arguments={"seeds": str(seeds)}, settings=settings):
        while (hosts := web.totals().hosts) < _WEB.hosts:
            if time.monotonic() > deadline_s:
                raise CrawlerError(f"Only {hosts} hosts were contacted in {_BEFORE_S:.0f} s.")
            time.sleep(0.2)


def _stages(
    web: Web, server: PrivateRedis, stretches: Mapping[int, float], settle_s: float
) -> Iterator[Stage]:
    """Measure with each number of workers, for so many seconds."""
    running: list[subprocess.Popen[bytes]] = []
    with ExitStack() as stack:
        for workers, seconds in stretches.items():
            more = workers - len(running)
            joined = crawl_processes(server, more, settings=_settings(web, _AT_ONCE))
            running += stack.enter_context(joined)
            time.sleep(settle_s)
            before, cpu_before_s = web.totals(), sum(map(cpu_s, running))
            redis_before_s, calls_before = server.cpu_s(), _calls(server)
            time.sleep(seconds)
            redis_s, after = server.cpu_s() - redis_before_s, web.totals()
            yield Stage(
                workers,
                after.answered - before.answered,
                after.at_s - before.at_s,
                sum(map(cpu_s, running)) - cpu_before_s,
                redis_s,
                _calls(server) - calls_before,
            )


def _calls(server: PrivateRedis) -> int:
    """Scripts that a server has run; a crawl loads them first, and runs them by their hash."""
    return int(server.client.info("commandstats")["cmdstat_evalsha"]["calls"])


def _settings(web: Web, at_once: int) -> dict[str, str]:
    return {
        **web.settings,
        "CONCURRENT_REQUESTS": str(at_once),
        "DELAY_MIN": str(_DELAY_S),
        "DELAY_FACTOR": "0",
        "CRAWL_IDLE": "wait",
    }
