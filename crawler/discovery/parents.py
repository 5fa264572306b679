"""Remember the URLs of pages that lead to other URLs: an entry has only the id of its parent."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Self

from crawler.util.per_crawler import shared

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

# Parents that are remembered, about 250 bytes each. Longer URLs are not: a trap may make many.
_KEPT = 50_000
_URL_MAX = 500


class ParentUrls:
    """URLs of the parents that this process met last, by their ids. Others are not known."""

    def __init__(self, size: int = _KEPT) -> None:
        self._urls: OrderedDict[int, str] = OrderedDict()
        self._size = size

    @classmethod
    def of(cls, crawler: Crawler) -> Self:
        return shared(cls, crawler, cls)

    def remember(self, id_: int, url: str) -> None:
        """Remember the URL of a parent; id 0 is none."""
        if not id_ or len(url) > _URL_MAX:
            return
        self._urls[id_] = url
        self._urls.move_to_end(id_)
        if len(self._urls) > self._size:
            self._urls.popitem(last=False)

    def url_of(self, id_: int) -> str | None:
        """Return the URL of a parent, if it is known."""
        return self._urls.get(id_)
