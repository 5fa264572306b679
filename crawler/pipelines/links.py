"""Add the links of a page to the frontier, in one batch. Second pipeline.

The links of an exact duplicate are not followed: it is part of a copy of a site. The exception is a
home page or a seed with hardly any text: frames and shells of applications are equal on different
sites. Pages are compared without lists of links, so a near duplicate may have new links. They are
followed, unless the parent is the original or has the same original: such pages may be endless.
"""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING, Any, Self

from crawler import config
from crawler.discovery.counts import CountSync
from crawler.items import Page
from crawler.scheduler import Scheduler, link_follower
from crawler.scheduling.recrawls import last_visit_s
from crawler.urls import authority_of
from crawler.util.recent import RecentDict, text_bytes

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


# Memory of the near duplicates whose originals are remembered: some 10,000.
_ORIGINALS_MAX_BYTES = 2_000_000


class Links:
    """Pipeline that follows links. It returns an item when Redis has the links of its page."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        # At once, so that wrong settings are reported before the crawl.
        self._follower = link_follower(crawler)
        self._count_sync: CountSync | None = None
        # Near duplicate → its original, by url_hash.
        self._originals = RecentDict[str, str](_ORIGINALS_MAX_BYTES, text_bytes)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def open_spider(self) -> None:
        frontier = Scheduler.of(self._crawler).frontier
        follower = self._follower
        self._count_sync = CountSync(
            follower.hosts,
            frontier,
            links=follower.links,
            sketch_bytes=config.value(self._crawler.settings, "INBOUND_SKETCH_BYTES"),
            queue_of_linked=follower.queue_of_linked,
        )
        self._count_sync.open()

    async def close_spider(self) -> None:
        if self._count_sync is not None:
            await self._count_sync.close()

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page) and item.content_hash:
            self._follower.traps.fetched(item.url, duplicate=bool(item.duplicate_of))
        if isinstance(item, Page) and item.links and self._are_wanted(item):
            scheduler = Scheduler.of(self._crawler)
            if scheduler.options_watcher.options.follow:
                if item.lease is not None:
                    # Links may wait for Redis or a sink for long. Parsing killed no process.
                    scheduler.leases.parsed(item.lease)
                # The trap detection compares it with links, which are canonical.
                page_url = scheduler.urls.canonical(item.final_url)
                await self._follower.follow(
                    item.links,
                    page_url=page_url if isinstance(page_url, str) else item.final_url,
                    depth=item.depth + 1,
                    parent=int(item.url_hash, 16),
                    parent_url=item.url,
                    written=item.written,
                    points=item.link_points,
                    points_by_link=item.points_by_link,
                    tails=scheduler.recrawls.hints_of_feed(item.link_times),
                )
                if item.link_times and item.lease is not None:
                    await self._follower.bring_forward(
                        item.link_times,
                        site=item.final_url,
                        since_s=last_visit_s(item.lease.entry, now_s=time()),
                    )
        return item

    def _are_wanted(self, page: Page) -> bool:
        original = page.duplicate_of
        if not original:
            return True
        if not page.is_near_duplicate:
            # One page of each host: a host may answer every path with the same few words.
            is_home = page.url == f"{authority_of(page.url)}/"
            return not page.simhash and (is_home or not page.parent)
        self._originals[page.url_hash] = original
        return original not in (page.parent, self._originals.get(page.parent))
