"""Bring the index up to date: compare it with the store by time, and index what differs.

The metadata of all pages with content are read in the order of `crawled_at`, and compared with the
versions of pages that the index has of the same times. Content is read only of pages that the index
lacks, and of a few between them; versions that the store has no more are removed. So nothing needs
to be remembered between runs: a run that was killed has done what it committed, and the next one
does the rest. It also finds what a crawl stored late, and what was deleted, has expired or became a
duplicate.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING

from crawler.storage.reader import Wanted
from crawler.storage.search.index import (
    FIRST_MS,
    LAST_MS,
    IndexedPage,
    IndexWriter,
    milliseconds,
    visit_of,
)
from crawler.util.tasks import in_thread

if TYPE_CHECKING:
    from crawler.storage.reader import Document, PageReader

# Pages that are compared together, more only if they are of the same millisecond.
_WINDOW = 5000
# Old versions that are remembered before they are removed: until then, searches find them.
_STALE_MAX = 100_000
# Pages whose content is read though the index has them, rather than asking the store once more.
_BETWEEN_MAX = 20
# A run that is killed loses this much of its work.
_COMMIT_S = 15.0
_COMPARED = ("crawl", "url_hash", "crawled_at")
_INDEXED = (*_COMPARED, "url", "title", "language", "text_language")


@dataclass(slots=True)
class Counts:
    """Numbers of pages that an update has dealt with."""

    compared: int = 0
    indexed: int = 0
    removed: int = 0
    # Their content cannot be read, so they are not in the index.
    unread: int = 0


class Update:
    """One run over the pages of a store."""

    def __init__(
        self, writer: IndexWriter, pages: PageReader, *, since: datetime | None = None
    ) -> None:
        """`since`: only pages that were crawled since then, and what the index has of them."""
        if since is not None:
            # The index has times in milliseconds.
            since -= timedelta(microseconds=since.microsecond % 1000)
        self.wanted = Wanted(since=since, kept=True)
        self.counts = Counts()
        self._writer = writer
        self._pages = pages
        self._first_ms = FIRST_MS if since is None else milliseconds(since)
        self._stale: list[int] = []
        self._commit_at = monotonic() + _COMMIT_S

    async def run(self) -> AsyncIterator[Counts]:
        """Compare everything, and commit; yields the counts now and then."""
        self._known = await in_thread(self._writer.snapshot)
        window: list[Document] = []
        batches = self._pages.with_content(
            self.wanted, fields=_COMPARED, contents=False, by_time=True
        )
        async for batch in batches:
            window += [page for page, _ in batch.pages]
            end_ms = milliseconds(window[-1]["crawled_at"])
            if len(window) < _WINDOW or milliseconds(window[0]["crawled_at"]) == end_ms:
                continue
            # More pages of the last moment may follow.
            whole = [page for page in window if milliseconds(page["crawled_at"]) < end_ms]
            window = window[len(whole) :]
            async for counts in self._compare(whole, end_ms):
                yield counts
        async for counts in self._compare(window, LAST_MS):
            yield counts
        await self._remove_stale()
        await in_thread(self._writer.commit)
        yield self.counts

    async def _compare(self, stored: list[Document], end_ms: int) -> AsyncIterator[Counts]:
        """Compare the next pages, which are all that the store has until `end_ms`."""
        visits = [_visit(page) for page in stored]
        missing = set(visits)
        parts = self._known.visits(self._first_ms, end_ms)
        while (known := await in_thread(next, parts, None)) is not None:
            missing -= known
            self._stale += known.difference(visits)
            if len(self._stale) >= _STALE_MAX:
                await self._remove_stale()
        self._first_ms = end_ms
        self.counts.compared += len(stored) - len(missing)
        for span in _spans(stored, visits, missing):
            async for _ in self._index(span):
                yield self.counts
        yield self.counts

    async def _index(self, missing: dict[int, datetime]) -> AsyncIterator[None]:
        """Index these pages, by visit."""
        until = max(missing.values()) + timedelta(milliseconds=1)
        wanted = Wanted(since=min(missing.values()), before=until, kept=True)
        left = set(missing)
        async for batch in self._pages.with_content(wanted, fields=_INDEXED, by_time=True):
            found = [(page, content) for page, content in batch.pages if _visit(page) in left]
            left -= {_visit(page) for page, _ in found}
            made = [_indexed(page, content.text) for page, content in found if content is not None]
            await in_thread(self._writer.replace, made)
            self.counts.indexed += len(made)
            self.counts.unread += len(found) - len(made)
            self.counts.compared += len(found)
            if monotonic() >= self._commit_at:
                await in_thread(self._writer.commit)
                self._commit_at = monotonic() + _COMMIT_S
            yield
        # Those that are crawled meanwhile come again, with their new time.
        self.counts.compared += len(left)

    async def _remove_stale(self) -> None:
        self.counts.removed += len(self._stale)
        await in_thread(self._writer.remove, self._stale)
        self._stale = []


def _spans(
    stored: Sequence[Document], visits: Sequence[int], missing: set[int]
) -> list[dict[int, datetime]]:
    """Split the missing pages, which are read by their times, where others lie between them."""
    spans: list[dict[int, datetime]] = []
    between = _BETWEEN_MAX
    for page, visit in zip(stored, visits, strict=True):
        if visit not in missing:
            between += 1
            continue
        if between >= _BETWEEN_MAX:
            spans.append({})
        spans[-1][visit] = page["crawled_at"]
        between = 0
    return spans


def _visit(page: Document) -> int:
    return visit_of(page.get("crawl") or "", page["url_hash"], page["crawled_at"])


def _indexed(page: Document, text: str) -> IndexedPage:
    return IndexedPage(
        crawl=page.get("crawl") or "",
        url_hash=page["url_hash"],
        crawled_at=page["crawled_at"],
        url=page["url"],
        title=page.get("title") or "",
        text=text,
        language=page.get("text_language") or page.get("language") or "",
    )
