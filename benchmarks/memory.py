"""How much memory does one process of a crawl take, and does it grow with the pages?

With the settings of a crawl, everything on, but no delays: 64 fetches at a time on the ground
`usual` of the crawl benchmark, with a host for every 50 pages. The memory is what the system counts
for the process (RSS). `--pages N` crawls N pages; what is said to stay flat takes 500,000, and half
an hour.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks import command
from benchmarks.crawl.pages import Size
from benchmarks.figures import Figure, at_most
from benchmarks.measurements.sustained import Sample, Watch, watched_crawl
from crawler.errors import CrawlerError

_PAGES, _QUICK_PAGES = 30_000, 6_000
_WINDOWS = 20
# From here on it is to be flat: the caches that fill at once are full.
_WARM = 20_000
_PAGES_A_HOST = 50
_SEEDS = 200
# Seconds without a page after which the crawl is taken for stuck.
_STUCK_S = 120.0
_POLL_S = 0.2


def measure(quick: bool, pages: int | None = None) -> Iterator[Figure]:
    """Watch one crawl."""
    wanted = pages or (_QUICK_PAGES if quick else _PAGES)
    yield from figures(*_samples(wanted))


def _samples(pages: int) -> tuple[list[Sample], float]:
    """Crawl so many pages; return what was seen at each end of a window, and the peak."""
    size = Size(seeds=_SEEDS, hosts=max(2 * _SEEDS, pages // _PAGES_A_HOST))
    with watched_crawl(size) as watch:
        samples: list[Sample] = []
        for number in range(1, _WINDOWS + 1):
            _wait_for(watch, pages * number // _WINDOWS)
            samples.append(watch.sample())
            print(_line(samples), file=sys.stderr, flush=True)
        return samples, peak_mb(watch.pid, samples)


def _wait_for(watch: Watch, pages: int) -> None:
    """Return when so many pages are stored."""
    before, moved_s = 0, time.monotonic()
    while (now := watch.pages()) < pages:
        if now > before:
            before, moved_s = now, time.monotonic()
        elif time.monotonic() > moved_s + _STUCK_S:
            raise CrawlerError(f"The crawl stored no page for {_STUCK_S:.0f} s, after {now:,}.")
        time.sleep(_POLL_S)


def _line(samples: list[Sample]) -> str:
    now = samples[-1]
    text = f"{now.pages:,} pages: {now.crawler.memory_mb:.0f} MB, {now.crawler.files} files"
    if len(samples) < 2:
        return text
    before = samples[-2]
    pages = now.pages - before.pages
    cpu_ms = (now.crawler.cpu_s - before.crawler.cpu_s) / pages * 1000
    return f"{text}, {pages / (now.at_s - before.at_s):.0f} pages/s, {cpu_ms:.2f} ms of CPU a page"


def peak_mb(pid: int, samples: Sequence[Sample]) -> float:
    """Return the most memory that a process ever had, as far as the system tells."""
    seen = max(sample.crawler.memory_mb for sample in samples)
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return seen
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) / 1024


def figures(samples: Sequence[Sample], peak: float) -> Iterator[Figure]:
    """Make figures of what was seen."""
    for number, sample in enumerate(samples, start=1):
        yield Figure(f"memory.window_{number}.pages", sample.pages, "pages")
        yield Figure(f"memory.window_{number}.mb", sample.crawler.memory_mb, "MB")
    last = samples[-1]
    yield Figure("memory.pages", last.pages, "pages")
    yield Figure("memory.peak_mb", peak, "MB", target=at_most(250))
    warm = [sample for sample in samples if sample.pages >= _WARM]
    if warm:
        warm_mb = warm[0].crawler.memory_mb
        yield Figure("memory.at_20k_mb", warm_mb, "MB")
        yield Figure("memory.growth_mb", last.crawler.memory_mb - warm_mb, "MB", target=at_most(15))
    yield Figure("memory.files", last.crawler.files, "")


def main(argv: Sequence[str] | None = None) -> int:
    """Read the number of pages, and measure."""
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument("--pages", type=int)
    given, rest = own.parse_known_args(argv)
    parts = {"memory": partial(measure, pages=given.pages)}
    return command.run("benchmarks.memory", __doc__, parts, rest)


if __name__ == "__main__":
    sys.exit(main())
