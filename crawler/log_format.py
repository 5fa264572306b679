"""Log lines about single URLs: at DEBUG, so that a crawl of millions stays readable."""

from __future__ import annotations

import logging
from typing import Any

from scrapy import logformatter

from crawler.errors import NotStored


class LogFormatter(logformatter.LogFormatter):
    """Scrapy's lines with less volume."""

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
