"""Errors that are meant for users, and the exit codes of commands."""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """Exit code of a command. Of several that fit, the largest below INTERRUPTED says most."""

    # The crawl is over, a limit is reached, or it was stopped gracefully.
    DONE = 0
    # A feed or start() failed, the process did not end by itself, or Python raised an exception.
    # Of commands that look something up: it is not there.
    FAILED = 1
    # Arguments, settings or seeds are wrong: the next start would fail the same way.
    MISTAKE = 2
    # Redis or MongoDB does not answer, or takes nothing now: a later start may work.
    SERVER_AWAY = 3
    # Redis lost more of the crawl than its processes can repeat: somebody has to decide.
    DATA_LOST = 4
    # A signal stopped it before the crawl began, or a second one stopped it at once.
    INTERRUPTED = 130


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
