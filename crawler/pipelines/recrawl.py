"""Decide when a page is visited again, after its hashes are known and before it is stored.

The decision takes effect when the lease of the page is settled, so when the page is durable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from crawler.dedup.content import words_digest
from crawler.discovery.scope import queue_of_type
from crawler.frontier.entry import PAGE_QUEUES
from crawler.items import NOT_MODIFIED, Page
from crawler.scheduler import Scheduler, link_follower
from crawler.scheduling.recrawl_policy import DIGEST_BYTES, VisitResult
from crawler.scheduling.recrawls import GONE, visit_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from crawler.frontier import Lease


class Recrawl:
    """Pipeline that sets `visits`, `changes` and `next_crawl` of pages."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def process_item(self, item: Any) -> Any:
        if isinstance(item, Page) and item.lease is not None:
            self._decide(item, item.lease)
        return item

    def _decide(self, page: Page, lease: Lease) -> None:
        scheduler = Scheduler.of(self._crawler)
        recrawls = scheduler.recrawls
        if recrawls.policy is None:
            recrawls.fill_in(page, lease, None)
            return
        before = visit_of(lease.entry)
        not_modified = NOT_MODIFIED in page.flags
        if before is not None and not page.content_hash.startswith(before.digest.hex()):
            # Its earlier content is removed from the index of contents.
            near = f"{before.simhash:016x}" if before.simhash is not None else ""
            page.earlier = before.digest.hex(), near
        if page.content_hash or (not_modified and before is not None):
            decision = recrawls.visited(
                lease,
                VisitResult() if not_modified else _found(page),
                _kept_headers(page),
                queue_of=lambda changed: (
                    _queue_of_type(page, lease)
                    or link_follower(self._crawler).queue_of(
                        lease.entry, unchanged=before is not None and not changed
                    )
                ),
                now_s=page.crawled_at.timestamp(),
                is_feed=bool(page.link_times),
            )
        else:
            decision = recrawls.gave_no_page(lease, gone=page.status == GONE)
        recrawls.fill_in(page, lease, decision)
        if not scheduler.leases.holds(lease):
            # It is another process's by now: this is only for the stored page.
            recrawls.take(lease)
        elif decision is not None and before is not None:
            kind = "changed" if decision.changed else "unchanged"
            failed = decision.visit.failures_in_a_row > 0
            self._crawler.stats.inc_value(f"recrawl/{'failed' if failed else kind}")


def _queue_of_type(page: Page, lease: Lease) -> int:
    """Return the queue of a document or medium, by its type and not its URL; 0 for a page."""
    if NOT_MODIFIED in page.flags:
        # The response says nothing of it.
        return lease.entry.queue if lease.entry.queue > PAGE_QUEUES else 0
    return queue_of_type(page.media_type or page.content_type)


def _kept_headers(page: Page) -> dict[str, str]:
    """Return the headers for a conditional request at the next visit.

    There are none for a truncated page, which is wanted whole then; nor for a duplicate, whose
    original may have changed by then, so that its content would be stored nowhere.
    """
    return {} if page.duplicate_of or "truncated" in page.flags else page.headers


def _found(page: Page) -> VisitResult:
    digest = bytes.fromhex(page.content_hash)[:DIGEST_BYTES]
    text = page.text if page.blocks is None else " ".join(page.blocks)
    return VisitResult(digest, int(page.simhash, 16) if page.simhash else None, words_digest(text))
