"""What becomes of a process that ended."""

import pytest

from crawler.policy.restarts import CRASHES_MAX, Again, Ended, GivenUp, after_exit


@pytest.mark.parametrize(
    ("code", "ran_s", "crashes", "decision"),
    [
        (0, 1.0, 3, Ended()),
        (-9, 1.0, 0, Again(1.0, 1)),
        (1, 1.0, 1, Again(2.0, 2)),
        (1, 1.0, 3, Again(8.0, 4)),
        (1, 1.0, 7, Again(60.0, 8)),
        # It was well for a while: it starts from the beginning.
        (-11, 3600.0, 7, Again(1.0, 1)),
    ],
)
def test_a_crash_is_followed_by_a_longer_rest_each_time(
    code: int, ran_s: float, crashes: int, decision: Ended | Again
) -> None:
    assert after_exit(code, ran_s=ran_s, crashes=crashes) == decision


def test_mistakes_are_not_repeated() -> None:
    assert isinstance(after_exit(2, ran_s=0.1, crashes=0), GivenUp)


def test_a_process_that_keeps_crashing_is_given_up() -> None:
    found = after_exit(1, ran_s=1.0, crashes=CRASHES_MAX)
    assert found == GivenUp(f"it crashed {CRASHES_MAX + 1} times in a row")
