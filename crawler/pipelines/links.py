"""Put the links of a page into the frontier, in one batch. Second pipeline.

A page with the bytes of another is part of a copy, and its links are not followed; unless it is the
home page of a site, or a seed, with hardly a word: frames, shells of applications and the like are
the same on sites that are not. Texts are compared without lists of links, so that those of a near
duplicate may be new, and are followed; except where its parent is its original or has the same one:
a space of such pages need not end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from crawler.discovery.host_counts import HostCountSync
from crawler.items import Page
from crawler.scheduler import Scheduler, link_follower
from crawler.urls import authority_of, fingerprint

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


# Near duplicates whose originals are remembered.
_KIN_KEPT = 10_000


class Links:
    """Returns when Redis has the links: only then may the page's lease be settled."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        # Now: mistakes in its settings are told before the crawl.
        self._follower = link_follower(crawler)
        self._host_count_sync: HostCountSync | None = None
        # Near duplicate -> its original, by url_hash; the oldest are forgotten.
        self._originals: dict[str, str] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def open_spider(self) -> None:
        frontier = Scheduler.of(self._crawler).frontier
        self._host_count_sync = HostCountSync(self._follower.hosts, frontier)
        self._host_count_sync.open()

    async def close_spider(self) -> None:
        if self._host_count_sync is not None:
            await self._host_count_sync.close()

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page) and item.content_hash:
            self._follower.fetched(item.url, duplicate=bool(item.duplicate_of))
        if isinstance(item, Page) and item.links and self._are_wanted(item):
            scheduler = Scheduler.of(self._crawler)
            if scheduler.options_watcher.options.follow:
                # Traps compare it with links.
                page_url = scheduler.urls.canonical(item.final_url)
                await self._follower.follow(
                    item.links,
                    page_url=page_url if isinstance(page_url, str) else item.final_url,
                    depth=item.depth + 1,
                    parent=fingerprint(item.url),
                    written=item.written,
                )
        return item

    def _are_wanted(self, page: Page) -> bool:
        original = page.duplicate_of
        if not original:
            return True
        if page.duplicate_distance is None:
            # One a host, which may answer for every path with the same words.
            is_home = page.url == f"{authority_of(page.url)}/"
            return not page.simhash and (is_home or not page.parent)
        url_hash = f"{fingerprint(page.url):016x}"
        self._originals[url_hash] = original
        if len(self._originals) > _KIN_KEPT:
            del self._originals[next(iter(self._originals))]
        return original not in (page.parent, self._originals.get(page.parent))
