"""Shards over slots, hosts over shards, shards over instances: evenly, and with few moves."""

from __future__ import annotations

from collections import Counter

import pytest
from redis.crc import key_slot

from crawler.frontier.frontier import SLOTS, preferred, shard_of, tags


@pytest.mark.parametrize("shards", [1, 2, 3, 4, 12, 48])
def test_each_shard_lies_in_its_own_part_of_the_slots(shards: int) -> None:
    for shard, tag in enumerate(tags("some crawl", shards)):
        slot = key_slot(f"{tag}:host_heap".encode())
        assert slot == key_slot(tag.encode())
        assert shard * SLOTS // shards <= slot < (shard + 1) * SLOTS // shards


@pytest.mark.parametrize("masters", [3, 4, 6])
def test_masters_get_the_same_number_of_shards(masters: int) -> None:
    shards = 4 * masters
    slots = [key_slot(tag.encode()) for tag in tags("web", shards)]
    assert set(Counter(slot * masters // SLOTS for slot in slots).values()) == {4}


def test_tags_are_the_same_every_time_and_different_for_every_crawl() -> None:
    assert tags("a", 12) == tags("a", 12)
    assert not set(tags("a", 12)) & set(tags("b", 12))
    assert len(set(tags("a", 12))) == 12


def test_hosts_spread_evenly_over_shards() -> None:
    counter = Counter(shard_of(f"host{i}.test", 12) for i in range(12_000))
    assert set(counter) == set(range(12))
    assert all(850 < number < 1150 for number in counter.values())


def test_one_shard_has_every_host() -> None:
    assert shard_of("a.test", 1) == 0


def test_every_instance_may_claim_from_every_shard() -> None:
    live = ["a", "b", "c"]
    for name in live:
        assert sorted(preferred(12, name, live)) == list(range(12))


def test_an_instance_alone_prefers_all_shards_in_their_order() -> None:
    assert preferred(12, "a", ["a"]) == list(range(12))
    assert preferred(12, "a", []) == list(range(12))


def firsts(shards: int, live: list[str]) -> dict[int, set[str]]:
    """For each shard the instances that ask it first of all."""
    found: dict[int, set[str]] = {shard: set() for shard in range(shards)}
    for name in live:
        found[preferred(shards, name, live)[0]].add(name)
    return found


def test_no_two_instances_begin_with_the_same_shard_while_each_has_its_own() -> None:
    live = [f"instance{i}" for i in range(4)]
    assert max(len(names) for names in firsts(400, live).values()) == 1


@pytest.mark.parametrize("number", [2, 3, 5, 8])
def test_one_that_joins_moves_its_share_and_no_more(number: int) -> None:
    shards = 1200
    before = [f"instance{i}" for i in range(number)]
    after = [*before, "new"]
    # An instance's own shards come first and in ascending order; the rest does not.
    kept = 0
    for name in before:
        own_before = own(shards, name, before)
        own_after = own(shards, name, after)
        assert own_after <= own_before
        kept += len(own_after)
    fair = shards / (number + 1)
    assert 0.7 * fair < shards - kept < 1.3 * fair


def own(shards: int, name: str, live: list[str]) -> set[int]:
    order = preferred(shards, name, live)
    ascending = 1
    while ascending < shards and order[ascending] > order[ascending - 1]:
        ascending += 1
    return set(order[: ascending - 1])


def test_idle_instances_turn_to_different_shards() -> None:
    live = [f"instance{i}" for i in range(6)]
    # Beyond its own shards, each has an order of its own.
    tails = {tuple(preferred(48, name, live)[-20:]) for name in live}
    assert len(tails) == 6
