"""Remember the URLs of pages that lead to other URLs: an entry has only the id of its parent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from crawler.util.per_crawler import shared
from crawler.util.recent import ENTRY_BYTES, RecentDict

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

# Memory of the parents that are remembered: some 35,000. Longer URLs are not: a trap may make many.
_MAX_BYTES = 8_000_000
_URL_MAX = 500


class ParentUrls:
    """URLs of the parents that this process met last, by their ids. Others are not known."""

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._urls = RecentDict[int, str](max_bytes, lambda _, url: ENTRY_BYTES + len(url))

    @classmethod
    def of(cls, crawler: Crawler) -> Self:
        return shared(cls, crawler, cls)

    def remember(self, id_: int, url: str) -> None:
        """Remember the URL of a parent; id 0 is none."""
        if id_ and len(url) <= _URL_MAX:
            self._urls[id_] = url

    def url_of(self, id_: int) -> str | None:
        """Return the URL of a parent, if it is known."""
        return self._urls.get(id_)
