"""Failures of a fetch that Scrapy has no word for; each is one of Scrapy's own errors too."""

from __future__ import annotations

from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadFailedError,
)


class NoSuchHost(CannotResolveHostError):
    """DNS says that there is no such name, or that it has no address."""


class DnsFailed(CannotResolveHostError):
    """DNS gave no answer: the name may exist."""


class PrivateAddress(DownloadCancelledError):
    """The host's address is in a network that is not crawled."""


class TooBig(DownloadCancelledError):
    """The body has more bytes than DOWNLOAD_MAXSIZE."""


class StoppedTooLong(DownloadFailedError):
    """The process stood still while it connected; the host may be another process's by now."""
