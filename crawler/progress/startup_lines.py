"""Leave Scrapy's listings of settings and components out of the log, unless it is at DEBUG."""

from __future__ import annotations

import logging

_LOGGERS = ("scrapy.addons", "scrapy.crawler", "scrapy.middleware")
_LISTINGS = ("Enabled ", "Overridden settings")


class _NoListings(logging.Filter):
    """The same loggers tell of signals and of disabled components: those lines stay."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno != logging.INFO or not str(record.msg).startswith(_LISTINGS)


_FILTER = _NoListings()


def hide_listings(log_level: str | int) -> None:
    """Hide the listings at INFO and above; at DEBUG all is shown."""
    number = logging.getLevelName(log_level) if isinstance(log_level, str) else log_level
    wanted = isinstance(number, int) and number > logging.DEBUG
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if wanted:
            logger.addFilter(_FILTER)
        else:
            logger.removeFilter(_FILTER)
