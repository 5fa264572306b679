"""What all components of a crawl share: made once for a crawler, kept by it, gone with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

# Of Scrapy's crawler object. A table of our own, however weak, would keep what knows its crawler,
# and so all that a crawl ever had, for as long as the program runs.
_ATTRIBUTE = "_shared_by_components"

T = TypeVar("T")


def shared(kind: type[T], crawler: Crawler, make: Callable[[], T]) -> T:
    """The one of this kind, made now if there is none."""
    known: dict[type, T] = vars(crawler).setdefault(_ATTRIBUTE, {})
    if kind not in known:
        known[kind] = make()
    return known[kind]
