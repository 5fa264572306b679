"""Log lines about single URLs: at DEBUG, so that a crawl of millions stays readable."""

from __future__ import annotations

import logging
from typing import Any

from scrapy import logformatter

from crawler.errors import NotStored

_ENGINE = logging.getLogger("scrapy.core.engine")


class LogFormatter(logformatter.LogFormatter):
    """Scrapy's lines with less volume."""

    def crawled(self, *args: Any, **kwargs: Any) -> Any:
        """Nothing where nobody would see it: a line that is dropped at last costs 30 µs."""
        return super().crawled(*args, **kwargs) if _is_seen(_ENGINE, logging.DEBUG) else None

    def scraped(self, *args: Any, **kwargs: Any) -> Any:
        """Nothing: the page was logged when it was fetched, and printing an item costs more."""
        return None

    def dropped(self, *args: Any, **kwargs: Any) -> Any:
        return self._quiet(super().dropped(*args, **kwargs))

    def item_error(self, item: Any, exception: Any, *args: Any, **kwargs: Any) -> Any:
        record = super().item_error(item, exception, *args, **kwargs)
        # Said once by whoever could not store them, not once for each item.
        return self._quiet(record) if isinstance(exception, NotStored) else record

    def download_error(self, *args: Any, **kwargs: Any) -> Any:
        return self._quiet(super().download_error(*args, **kwargs))

    @staticmethod
    def _quiet(record: Any) -> Any:
        record["level"] = logging.DEBUG
        return record


def _is_seen(logger: logging.Logger, level: int) -> bool:
    """Does any handler take lines of this level? Scrapy's loggers let all of them pass."""
    at: logging.Logger | None = logger if logger.isEnabledFor(level) else None
    while at is not None:
        for handler in at.handlers:
            if handler.level <= level:
                return True
        at = at.parent if at.propagate else None
    return False
