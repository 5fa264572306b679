"""What does a rendered page cost, beside scrapy-playwright and Crawlee, and what do others pay?

`pages`: sites of applications are opened by all, two pages at a time and without delays, in turns.
What is compared is the CPU time a page, of the crawler and all that it started: workers, drivers
and browsers, after the first fifth of the pages. The peers wait for the last element of a page,
ours until it stays the same. Peers run as they are, with all pages in one profile, and once more
like ours: with a new profile for each page, and without images. Ours does what it does for any
page, and runs once more on pages that have the same content without a browser: what that crawl
takes less of CPU time and memory is what rendering costs.

`beside`: crawls of the synthetic web, whose hosts answer after half a second, with render=never and
render=auto. A third of the hosts need a browser, some of them all of its time or memory. What is
compared is the rate of pages of the hosts that need none (beside.py).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

from benchmarks.beside import Run as BesideRun
from benchmarks.beside import Work, crawls_in_turns, rates
from benchmarks.command import run
from benchmarks.figures import Figure, Skipped, at_least, at_most
from benchmarks.render import usage
from benchmarks.render.crawls import ALL, OURS, PEERS, PLAIN, Run, crawl
from benchmarks.render.site import PAGES_A_HOST
from crawler.rendering.browsers import find_browser
from demo.profile import Profile
from demo.robots_kinds import ALLOW_ALL
from demo.web import WebOptions

_TARGET_KEPT, _TARGET_MB = 0.9, 20.0
_HOSTS_OPENED, _QUICK_HOSTS_OPENED = 30, 5
_HOSTS, _PAGES, _QUICK_PAGES = 128, 60, 30
_ROUNDS, _QUICK_ROUNDS = 3, 2
# What a host may have and be counted; "ready" only looks as if it needed a browser.
_NO_BROWSER = frozenset({"scripts", "ready"})
_WORKS = (
    Work("never", arguments={"render": "never"}),
    Work("auto", arguments={"render": "auto"}),
)


def measure_pages(quick: bool) -> Iterator[Figure | Skipped]:
    """Let all crawl in turns."""
    if advice := _missing():
        yield Skipped("render.pages", advice)
        return
    runs: dict[str, list[Run]] = {each.key: [] for each in ALL}
    pages = PAGES_A_HOST * (_QUICK_HOSTS_OPENED if quick else _HOSTS_OPENED)
    for number in range(_QUICK_ROUNDS if quick else _ROUNDS):
        for each in ALL if number % 2 == 0 else reversed(ALL):
            runs[each.key].append(crawl(each, pages))
            print(f"{each.name}: {runs[each.key][-1]}", file=sys.stderr)
    yield from page_figures(runs)


def page_figures(runs: Mapping[str, Sequence[Run]]) -> Iterator[Figure]:
    """Make figures of the crawls of sites."""

    def cpu_ms(key: str) -> float:
        return median(one.cpu_ms for one in runs[key])

    ours = runs[OURS.key]
    for each in ALL:
        yield Figure(f"render.{each.key}.cpu_ms_per_page", cpu_ms(each.key), "ms", each.name)
    yield Figure("render.pages_per_cpu_s", 1000 / cpu_ms(OURS.key), "pages")
    for peer in PEERS:
        ratio = cpu_ms(peer.key) / cpu_ms(OURS.key)
        yield Figure(f"render.ratio_to_{peer.key}", ratio, "pages per CPU-second", peer.name)
    for role in usage.ROLES:
        value = median(one.cpu_ms_of(role) for one in ours)
        yield Figure(f"render.ours.{role}_ms_per_page", value, "ms")
    rendering_mb, plain_mb = (
        median(one.crawler_mb for one in runs[key]) for key in (OURS.key, PLAIN.key)
    )
    yield Figure("render.crawler_mb", rendering_mb, "MB")
    yield Figure("render.crawler_mb_without", plain_mb, "MB")
    yield Figure(
        "render.crawler_mb_more", rendering_mb - plain_mb, "MB", target=at_most(_TARGET_MB)
    )


def measure_beside(quick: bool) -> Iterator[Figure | Skipped]:
    """Crawl with and without rendering."""
    if advice := _missing():
        yield Skipped("render.plain_kept", advice)
        return
    web = WebOptions(_HOSTS, _QUICK_PAGES if quick else _PAGES, zoo="browser")
    rounds = _QUICK_ROUNDS if quick else _ROUNDS
    yield from beside_figures(crawls_in_turns(web, needs_no_browser, _WORKS, rounds))


def beside_figures(runs: Mapping[str, Sequence[BesideRun]]) -> Iterator[Figure]:
    """Make figures of the crawls of the synthetic web."""
    found = rates(runs)
    kept = found["auto"] / found["never"]
    yield Figure("render.plain_pages_per_s", found["auto"], "pages/s")
    yield Figure("render.plain_kept", kept, "", target=at_least(_TARGET_KEPT))
    for name, crawls in runs.items():
        yield Figure(f"render.beside.{name}_mb", max(one.crawl_mb for one in crawls), "MB")


def needs_no_browser(host: Profile) -> bool:
    """Tell whether the pages of a host are counted: ordinary ones, whatever robots.txt allows."""
    return host.robots == ALLOW_ALL and _NO_BROWSER.issuperset(host.features)


def _missing() -> str:
    if not Path("/proc/self/status").exists():
        return "this system does not tell the CPU time of a process and its children"
    return "" if find_browser(None) else "there is no Chromium on PATH"


PARTS = {"pages": measure_pages, "beside": measure_beside}

if __name__ == "__main__":
    sys.exit(run("benchmarks.render", __doc__, PARTS))
