"""Figures that the progress gathers from a running crawl."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from crawler.extensions.progress import Progress
from crawler.frontier import Sizes
from crawler.monitoring.console.screen import Screen
from tests.support.schedulers import WritingScheduler, crawler_with
from tests.unit.monitoring.console.snapshots import SIZES


async def test_processes_are_counted_once_however_many_shards_there_are() -> None:
    async def sizes() -> Sizes:
        shard = replace(SIZES, owners=2)
        return shard + shard + shard

    scheduler: Any = WritingScheduler()
    scheduler.frontier = SimpleNamespace(sizes=sizes)
    crawler = crawler_with(scheduler)
    crawler.engine.downloader = SimpleNamespace(active={1, 2})  # type: ignore[union-attr]
    assert crawler.stats is not None
    crawler.stats.set_value("pages/crawled", 7)
    snapshot = await Progress(crawler, Screen("off", 1.0))._snapshot()
    assert (snapshot.processes, snapshot.run.pages, snapshot.run.in_flight) == (2, 7, 2)
