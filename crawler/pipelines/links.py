"""Put the links of a page into the frontier, in one batch. Second pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from crawler.frontier import Entry
from crawler.items import Page
from crawler.policy.priority import front_queue, score
from crawler.scheduler import Scheduler
from crawler.urls import fingerprint

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class Links:
    """Returns when Redis has the links: only then may the page's lease be settled."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def process_item(self, item: Any) -> Any:
        # The same content has the same links; following them again is how traps work.
        if isinstance(item, Page) and item.links and not item.duplicate_of:
            await self._follow(item)
        return item

    async def _follow(self, page: Page) -> None:
        scheduler = Scheduler.of(self._crawler)
        scope = scheduler.scope
        depth, parent = page.depth + 1, fingerprint(page.url)
        refused: dict[str, int] = {}
        entries: list[Entry] = []
        for url in page.links:
            reason = scope.refuses(url, page_url=page.final_url, depth=depth)
            if reason is not None:
                refused[reason] = refused.get(reason, 0) + 1
                continue
            queue = front_queue(score(url, depth), scheduler.thresholds)
            entries.append(
                Entry(id=fingerprint(url), url=url, queue=queue, depth=depth, parent=parent)
            )
        for reason, count in refused.items():
            self._crawler.stats.inc_value(f"links/refused/{reason}", count)
        if entries:
            await scheduler.add(entries)
