"""The state of sinks over all processes."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from crawler.items import Page
from crawler.monitoring.sinks import AWAY, INACTIVE, OK, SinksState, SpoolState, sinks_state
from crawler.storage import Sink
from crawler.storage.spool import Spool
from crawler.storage.storage import SPOOL_LEFT, BatchLimits, Storage
from tests.support.crawlers import project_crawler


def process(*sinks: dict[str, Any], spooled: int = 0) -> dict[str, Any]:
    return {"sinks": list(sinks), "spooled_pages": spooled, "spooled_bytes": 1000 * spooled}


def sink(name: str, **report: Any) -> dict[str, Any]:
    return {"name": name, "state": OK, "waiting": 0, "lag_s": 0.0, **report}


def test_processes_are_added_up_and_the_worst_counts() -> None:
    totals = {"sink/pages/b": 12, "sink/bytes/b": 3400, "sink/failed_writes/b": 5}
    found = sinks_state(
        [
            process(sink("b", pages_per_s=1.5, bytes_per_s=10.0, waiting=3, lag_s=2.5), sink("a")),
            process(sink("b", pages_per_s=0.5, state=AWAY, waiting=4, lag_s=1.0), spooled=7),
            process(spooled=1),
        ],
        totals,
    )
    # In the order of SINKS.
    first, second = found.sinks
    assert (first.name, first.state, first.pages, first.bytes) == ("b", AWAY, 12, 3400)
    assert (first.pages_per_s, first.bytes_per_s) == (2.0, 10.0)
    assert (first.waiting, first.lag_s, first.failed_writes) == (7, 2.5, 5)
    assert (second.name, second.state, second.pages) == ("a", OK, 0)
    assert found.spool == SpoolState(8, 8000)
    assert found.outage == "b away, 8 pages spooled, 8.0 kB"


def test_sinks_of_earlier_runs_are_inactive() -> None:
    found = sinks_state([process(sink("new"))], {"sink/pages/old": 4, "sink/pages/new": 1})
    assert [(each.name, each.state) for each in found.sinks] == [("new", OK), ("old", INACTIVE)]
    assert found.outage == ""


def test_processes_without_sinks_have_none() -> None:
    assert sinks_state([{"pid": 1}], {}) == SinksState([])


class Nobody(Sink):
    """Sink whose server is away, and whose errors show its address."""

    async def open(self) -> None: ...

    async def write(self, batch: Sequence[Any]) -> None:
        raise OSError(f"nobody at {self.target}")

    async def close(self) -> None: ...


async def test_a_sink_that_is_away_is_told_with_what_is_spooled(tmp_path: Path) -> None:
    is_closing = False
    stats = project_crawler().stats
    assert stats is not None
    storage = Storage(
        *({"X": Nobody("x.X://me:pa55word@h.test/")}, stats, BatchLimits()),
        is_closing=lambda: is_closing,
        spool=Spool(tmp_path, max_bytes=10**6, is_closing=lambda: is_closing),
    )
    await storage.open()
    url = "http://a.test/"
    async with asyncio.timeout(60):
        await storage.put(Page(url=url, final_url=url, status=200, crawled_at=datetime.now(UTC)))
    found = sinks_state([storage.report()], {})
    assert found.outage.startswith("X away, 1 page spooled, ")
    # For the dashboard and the API.
    trouble = storage.writers[0].health.trouble
    assert trouble.endswith("(nobody at x.X://me:***@h.test/)")
    is_closing = True
    await storage.close()
    assert stats.get_value(SPOOL_LEFT) == 1
