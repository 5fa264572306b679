"""Do two processes that share a frontier use every moment a host allows, and no other?

Judged by the synthetic web's access log.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

from benchmarks.crawl_process import crawl_processes
from benchmarks.figures import Figure, Skipped, at_least, at_most
from benchmarks.servers import private_redis
from crawler.errors import CrawlerError
from demo.access_log import Entry, now_s, read_log
from demo.judge import judge_entries
from demo.process import DemoServer
from demo.truth import truth
from demo.web import WebOptions

_PROCESSES = 2
_DELAY_S = 1.0
# The crawl is cut off, so that pages are missing from it.
_CUT_OFF = {"missing"}


@dataclass(frozen=True, slots=True)
class Stretch:
    """The part of a crawl that is measured, in the access log's time."""

    start_s: float
    end_s: float

    def __contains__(self, entry: Entry) -> bool:
        return self.start_s <= entry.start_s < self.end_s


def measure(quick: bool) -> Iterator[Figure | Skipped]:
    """Latency, utilisation and violations."""
    hosts, settle_s, seconds = (60, 4.0, 6.0) if quick else (200, 10.0, 30.0)
    # Every host has at least half of the average, one page a second.
    pages = round(2.5 * (settle_s + seconds))
    options = WebOptions(hosts=hosts, pages=pages, zoo="none")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        log = Path(folder, "access.tsv")
        seeds = Path(folder, "seeds.txt")
        seeds.write_text("".join(f"http://s{number}.test/\n" for number in range(hosts)))
        with DemoServer(options, log) as web, private_redis() as server:
            settings = {
                "DNS_OVERRIDES": json.dumps(web.overrides),
                "ALLOW_NETWORKS": "127.0.0.0/8",
                "DELAY_MIN": str(_DELAY_S),
            }
            arguments = {"seeds": str(seeds)}
            with crawl_processes(server, _PROCESSES, arguments=arguments, settings=settings):
                time.sleep(settle_s)
                start_s = now_s()
                time.sleep(seconds)
                stretch = Stretch(start_s, now_s())
        entries = sorted(read_log(log))
    yield Figure("ready.latency_ms", _latency_ms(entries, stretch), "ms", target=at_most(50))
    used = _utilisation(entries, stretch, hosts)
    yield Figure("politeness.utilisation", used, "", target=at_least(0.97))
    verdict = judge_entries(entries, truth(options), min_delay_s=_DELAY_S)
    violations = sum(
        len(found) for rule, found in verdict.violations.items() if rule not in _CUT_OFF
    )
    yield Figure("politeness.violations", violations, "", target=at_most(0))


def _latency_ms(entries: Iterable[Entry], stretch: Stretch) -> float:
    """Median time from the moment a host might be contacted to its contact."""
    last: dict[str, Entry] = {}
    waited = []
    for entry in entries:
        before = last.get(entry.host)
        if before is not None and entry in stretch:
            waited.append(entry.start_s - before.end_s - _DELAY_S)
        last[entry.host] = entry
    if not waited:
        raise CrawlerError("The crawl fetched nothing while it was measured.")
    return median(waited) * 1000


def _utilisation(entries: Iterable[Entry], stretch: Stretch, hosts: int) -> float:
    """Requests over those that so many hosts allow, had each the same fetch time."""
    inside = [entry for entry in entries if entry in stretch]
    fetch_s = mean(entry.end_s - entry.start_s for entry in inside)
    allowed = hosts * (stretch.end_s - stretch.start_s) / (_DELAY_S + fetch_s)
    return len(inside) / allowed
