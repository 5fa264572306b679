"""Failures of a fetch that Scrapy has no name for; each is one of Scrapy's own errors too."""

from __future__ import annotations

from scrapy.exceptions import (
    DownloadCancelledError,
    DownloadFailedError,
    IgnoreRequest,
)


class PrivateAddress(DownloadCancelledError):
    """The host's address is in a network that is not crawled."""


class TooBig(DownloadCancelledError):
    """The body has more bytes than DOWNLOAD_MAXSIZE."""


class TooBigUnpacked(IgnoreRequest):
    """The same of a body that was sent compressed."""


class StoppedTooLong(DownloadFailedError):
    """The process stood still while it connected; the host may be another process's by now."""


class Malformed(DownloadFailedError):
    """The host answered, but with what is no HTTP."""


class Forbidden(IgnoreRequest):
    """The URL is not to be fetched; `reason` says by whose word."""

    BY_ROBOTS, BY_HOST_RULES = "robots", "host_rules"
    REASONS = (BY_ROBOTS, BY_HOST_RULES)

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
