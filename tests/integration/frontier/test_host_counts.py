"""Counts of hosts that a fleet shares, on a real Redis."""

from __future__ import annotations

from crawler.counting import Counting
from crawler.frontier.host_counts import HostCounts
from crawler.policy.host_tally import HostTally
from crawler.policy.priority import Host
from tests.integration.frontier.fleet import CRAWL, Place


def process(place: Place) -> tuple[HostTally, Counting]:
    tally = HostTally(1000)
    return tally, Counting(tally, HostCounts(place.redis, CRAWL, place.shards))


async def test_what_one_process_counts_the_others_learn_with_their_own(place: Place) -> None:
    (one, telling), (other, also_telling) = process(place), process(place)
    for number in range(700):
        one.add(f"h{number}.test", urls=number, inbound=1)
    await telling.tell()
    other.add("h600.test", inbound=2)
    await also_telling.tell()
    assert other.of("h600.test") == Host(urls=600, inbound=3)
    # The first learns of it when it counts that host again.
    one.add("h600.test", urls=1)
    await telling.tell()
    assert one.of("h600.test") == Host(urls=601, inbound=3)
    assert one.of("h5.test") == Host(urls=5, inbound=1)


async def test_the_last_counts_are_told_at_the_end(place: Place) -> None:
    tally, telling = process(place)
    telling.open()
    tally.add("a.test", urls=3)
    await telling.close()
    counts = HostCounts(place.redis, CRAWL, place.shards)
    assert await counts.add({"a.test": (0, 0)}) == {"a.test": (3, 0)}
