"""Mark pages whose content is stored already, exactly or nearly. First pipeline.

The content of a page is remembered when the page has passed all pipelines and is durable. While
Redis is away, pages are stored without a comparison.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

from scrapy import signals

from crawler import config
from crawler.dedup.content import SHINGLE, Boilerplate, majorities, of_each
from crawler.dedup.index import ContentIndex, NotCompared
from crawler.dedup.minhash import label_of, sketches
from crawler.dedup.near import Content
from crawler.frontier.frontier import tags
from crawler.items import Page
from crawler.scheduler import Scheduler
from crawler.scheduling.recrawls import visit_of
from crawler.servers.connections import Servers
from crawler.servers.redis.checks import required
from crawler.urls import host_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

# Hashing takes about 20 ns for each character of a text, and a 32nd of that for a byte of a body;
# on processors without instructions for SHA-256 a sixth. Pages that take longer than this are
# hashed in a thread, and groups are no larger: 2 ms, with MinHash 4 ms.
_HASH_INLINE_CHARS = 100_000
_HASH_INLINE_BYTES = 1_000_000
_BYTES_A_CHAR = 32
# Pages that are hashed together, and seconds that the first waits for others.
_GROUP_MAX = 16
_GROUP_LINGER_S = 0.05
# Headings of the first level that tell a page from others.
_TITLES = 3
# More than the items in the pipelines at any time.
_PENDING_MAX = 10_000


class Duplicates:
    """Pipeline that compares pages. Of a duplicate the metadata is stored, but not the body."""

    def __init__(
        self,
        crawler: Crawler,
        *,
        near_by: str,
        max_distance: int,
        similarity: float,
        min_words: int,
        made_for: int,
    ) -> None:
        self._index: ContentIndex
        self._crawler = crawler
        self._near_by = near_by
        self._max_distance = max_distance
        self._similarity = similarity
        self._min_words = min_words
        self._made_for = made_for
        self._boilerplate = Boilerplate()
        self._hashing = _Hashing(self._contents_of)
        # Content hash → URL of the page, for pages that are in the pipelines now.
        self._pending: dict[str, str] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        duplicates = cls(
            crawler,
            near_by=config.value(settings, "NEAR_BY"),
            max_distance=config.value(settings, "NEAR_DISTANCE"),
            similarity=config.value(settings, "NEAR_SIMILARITY"),
            # Texts shorter than a shingle would all be equal.
            min_words=max(config.value(settings, "NEAR_MIN_WORDS"), SHINGLE),
            made_for=config.value(settings, "NEAR_PAGES"),
        )
        crawler.signals.connect(duplicates.remember, signals.item_scraped)
        crawler.signals.connect(duplicates.forget_pending, signals.item_dropped)
        crawler.signals.connect(duplicates.forget_pending, signals.item_error)
        return duplicates

    async def open_spider(self) -> None:
        redis = await Servers.of(self._crawler).redis()
        scheduler = Scheduler.of(self._crawler)
        self._index = await required(
            ContentIndex.open(
                redis,
                scheduler.crawl,
                tags(scheduler.crawl, scheduler.frontier.shards),
                pages=self._made_for,
                near_by=self._near_by,
                max_distance=self._max_distance,
                similarity=self._similarity,
            )
        )

    async def close_spider(self) -> None:
        await self._index.flush()
        if self._index.lost:
            self._count("lost", self._index.lost)

    async def process_item(self, item: Any) -> Any:
        if not isinstance(item, Page) or not item.stored or not item.body:
            return item
        content = await self._hashing.content_of(item)
        item.content_hash = content.digest.hex()
        item.simhash = f"{content.simhash:016x}" if content.simhash is not None else ""
        item.sketch = content.sketch
        if content.simhash is None:
            self._count("short")
        if len(self._pending) >= _PENDING_MAX:
            # Left over from items that other pipelines replaced: no signal names them.
            self._pending.clear()
        if self._pending.setdefault(item.content_hash, item.url) != item.url:
            # Both pages are stored: if one fails, the other must not depend on it.
            self._count("pending")
        try:
            duplicate = await self._index.find(int(item.url_hash, 16), content)
        except NotCompared as error:
            # Storing an equal page twice is better than fetching this one twice.
            self._count("skipped")
            logger.debug("The content of %s is not compared: %s", item.url, error)
            return item
        self._count("compared")
        if duplicate is not None:
            item.duplicate_of = f"{duplicate.original:016x}"
            item.duplicate_distance = duplicate.distance
            item.duplicate_similarity = duplicate.similarity
            self._count("near" if item.is_near_duplicate else "exact")
        elif item.blocks is not None:
            self._boilerplate.learn(host_of(item.final_url), item.blocks)
        return item

    def remember(self, item: Any) -> None:
        """Compare later pages with this item, which is durable now."""
        self.forget_pending(item)
        if not isinstance(item, Page):
            return
        if not item.content_hash and not item.is_success:
            # Not modified, or an error: the stored content stays valid.
            return
        # Only stored pages are originals; this one may have been too big to store.
        is_original = item.stored and item.is_kept and not item.duplicate_of
        now = Content.parse(item.content_hash, item.simhash, item.sketch) if is_original else None
        before = Content.parse(*item.earlier) if item.earlier is not None else None
        self._index.remember(int(item.url_hash, 16), now, before)

    def forget_pending(self, item: Any) -> None:
        """Forget an item that has left the pipelines, durable or not."""
        if isinstance(item, Page) and self._pending.get(item.content_hash) == item.url:
            del self._pending[item.content_hash]

    def _contents_of(self, pages: Sequence[Page]) -> list[Content]:
        contents = []
        new = []
        for place, page in enumerate(pages):
            digest = hashlib.sha256(page.body).digest()
            visit = visit_of(page.lease.entry) if page.lease is not None else None
            if visit is not None and visit.digest and digest.startswith(visit.digest):
                # As remembered: more boilerplate may be known by now, which would change it.
                contents.append(Content(digest, visit.simhash))
            else:
                contents.append(Content(digest, None))
                new.append(place)
        parts = self._boilerplate.shingles_of([pages[place] for place in new], self._min_words)
        simhashes = of_each(majorities, parts)
        for place, simhash in zip(new, simhashes, strict=True):
            contents[place] = contents[place]._replace(simhash=simhash)
        if self._index.compares_sketches:
            parts = self._boilerplate.article_shingles_of(pages, self._min_words)
            sketched = of_each(sketches, parts)
            for place, sketch in enumerate(sketched):
                if sketch is not None:
                    contents[place] = contents[place]._replace(sketch=sketch + label(pages[place]))
        return contents

    def _count(self, what: str, number: int = 1) -> None:
        self._crawler.stats.inc_value(f"duplicates/{what}", number)


def label(page: Page) -> bytes:
    """Return what a sketch says of the page: its host and titles, for some sites have one title."""
    titles = [heading for heading in page.headings if heading.startswith("# ")]
    return label_of(host_of(page.final_url), "\n".join([page.title, *titles[:_TITLES]]))


class _Hashing:
    """Hashing of pages in groups: that takes half of the time, and less if they come faster.

    Operations on arrays cost much for each group and little for each page. Among the other work of
    a page, they also find nothing of their code in the processor's cache.
    """

    def __init__(self, hash_pages: Callable[[Sequence[Page]], list[Content]]) -> None:
        self._hash_pages = hash_pages
        self._pages: list[Page] = []
        self._hashed: list[asyncio.Future[Content]] = []
        # What the group takes, in characters.
        self._chars = 0
        self._timer: asyncio.TimerHandle | None = None

    async def content_of(self, page: Page) -> Content:
        """Hash a page, soon."""
        chars = len(page.text) + len(page.body) // _BYTES_A_CHAR
        if chars > _HASH_INLINE_CHARS or len(page.body) > _HASH_INLINE_BYTES:
            return (await asyncio.to_thread(self._hash_pages, [page]))[0]
        if self._chars + chars > _HASH_INLINE_CHARS:
            self._hash_group()
        loop = asyncio.get_running_loop()
        hashed: asyncio.Future[Content] = loop.create_future()
        self._pages.append(page)
        self._hashed.append(hashed)
        self._chars += chars
        if len(self._pages) >= _GROUP_MAX:
            self._hash_group()
        elif self._timer is None:
            self._timer = loop.call_later(_GROUP_LINGER_S, self._hash_group)
        return await hashed

    def _hash_group(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        pages, futures = self._pages, self._hashed
        self._pages, self._hashed, self._chars = [], [], 0
        for hashed, content in zip(futures, self._contents_of(pages), strict=True):
            if hashed.done():
                continue
            if isinstance(content, Exception):
                hashed.set_exception(content)
            else:
                hashed.set_result(content)

    def _contents_of(self, pages: list[Page]) -> Sequence[Content | Exception]:
        try:
            return self._hash_pages(pages)
        except Exception as error:  # noqa: BLE001 - of one page: the others need not fail
            if len(pages) == 1:
                return [error]
            return [content for page in pages for content in self._contents_of([page])]
