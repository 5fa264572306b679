"""Errors whose text is meant for users, and the exit codes of commands."""

from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """Exit code of a command. If several fit, the largest below INTERRUPTED is used."""

    # The crawl is over, a limit is reached, or it was stopped gracefully.
    DONE = 0
    # A feed or start() failed, the process did not end by itself, or Python raised an exception.
    # From commands that look something up: not found.
    FAILED = 1
    # Arguments, settings or seeds are wrong: the next start would fail the same way.
    MISTAKE = 2
    # Redis or a sink does not answer or accepts no writes: a later start may work.
    SERVER_AWAY = 3
    # Redis or a store lost more of the crawl than its processes can restore: people have to decide.
    DATA_LOST = 4
    # A signal stopped it before the crawl began, or a second one stopped it at once.
    INTERRUPTED = 130


class CrawlerError(Exception):
    """Error whose text is meant for users: it says what to do."""

    # Exit code of a command that ends with this error.
    exit_code: ClassVar[ExitCode] = ExitCode.MISTAKE


class ConfigurationError(CrawlerError):
    """Error of a setting, a file or a server that is missing or wrong."""


class ServerAway(CrawlerError):
    """Error of a server that does not answer or accepts no writes; later it may."""

    exit_code = ExitCode.SERVER_AWAY


class DataLost(CrawlerError):
    """Error of data that a server had and has no more: people have to decide."""

    exit_code = ExitCode.DATA_LOST


class NotFound(CrawlerError):
    """Error of something that was asked for and does not exist."""

    exit_code = ExitCode.FAILED


class NotStored(CrawlerError):
    """Error of an item that the store does not take now; its URL loses no attempt."""

    exit_code = ExitCode.SERVER_AWAY


class SinkAway(CrawlerError):
    """Error of a sink that cannot be written to now; the same write may work later."""

    exit_code = ExitCode.SERVER_AWAY
