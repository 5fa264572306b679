"""Errors of commands: one line each, and the exit code that says what kind it was."""

from types import SimpleNamespace

import pytest
import redis
from pymongo.errors import ServerSelectionTimeoutError

from crawler.commands._verbs import errors_in_one_line, whole_number
from crawler.errors import ConfigurationError, CrawlerError, ExitCode, NotFound


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (CrawlerError("no"), ExitCode.MISTAKE, "scrapy x: no"),
        (ConfigurationError("A is 1."), ExitCode.MISTAKE, "scrapy x: A is 1."),
        (NotFound("It is not there."), ExitCode.FAILED, "scrapy x: It is not there."),
        (redis.ConnectionError("gone"), ExitCode.SERVER_AWAY, "scrapy x: Redis does not answer: g"),
        (
            FileNotFoundError(2, "No such file", "a.txt"),
            ExitCode.MISTAKE,
            "scrapy x: a.txt: No such",
        ),
        (OSError(28, "No space left"), ExitCode.MISTAKE, "scrapy x: OSError: [Errno 28] No space"),
        (TimeoutError(), ExitCode.SERVER_AWAY, "scrapy x: A connection failed (TimeoutError)\n"),
        (
            ConnectionRefusedError(111, "Connect call failed"),
            ExitCode.SERVER_AWAY,
            "scrapy x: A connection failed (ConnectionRefusedError): [Errno 111] Connect",
        ),
        (ServerSelectionTimeoutError("gone"), ExitCode.SERVER_AWAY, "scrapy x: MongoDB: "),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED, "scrapy x: stopped"),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(
    error: BaseException, code: ExitCode, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = SimpleNamespace(exitcode=0)
    with errors_in_one_line(command, "x"):
        raise error
    assert command.exitcode == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(line)
    assert shown.err.count("\n") == 1


def test_other_errors_keep_their_traceback() -> None:
    with pytest.raises(KeyError), errors_in_one_line(SimpleNamespace(exitcode=0), "x"):
        raise KeyError("a mistake of ours")


def test_a_whole_number_is_read() -> None:
    assert whole_number("12") == 12
