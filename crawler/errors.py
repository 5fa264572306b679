"""The errors of this project that are meant for its users."""

from __future__ import annotations

from typing import ClassVar

from crawler.policy.exit_codes import ExitCode


class CrawlerError(Exception):
    """An error whose text is meant for the user: it says what to do."""

    # Of a command that ends with it.
    exit_code: ClassVar[ExitCode] = ExitCode.MISTAKE


class ConfigurationError(CrawlerError):
    """A setting, a file or a server that the crawl needs is missing or wrong."""


class ServerAway(CrawlerError):
    """A server that the crawl needs does not answer, or takes nothing now: later it may."""

    exit_code = ExitCode.SERVER_AWAY


class NotFound(CrawlerError):
    """What was asked for is not there."""

    exit_code = ExitCode.FAILED


class NotStored(CrawlerError):
    """An item has no place to go now, through no fault of its own: its URL costs no attempt."""

    exit_code = ExitCode.SERVER_AWAY
