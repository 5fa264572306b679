"""A run is lost when it has been silent for long; what its end is called."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from crawler.storage.runs import LOST_AFTER, Run, ended_state

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
RUN = Run(
    id="20260504T115000-00000000",
    crawl="web",
    spider="web",
    machine="m1",
    pid=1,
    user="me",
    worker="w",
    command="",
    started=NOW - timedelta(minutes=10),
    seen=NOW - LOST_AFTER,
)


def test_a_run_is_lost_after_a_long_silence() -> None:
    assert RUN.as_of(NOW) == RUN
    lost = RUN.as_of(NOW + SECOND)
    assert (lost.state, lost.ended) == ("lost", RUN.seen)


def test_a_run_that_ended_is_never_lost() -> None:
    ended = replace(RUN, state="finished", ended=RUN.seen)
    assert ended.as_of(NOW + timedelta(days=9)) == ended


def test_a_run_marks_those_as_lost_that_readers_show_as_lost() -> None:
    assert replace(RUN, seen=NOW).lost_before == RUN.seen


@pytest.mark.parametrize(
    ("reason", "code", "state"),
    [
        ("finished", 0, "finished"),
        ("shutdown", 0, "stopped"),
        ("max_pages", 0, "ended"),
        ("waiting", 0, "ended"),
        ("finished", 1, "failed"),
        ("redis_lost", 3, "failed"),
    ],
)
def test_the_state_of_a_run_that_ended(reason: str, code: int, state: str) -> None:
    assert ended_state(reason, code) == state


def test_times_are_texts_in_json() -> None:
    found = RUN.to_json()
    assert found["started"] == "2026-05-04T11:50:00+00:00"
    assert found["ended"] is None
