"""What becomes of a process that ended."""

import pytest

from crawler.commands.fleet import CRASHES_MAX, GivenUp, Restart, after_exit
from crawler.errors import ExitCode


@pytest.mark.parametrize(
    ("code", "ran_s", "crashes", "decision"),
    [
        (0, 1.0, 3, None),
        (-9, 1.0, 0, Restart(1.0, 1)),
        (1, 1.0, 1, Restart(2.0, 2)),
        (1, 1.0, 3, Restart(8.0, 4)),
        (1, 1.0, 7, Restart(60.0, 8)),
        # It was well for a while: it starts from the beginning.
        (-11, 3600.0, 7, Restart(1.0, 1)),
    ],
)
def test_a_crash_is_followed_by_a_longer_delay_each_time(
    code: int, ran_s: float, crashes: int, decision: Restart | None
) -> None:
    assert after_exit(code, ran_s=ran_s, crashes=crashes) == decision


@pytest.mark.parametrize("code", [ExitCode.MISTAKE, ExitCode.DATA_LOST])
def test_what_would_fail_again_is_not_repeated(code: ExitCode) -> None:
    found = after_exit(code, ran_s=0.1, crashes=0)
    assert isinstance(found, GivenUp)
    assert found.code is code


def test_a_process_that_keeps_crashing_is_given_up() -> None:
    found = after_exit(1, ran_s=1.0, crashes=CRASHES_MAX)
    assert found == GivenUp(f"it crashed {CRASHES_MAX + 1} times in a row", ExitCode.FAILED)


@pytest.mark.parametrize(("away_s", "wait_s"), [(0, 1), (1.5, 1.5), (5, 5), (60, 60), (9e5, 60)])
def test_a_process_without_its_server_is_no_crash_and_is_never_given_up(
    away_s: float, wait_s: float
) -> None:
    found = after_exit(ExitCode.SERVER_AWAY, ran_s=1.0, crashes=CRASHES_MAX, away_s=away_s)
    assert found == Restart(wait_s, CRASHES_MAX)


def test_a_process_without_its_server_is_given_up_when_somebody_said_so() -> None:
    code = ExitCode.SERVER_AWAY
    assert after_exit(code, ran_s=1, crashes=0, away_s=9.9, give_up_s=10) == Restart(9.9, 0)
    found = after_exit(code, ran_s=1, crashes=0, away_s=10, give_up_s=10)
    assert found == GivenUp("a server was away for 10 s", code)


def test_a_process_that_somebody_stopped_is_not_started_again() -> None:
    assert after_exit(ExitCode.INTERRUPTED, ran_s=1.0, crashes=0) is None
