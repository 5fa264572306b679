"""When a shard whose server is away is asked again."""

import pytest

from crawler.scheduling import claimer
from crawler.scheduling.claimer import ShardBackoff


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(claimer, "monotonic", lambda: now[0])
    monkeypatch.setattr(claimer.random, "random", lambda: 1.0)
    return now


def test_the_others_are_asked_meanwhile(clock: list[float]) -> None:
    found = ShardBackoff()
    assert not found
    found.failed(1)
    assert found
    assert found.without([2, 1, 0]) == [2, 0]
    found.worked(1)
    assert not found
    assert found.without([2, 1, 0]) == [2, 1, 0]


def test_it_is_asked_again_ever_more_rarely(clock: list[float]) -> None:
    found, waits = ShardBackoff(), []
    for _ in range(8):
        found.failed(0)
        since = clock[0]
        while not found.without([0]):
            clock[0] += 0.01
        waits.append(clock[0] - since)
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0], abs=0.02)


def test_when_all_answer_all_are_asked(clock: list[float]) -> None:
    found = ShardBackoff()
    found.failed(0)
    found.failed(1)
    found.clear()
    assert not found
    assert found.without([0, 1]) == [0, 1]
