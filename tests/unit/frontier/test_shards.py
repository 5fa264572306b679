"""Shards over slots, and hosts over shards: evenly."""

from __future__ import annotations

from collections import Counter

import pytest
from redis.crc import key_slot

from crawler.frontier.frontier import SLOTS, shard_of, tags


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
