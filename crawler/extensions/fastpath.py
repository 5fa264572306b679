"""Switch on the fast path (fastpath/), which spends less CPU time on a page.

docs/performance.md says what each measure saves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from scrapy import signals

from crawler.fastpath import middleware_chains, process_tuning
from crawler.fastpath.request_task import RequestTasks
from crawler.fastpath.signals import QuickSignals
from crawler.scheduling.engine import Engine

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class FastPath:
    """Extension that switches on the fast path; it is loaded before the other extensions."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        fast_path = cls(crawler)
        QuickSignals.take_over(crawler.signals)
        process_tuning.keep_memory()
        crawler.signals.connect(fast_path.engine_started, signals.engine_started)
        return fast_path

    def engine_started(self) -> None:
        RequestTasks.take_over(self._crawler)
        Engine.take_outputs_in_turn(self._crawler)
        middleware_chains.take_over(self._crawler)
        process_tuning.collect_less()
