"""When a shard whose server does not answer is asked again."""

import math

import pytest

from crawler.scheduling import lease_pool
from crawler.scheduling.lease_pool import ShardBackoff


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(lease_pool, "monotonic", lambda: now[0])
    monkeypatch.setattr(lease_pool.random, "random", lambda: 1.0)
    return now


def test_the_others_are_asked_meanwhile(clock: list[float]) -> None:
    backoff = ShardBackoff()
    assert not backoff
    backoff.failed(1)
    assert backoff
    assert [shard for shard in (2, 1, 0) if backoff.is_due(shard)] == [2, 0]
    backoff.worked(1)
    assert not backoff
    assert backoff.is_due(1)


def test_it_is_asked_again_ever_more_rarely(clock: list[float]) -> None:
    backoff, waits = ShardBackoff(), []
    for _ in range(8):
        backoff.failed(0)
        since = clock[0]
        while not backoff.is_due(0):
            clock[0] += 0.01
        waits.append(clock[0] - since)
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0], abs=0.02)


def test_a_shard_that_missed_a_beat_waits_for_the_next_one(clock: list[float]) -> None:
    backoff = ShardBackoff()
    backoff.failed(0, until=math.inf)
    clock[0] += 1e6
    assert not backoff.is_due(0)
    backoff.worked(0)
    assert backoff.is_due(0)
