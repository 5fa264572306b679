"""Put the links of a page into the frontier, in one batch. Second pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from crawler.items import Page
from crawler.outlinks import Outlinks
from crawler.scheduler import Scheduler

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class Links:
    """Returns when Redis has the links: only then may the page's lease be settled."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        # Now: mistakes in its settings are told before the crawl.
        self._outlinks = Outlinks.of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page) and item.content_hash:
            self._outlinks.fetched(item.url, duplicate=bool(item.duplicate_of))
        # The same content has the same links; following them again is how traps work.
        if isinstance(item, Page) and item.links and not item.duplicate_of:
            scheduler = Scheduler.of(self._crawler)
            if scheduler.orders.options.follow:
                await self._outlinks.follow(
                    item.links,
                    page_url=item.final_url,
                    depth=item.depth + 1,
                    parent=scheduler.urls.fingerprint(item.url),
                )
        return item
