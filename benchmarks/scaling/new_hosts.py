"""How soon does a crawl know the robots.txt of many new hosts, and have their first pages?

Every answer takes 100 ms. A robots.txt is a contact with its host, so the first page follows after
the delay of a second.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.crawl_process import crawl_processes
from benchmarks.figures import Figure, Skipped, at_most
from benchmarks.servers import private_redis
from crawler.errors import CrawlerError
from demo.access_log import Entry, read_log
from demo.process import DemoServer
from demo.web import WebOptions

_LATENCY_S = 0.1
_DELAY_S = 1.0
_TIMEOUT_S = 120.0
_LOOK_S = 0.1


def measure(quick: bool) -> Iterator[Figure | Skipped]:
    """Seconds from the first contact with any host."""
    yield from _figures(50, target_s=2.0)
    yield from _figures(200 if quick else 1000)


def _figures(hosts: int, *, target_s: float | None = None) -> Iterator[Figure]:
    entries = _crawled(hosts)
    began_s = min(entry.start_s for entry in entries)
    name = f"scaling.new_hosts.{hosts}"
    target = None if target_s is None else at_most(target_s)
    yield Figure(f"{name}.rules_s", _last_s(entries, "/robots.txt") - began_s, "s", target=target)
    yield Figure(f"{name}.first_pages_s", _last_s(entries, "/") - began_s, "s")


def _last_s(entries: list[Entry], target: str) -> float:
    """Return when the last host had answered a request for this."""
    return max(entry.end_s for entry in entries if entry.target == target)


def _crawled(hosts: int) -> list[Entry]:
    """Crawl so many home pages, and return what was asked for."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        log, seeds = Path(folder, "access.log"), Path(folder, "seeds.txt")
        seeds.write_text("".join(f"http://s{number}.test/\n" for number in range(hosts)))
        options = WebOptions(hosts=hosts, pages=1, seed=1, zoo="none")
        with DemoServer(options, log, arguments=(f"--latency={_LATENCY_S}",)) as web:
            settings = {
                "DNS_OVERRIDES": f'{{".test": "{web.address}"}}',
                "ALLOW_NETWORKS": "127.0.0.0/8",
                "DELAY_MIN": str(_DELAY_S),
                "FOLLOW_SITEMAPS": "False",
                "CRAWL_IDLE": "wait",
            }
            arguments = {"seeds": str(seeds), "follow": "no"}
            with (
                private_redis() as server,
                crawl_processes(server, arguments=arguments, settings=settings),
            ):
                deadline_s = time.monotonic() + _TIMEOUT_S
                while sum(entry.target == "/" for entry in read_log(log)) < hosts:
                    if time.monotonic() > deadline_s:
                        raise CrawlerError(f"{hosts} pages took more than {_TIMEOUT_S:.0f} s.")
                    time.sleep(_LOOK_S)
        return list(read_log(log))
