"""Mark pages whose content was stored before: exactly the same, or nearly. First pipeline.

A page's content is remembered when the page has passed all pipelines, so when it is durable.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import TYPE_CHECKING, Any, Self

from scrapy import signals

from crawler.content_seen import MAX_DISTANCE, ContentSeen
from crawler.errors import ConfigurationError
from crawler.extensions.servers import Servers
from crawler.frontier import RedisAway
from crawler.items import Page
from crawler.policy.similarity import SHINGLE, simhash, words_of
from crawler.scheduler import Scheduler
from crawler.urls import fingerprint

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

# Hashing a text takes about 20 µs a KB: longer ones are hashed in a thread.
_HASH_INLINE_CHARS = 100_000


class Duplicates:
    """A duplicate keeps its record, not its body, and its links are not followed."""

    def __init__(self, crawler: Crawler, *, max_distance: int, min_words: int) -> None:
        self._seen: ContentSeen
        self._crawler = crawler
        self._max_distance = max_distance
        self._min_words = min_words

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        max_distance = settings.getint("NEAR_DISTANCE")
        if not 0 <= max_distance <= MAX_DISTANCE:
            raise ConfigurationError(
                f"NEAR_DISTANCE is {max_distance}; give a number from 0 to {MAX_DISTANCE}."
            )
        # Fewer words than a shingle has would all be the same text.
        min_words = max(settings.getint("NEAR_MIN_WORDS"), SHINGLE)
        duplicates = cls(crawler, max_distance=max_distance, min_words=min_words)
        crawler.signals.connect(duplicates.remember, signals.item_scraped)
        return duplicates

    async def open_spider(self) -> None:
        redis = await Servers.of(self._crawler).redis()
        crawl = Scheduler.of(self._crawler).crawl
        self._seen = ContentSeen(redis, crawl, self._max_distance)

    async def process_item(self, item: Any) -> Any:
        if not isinstance(item, Page) or not item.stored or not item.body:
            return item
        if len(item.text) > _HASH_INLINE_CHARS:
            digest, near = await asyncio.to_thread(self._hashes, item)
        else:
            digest, near = self._hashes(item)
        item.content_hash = digest.hex()
        item.simhash = f"{near:016x}" if near is not None else ""
        try:
            duplicate = await self._seen.find(fingerprint(item.url), digest, near)
        except RedisAway as error:
            # An equal page may be stored twice; this one must not be fetched twice.
            logger.debug("The content of %s is not compared: %s", item.url, error)
            return item
        if duplicate is not None:
            item.duplicate_of = f"{duplicate.of:016x}"
            item.duplicate_distance = duplicate.distance
            kind = "exact" if duplicate.distance is None else "near"
            self._crawler.stats.inc_value(f"duplicates/{kind}")
        return item

    async def remember(self, item: Any) -> None:
        """The item is durable: later pages are compared with it."""
        if not isinstance(item, Page) or not item.content_hash or item.duplicate_of:
            return
        digest, near = bytes.fromhex(item.content_hash), item.simhash
        try:
            await self._seen.record(fingerprint(item.url), digest, int(near, 16) if near else None)
        except RedisAway as error:
            # An equal page may be stored twice; this one is safe.
            logger.debug("The content of %s is not remembered: %s", item.url, error)

    def _hashes(self, page: Page) -> tuple[bytes, int | None]:
        words = words_of(page.text)
        near = simhash(words) if len(words) >= self._min_words else None
        return hashlib.sha256(page.body).digest(), near
