"""How much memory does one process of a crawl take, and does it grow with the pages?

With the settings of a crawl, everything on, but no delays: 64 fetches at a time on the ground
`usual` of the crawl benchmark, with a host for every 50 pages. The memory is what the system counts
for the process (RSS). `--pages N` crawls N pages; what is said to stay flat takes 500,000, and half
an hour.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

from benchmarks import command
from benchmarks.crawl.pages import Size
from benchmarks.crawl_process import memory_mb
from benchmarks.figures import Figure, Skipped, at_most
from benchmarks.measurements.sustained import Sample, Watch, require_free_disk, watched_crawl
from crawler.errors import CrawlerError

_PAGES, _QUICK_PAGES = 100_000, 6_000
_WINDOWS = 20
# From here on it is to be flat: the caches that fill at once are full.
_WARM = 20_000
_PAGES_A_HOST = 50
_SEEDS = 200
# What the servers may write for a page, with room to spare.
_DISK_KB_A_PAGE = 40
# Seconds without a page after which the crawl is taken for stuck.
_STUCK_S = 120.0
_POLL_S = 0.05


def measure(quick: bool, pages: int | None = None) -> Iterator[Figure | Skipped]:
    """Watch one crawl."""
    if not Path("/proc/self/status").exists():
        yield Skipped("memory", "this system does not tell the memory of a process")
        return
    wanted = pages or (_QUICK_PAGES if quick else _PAGES)
    require_free_disk(wanted * _DISK_KB_A_PAGE / 1e6)
    yield from figures(*_samples(wanted))


def window_ends(pages: int) -> list[int]:
    """Return the pages at the ends of the windows. One ends where the memory is to be flat."""
    ends = {pages * number // _WINDOWS for number in range(1, _WINDOWS + 1)}
    if pages > _WARM:
        ends.add(_WARM)
    return sorted(ends)


def _samples(pages: int) -> tuple[list[Sample], float]:
    """Crawl so many pages; return the first sample and one for each window, and the peak."""
    size = Size(seeds=_SEEDS, hosts=max(2 * _SEEDS, pages // _PAGES_A_HOST))
    with watched_crawl(size) as watch:
        samples = [watch.sample()]
        for end in window_ends(pages):
            _wait_for(watch, end)
            samples.append(watch.sample())
            print(_line(*samples[-2:]), file=sys.stderr, flush=True)
        return samples, memory_mb(watch.pid)


def _wait_for(watch: Watch, pages: int) -> None:
    """Return when so many pages are stored."""
    before, moved_s = 0, time.monotonic()
    while (now := watch.pages()) < pages:
        if now > before:
            before, moved_s = now, time.monotonic()
        elif time.monotonic() > moved_s + _STUCK_S:
            raise CrawlerError(f"The crawl stored no page for {_STUCK_S:.0f} s, after {now:,}.")
        time.sleep(_POLL_S)


def _pages_per_s(before: Sample, now: Sample) -> float:
    return (now.pages - before.pages) / (now.at_s - before.at_s)


def _cpu_ms(before: Sample, now: Sample) -> float:
    """CPU time of the crawler a page."""
    return (now.crawler.cpu_s - before.crawler.cpu_s) / (now.pages - before.pages) * 1000


def _line(before: Sample, now: Sample) -> str:
    return (
        f"{now.pages:,} pages: {now.crawler.memory_mb:.0f} MB, {now.crawler.files} files, "
        f"{_pages_per_s(before, now):.0f} pages/s, {_cpu_ms(before, now):.2f} ms of CPU a page"
    )


def figures(samples: Sequence[Sample], peak_mb: float) -> Iterator[Figure]:
    """Make figures of what was seen."""
    for number, (before, now) in enumerate(pairwise(samples), start=1):
        name = f"memory.window_{number}"
        yield Figure(f"{name}.pages", now.pages, "pages")
        yield Figure(f"{name}.mb", now.crawler.memory_mb, "MB")
        yield Figure(f"{name}.files", now.crawler.files, "")
        yield Figure(f"{name}.pages_per_s", _pages_per_s(before, now), "pages/s")
        yield Figure(f"{name}.cpu_ms_per_page", _cpu_ms(before, now), "ms")
    last = samples[-1]
    yield Figure("memory.pages", last.pages, "pages")
    yield Figure("memory.peak_mb", peak_mb, "MB", target=at_most(250))
    warm = [sample for sample in samples if sample.pages >= _WARM]
    if warm:
        warm_mb = warm[0].crawler.memory_mb
        yield Figure("memory.at_20k_mb", warm_mb, "MB")
        yield Figure("memory.growth_mb", last.crawler.memory_mb - warm_mb, "MB", target=at_most(15))
    yield Figure("memory.files", last.crawler.files, "")


def main(argv: Sequence[str] | None = None) -> int:
    """Read the number of pages, and measure."""
    reader = command.parser("benchmarks.memory", __doc__)
    reader.add_argument("--pages", type=int, help=f"how many to crawl, {_PAGES:,} by default")
    given = reader.parse_args(argv)
    if given.pages is not None and given.pages < _WINDOWS:
        reader.error(f"--pages is {given.pages}; set it to {_WINDOWS} or more.")
    return command.measured(reader, given, {"memory": partial(measure, pages=given.pages)})


if __name__ == "__main__":
    sys.exit(main())
