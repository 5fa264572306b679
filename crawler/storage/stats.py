"""Count what the store does, as Scrapy's stats `store/…`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scrapy.statscollectors import StatsCollector

from crawler.storage.documents import Documents
from crawler.util.breaker import CLOSED

if TYPE_CHECKING:
    pass

# Scrapy's stat in which the store says how it is; without a store of ours it is "off".
STORE_STATE = "store/state"


_OK, _AWAY = "ok", "away"


class StoreStats:
    """Counts a batch at a time, never a page."""

    def __init__(self, stats: StatsCollector) -> None:
        self._stats = stats
        self._written = self._body_bytes = self._compressed_bytes = self._batches = 0

    def opened(self) -> None:
        self._stats.set_value("store/breaker", CLOSED)
        self._stats.set_value(STORE_STATE, _OK)

    def wrote(self, written: Sequence[Documents], flush_s: float) -> None:
        """A batch is durable."""
        stats, pages = self._stats, [each.page for each in written if each.page.status]
        kept = [each for each in written if each.content is not None]
        self._batches += 1
        stats.set_value(STORE_STATE, _OK)
        self._written += len(written)
        self._body_bytes += sum(len(each.page.body) for each in kept)
        self._compressed_bytes += sum(each.compressed_bytes for each in kept)
        # Pages with content; those without that are no duplicates; all answers; URLs without one.
        stats.inc_value("store/pages", len(kept))
        stats.inc_value("store/not_kept", sum(map(_is_not_kept, written)))
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
        """A flush failed; it is tried again."""
        self._stats.inc_value("store/failed_flushes")
        self._stats.set_value(STORE_STATE, _AWAY)

    def breaker(self, state: str) -> None:
        """The breaker changed."""
        self._stats.set_value("store/breaker", state)
        if state != CLOSED:
            self._stats.inc_value(f"store/breaker_{state}")


def _is_not_kept(documents: Documents) -> bool:
    """Is this a page that is no duplicate, and whose content is not to be kept?"""
    page = documents.page
    return documents.content is None and 200 <= page.status < 300 and not page.duplicate_of


STORE_WORKS = frozenset({"ok", "off"})
