"""Stats of a sink, as Scrapy's stats `store/…`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from crawler.util.breaker import CLOSED

if TYPE_CHECKING:
    from scrapy.statscollectors import StatsCollector

    from crawler.storage.mongo.documents import Documents

# The stat with the state of the store: "ok" or "away"; "off" in crawls without a store.
STORE_STATE = "store/state"
STORE_WORKS = frozenset({"ok", "off"})


class StoreStats:
    """Counters of one sink, updated once for each batch."""

    def __init__(self, stats: StatsCollector) -> None:
        self._stats = stats
        self._written = self._body_bytes = self._compressed_bytes = self._batches = 0

    def opened(self) -> None:
        self._stats.set_value("store/breaker", CLOSED)
        self._stats.set_value(STORE_STATE, "ok")

    def wrote(self, written: Sequence[Documents], flush_s: float) -> None:
        """Count a batch that is durable."""
        stats, pages = self._stats, [each.page for each in written if each.page.status]
        kept = [each for each in written if each.content is not None]
        # Successful pages without content that are no duplicates, such as noindex.
        not_kept = [
            each
            for each in written
            if each.content is None and each.page.is_success and not each.page.duplicate_of
        ]
        self._batches += 1
        self._written += len(written)
        self._body_bytes += sum(len(each.page.body) for each in kept)
        self._compressed_bytes += sum(each.compressed_bytes for each in kept)
        stats.set_value(STORE_STATE, "ok")
        stats.inc_value("store/pages", len(kept))
        stats.inc_value("store/not_kept", len(not_kept))
        stats.inc_value("store/records", len(pages))
        stats.inc_value("store/failed_urls", len(written) - len(pages))
        stats.inc_value("store/bytes", sum(page.size_bytes for page in pages))
        stats.set_value("store/batches", self._batches)
        stats.set_value("store/batch_fill", round(self._written / self._batches, 1))
        stats.max_value("store/batch_fill_max", len(written))
        stats.inc_value("store/flush_ms", round(flush_s * 1000))
        stats.max_value("store/flush_ms_max", round(flush_s * 1000))
        stats.set_value("store/compressed_bytes", self._compressed_bytes)
        if self._compressed_bytes:
            ratio = self._body_bytes / self._compressed_bytes
            stats.set_value("store/compression_ratio", round(ratio, 2))

    def failed(self) -> None:
        """Count a batch that failed; it is tried again."""
        self._stats.inc_value("store/failed_flushes")
        self._stats.set_value(STORE_STATE, "away")

    def breaker(self, state: str) -> None:
        """Note a new state of the breaker."""
        self._stats.set_value("store/breaker", state)
        if state != CLOSED:
            self._stats.inc_value(f"store/breaker_{state}")
