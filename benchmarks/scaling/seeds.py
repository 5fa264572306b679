"""How does a crawl with a million seeds begin?

Each seed is the home page of a host of its own, in a file. The crawl is to fetch while seeds are
still added, its event loop may not wait for them, and its memory not grow with them. A crawl with
one seed shows what the start of a process takes.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.crawl_process import crawl_processes, memory_mb, shard_tags
from benchmarks.figures import Figure, Skipped, at_most
from benchmarks.scaling.lag import LAG_FILE, lags_ms, percentile
from benchmarks.scaling.web import WebSize, late_web, url_of
from benchmarks.servers import PrivateRedis, private_redis
from crawler.errors import CrawlerError
from crawler.frontier import keys

_LATENCY_S = 0.3
_TIMEOUT_S = 300.0
_LOOK_S = 0.1
_AFTER_S = 5.0
# A fingerprint is shortened in Redis, so that one URL in millions is taken for another.
_ALL = 0.9999


@dataclass(frozen=True, slots=True)
class Start:
    """The start of one crawl: seconds since its process was started, and what it cost."""

    first_fetch_s: float
    all_added_s: float
    # Pages that were fetched before all seeds were added.
    pages: int
    peak_mb: float
    # Lags of the event loop from the first fetch until all seeds were added, and afterwards.
    lags_ms: list[float]
    lags_after_ms: list[float]


def measure(quick: bool) -> Iterator[Figure | Skipped]:
    """Times, memory and lag of the start."""
    if not Path("/proc/self/status").exists():
        yield Skipped("scaling.seeds", "this system does not tell the memory of a process")
        return
    seeds = 100_000 if quick else 1_000_000
    yield from figures(_start(1), _start(seeds), seeds)


def figures(one: Start, many: Start, seeds: int) -> Iterator[Figure | Skipped]:
    """What the starts with one seed and with many say."""
    yield Figure("scaling.seeds.number", seeds, "seeds")
    yield Figure("scaling.seeds.first_fetch_s", many.first_fetch_s, "s")
    yield Figure("scaling.seeds.first_fetch_of_one_s", one.first_fetch_s, "s")
    later_s = many.first_fetch_s - one.first_fetch_s
    yield Figure("scaling.seeds.first_fetch_later_s", later_s, "s", target=at_most(2))
    yield Figure("scaling.seeds.all_added_s", many.all_added_s, "s")
    yield Figure("scaling.seeds.peak_mb", many.peak_mb, "MB")
    grown_mb = many.peak_mb - one.peak_mb
    yield Figure("scaling.seeds.peak_mb_more", grown_mb, "MB", target=at_most(100))
    if not many.lags_ms:
        yield Skipped("scaling.seeds.lag_p99_ms", "all seeds were added before the first fetch")
        return
    added_s = many.all_added_s - many.first_fetch_s
    yield Figure("scaling.seeds.added_per_s", seeds / added_s, "1/s")
    yield Figure("scaling.seeds.pages_meanwhile", many.pages / added_s, "pages/s")
    yield Figure(
        "scaling.seeds.lag_p99_ms", percentile(many.lags_ms, 0.99), "ms", target=at_most(50)
    )
    yield Figure("scaling.seeds.lag_max_ms", many.lags_ms[-1], "ms")
    # How far to trust the two: the lag of the same crawl without seeds to add.
    yield Figure("scaling.seeds.lag_p99_after_ms", percentile(many.lags_after_ms, 0.99), "ms")
    yield Figure("scaling.seeds.lag_max_after_ms", many.lags_after_ms[-1], "ms")


def _start(seeds: int) -> Start:
    """Start a crawl with so many seeds, and stop it when all are added."""
    with (
        late_web(WebSize(seeds, latency_s=_LATENCY_S)) as web,
        private_redis() as server,
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
    ):
        file, lag_file = Path(folder, "seeds.txt"), Path(folder, "lag.json")
        file.write_text("".join(f"{url_of(number, 0)}\n" for number in range(seeds)))
        started_s = time.monotonic()
        with crawl_processes(
            server,
            arguments={"seeds": str(file)},
            settings={**web.settings, "CRAWL_IDLE": "wait"},
            environment={
                "SCRAPY_SETTINGS_MODULE": "benchmarks.scaling.metered_settings",
                LAG_FILE: str(lag_file),
            },
        ) as (process,):
            _wait_until_added(server, seeds)
            added_s = time.monotonic()
            totals = web.totals()
            while totals.first_s is None:
                time.sleep(_LOOK_S)
                totals = web.totals()
            peak_mb = memory_mb(process.pid)
            time.sleep(_AFTER_S)
        return Start(
            totals.first_s - started_s,
            added_s - started_s,
            totals.pages,
            peak_mb,
            lags_ms(lag_file, totals.first_s, added_s),
            lags_ms(lag_file, added_s, added_s + _AFTER_S),
        )


def _wait_until_added(server: PrivateRedis, seeds: int) -> None:
    deadline_s = time.monotonic() + _TIMEOUT_S
    while (added := _added(server)) < seeds * _ALL:
        if time.monotonic() > deadline_s:
            raise CrawlerError(f"Only {added} of {seeds} seeds were added in {_TIMEOUT_S:.0f} s.")
        time.sleep(_LOOK_S)


def _added(server: PrivateRedis) -> int:
    found = (server.client.hget(keys.stats(tag), "added") for tag in shard_tags(server))
    return sum(int(each or 0) for each in found)
