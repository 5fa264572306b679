"""Log lines about single URLs: at DEBUG, so that a crawl of millions stays readable."""

from __future__ import annotations

import logging
from typing import Any

from scrapy import logformatter


class LogFormatter(logformatter.LogFormatter):
    """Scrapy's lines with less volume."""

    def scraped(self, *args: Any, **kwargs: Any) -> Any:
        """Nothing: the page was logged when it was fetched, and printing an item costs more."""
        return None

    def dropped(self, *args: Any, **kwargs: Any) -> Any:
        return self._quiet(super().dropped(*args, **kwargs))

    def download_error(self, *args: Any, **kwargs: Any) -> Any:
        return self._quiet(super().download_error(*args, **kwargs))

    @staticmethod
    def _quiet(record: Any) -> Any:
        record["level"] = logging.DEBUG
        return record
