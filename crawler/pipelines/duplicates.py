"""Mark pages whose content was stored before: exactly the same, or nearly. First pipeline."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Self

from crawler.content_seen import ContentSeen
from crawler.extensions.servers import Servers
from crawler.items import Page
from crawler.policy.similarity import simhash, words_of
from crawler.scheduler import Scheduler
from crawler.urls import fingerprint

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class Duplicates:
    """A duplicate keeps its record, not its body, and its links are not followed."""

    def __init__(self, crawler: Crawler, *, max_distance: int, min_words: int) -> None:
        self.seen: ContentSeen
        self._crawler = crawler
        self._max_distance = max_distance
        self._min_words = min_words

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        return cls(
            crawler,
            max_distance=settings.getint("NEAR_DISTANCE"),
            min_words=settings.getint("NEAR_MIN_WORDS"),
        )

    async def open_spider(self) -> None:
        redis = await Servers.of(self._crawler).redis()
        crawl = Scheduler.of(self._crawler).crawl
        self.seen = ContentSeen(redis, crawl, self._max_distance)

    async def process_item(self, item: Any) -> Any:
        if not isinstance(item, Page) or not item.stored or not item.body:
            return item
        digest = hashlib.sha256(item.body).digest()
        words = words_of(item.text)
        near = simhash(words) if len(words) >= self._min_words else None
        item.content_hash = digest.hex()
        item.simhash = f"{near:016x}" if near is not None else ""
        duplicate = await self.seen.find(fingerprint(item.url), digest, near)
        if duplicate is not None:
            item.duplicate_of = f"{duplicate.of:016x}"
            item.duplicate_distance = duplicate.distance
            kind = "exact" if duplicate.distance is None else "near"
            self._crawler.stats.inc_value(f"duplicates/{kind}")
        return item
