"""One instance of a class for each crawl: made once, kept by Scrapy's crawler, gone with it.

A class that all components of a crawl share has a classmethod `of(crawler)` that returns the
instance of this crawl. Nothing else in the project is named `of`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

# Of Scrapy's crawler object. A table of our own, even a weak one, would keep instances that refer
# to their crawler, and with them the whole crawl, until the program ends.
_ATTRIBUTE = "_shared_by_components"

T = TypeVar("T")


def shared(kind: type[T], crawler: Crawler, make: Callable[[], T]) -> T:
    """Return the crawl's instance of this class; `make` is called if there is none yet."""
    known: dict[type, T] = vars(crawler).setdefault(_ATTRIBUTE, {})
    if kind not in known:
        known[kind] = make()
    return known[kind]
