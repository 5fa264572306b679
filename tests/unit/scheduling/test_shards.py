"""Shards over processes, by each strategy; and when a process asks which of them."""

from __future__ import annotations

from itertools import chain

import pytest

from crawler.discovery.seeds import parse_seed
from crawler.frontier import Claim, Lease
from crawler.scheduling.shards import ShardTurns, own_shards, preferred

LEASE = Lease(0, b"1", parse_seed("http://a.test/", now_s=0))


def claim(leases: int = 0, *, wait_ms: int | None = None, more: bool = False) -> Claim:
    return Claim([LEASE] * leases, "ok", wait_ms, None, more)


def own(strategy: str, shards: int, live: list[str]) -> list[list[int]]:
    return [own_shards(strategy, shards, name, live=live, sizes=[]) for name in live]


# --- strategies ----------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["sticky", "hash"])
def test_every_shard_is_the_own_one_of_one_instance(strategy: str) -> None:
    live = [f"instance{i}" for i in range(5)]
    assert sorted(chain(*own(strategy, 48, live))) == list(range(48))


@pytest.mark.parametrize("strategy", ["sticky", "hash", "round_robin"])
def test_an_instance_alone_has_all_shards(strategy: str) -> None:
    assert own(strategy, 12, ["a"]) == [list(range(12))]


def test_by_hash_all_have_the_same_number_of_shards() -> None:
    assert sorted(map(len, own("hash", 8, ["b", "a", "c"]))) == [2, 3, 3]


def test_an_instance_that_is_not_known_to_be_live_has_all_shards() -> None:
    assert own_shards("hash", 4, "a", live=["b"], sizes=[]) == [0, 1, 2, 3]
    assert preferred(4, "a", []) == [0, 1, 2, 3]


@pytest.mark.parametrize("number", [2, 3, 5, 8])
def test_a_sticky_instance_that_joins_moves_its_share_and_no_more(number: int) -> None:
    shards = 1200
    before = [f"instance{i}" for i in range(number)]
    kept = 0
    for name in before:
        own_before = {*preferred(shards, name, before)}
        own_after = {*preferred(shards, name, [*before, "new"])}
        assert own_after <= own_before
        kept += len(own_after)
    fair = shards / (number + 1)
    assert 0.7 * fair < shards - kept < 1.3 * fair


# --- turns ---------------------------------------------------------------------------------------


def turns() -> ShardTurns:
    """Return turns of four shards, of which two are the process's own."""
    found = ShardTurns(4)
    found.use("sticky", [1, 3])
    return found


def test_own_shards_take_turns_and_come_first() -> None:
    found = turns()
    orders = [found.turn() for _ in range(4)]
    assert all(sorted(own) == [1, 3] and sorted(others) == [0, 2] for own, others in orders)
    assert {own[0] for own, _ in orders} == {1, 3}
    assert {others[0] for _, others in orders} == {0, 2}


def test_a_balanced_process_begins_with_the_fullest_every_time() -> None:
    found = ShardTurns(3)
    found.use("balanced", [2, 0, 1])
    assert found.turn() == found.turn() == ([2, 0, 1], [])


@pytest.mark.parametrize(
    ("answer", "own_s", "others_s"),
    [
        (claim(5), 0.0, 0.0),
        (claim(4, wait_ms=300), 0.3, 1.0),
        (claim(0, wait_ms=300), 0.3, 1.0),
        (claim(0, wait_ms=9000), 1.0, 1.0),
        (claim(0), 1.0, 1.0),
        (claim(0, more=True), 0.0, 0.0),
    ],
    ids=["all", "some", "due soon", "due late", "nothing", "more"],
)
def test_a_shard_is_asked_again_when_a_host_is_due_but_those_of_others_later(
    answer: Claim, own_s: float, others_s: float
) -> None:
    found = turns()
    for shard, wait_s in ((1, own_s), (0, others_s)):
        found.asked(shard, answer, wanted=5, now_s=100.0)
        assert found.wait_s(shard, 100.0) == pytest.approx(wait_s)
        assert found.wait_s(shard, 101.0) == 0


def test_own_shards_are_asked_again_as_soon_as_something_changed() -> None:
    found = turns()
    for shard in range(4):
        found.asked(shard, claim(), wanted=5, now_s=100.0)
    found.changed(100.2)
    waits = [found.wait_s(shard, 100.2) for shard in range(4)]
    assert waits == pytest.approx([0.1, 0.0, 0.1, 0.0])
