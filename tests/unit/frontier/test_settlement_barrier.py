"""A page is done when no master can lose what was acknowledged since its lease was claimed."""

import asyncio

from crawler.frontier import Added, Lease
from crawler.frontier.outbox import SAFE_AFTER_S, Add, RecentAdds, SettlementBarrier
from tests.integration.frontier.fleet import entry


class Masters:
    """Three with a shard each, on a clock of the test's own; what was settled, in order."""

    def __init__(self) -> None:
        self.recents = [RecentAdds() for _ in range(3)]
        self.barrier = SettlementBarrier(self.recents)
        self.settled: list[str] = []

    def acknowledge(self, shard: int, now_s: float) -> Add:
        future: asyncio.Future[Added] = asyncio.get_running_loop().create_future()
        add = Add([entry("http://a.test/")], "new", future)
        self.recents[shard].acknowledged(add, Added("1"), now_s=now_s)
        return add

    def finish(self, name: str, *, claimed_s: float) -> None:
        lease = Lease(0, name.encode(), entry(f"http://{name}.test/"), claimed_s)
        self.barrier.settle(lease, lambda: self.settled.append(name))

    def beat(self, shard: int, at_s: float) -> None:
        self.recents[shard].seen_alive(at_s)
        self.barrier.check(shard)


async def test_what_no_master_can_lose_is_settled_at_once() -> None:
    masters = Masters()
    masters.finish("first", claimed_s=0.0)
    masters.acknowledge(1, 10.0)
    masters.beat(1, 10.0 + SAFE_AFTER_S)
    masters.finish("second", claimed_s=5.0)
    assert masters.settled == ["first", "second"]
    assert not masters.barrier


async def test_a_page_waits_for_all_that_acknowledged_something_since_it_was_claimed() -> None:
    masters = Masters()
    masters.acknowledge(0, 10.0)
    masters.acknowledge(1, 11.0)
    masters.finish("page", claimed_s=9.0)
    masters.beat(0, 10.0 + SAFE_AFTER_S)
    # Seen alive a moment too early says nothing.
    masters.beat(1, 11.0 + SAFE_AFTER_S - 0.1)
    assert (masters.settled, len(masters.barrier)) == ([], 1)
    masters.beat(1, 11.0 + SAFE_AFTER_S)
    assert (masters.settled, len(masters.barrier)) == (["page"], 0)


async def test_one_that_was_claimed_after_a_master_went_away_does_not_wait_for_it() -> None:
    masters = Masters()
    masters.acknowledge(2, 10.0)
    masters.finish("before", claimed_s=9.0)
    masters.acknowledge(0, 12.0)
    masters.finish("after", claimed_s=11.0)
    masters.beat(0, 12.0 + SAFE_AFTER_S)
    assert masters.settled == ["after"]
    masters.beat(2, 20.0)
    assert masters.settled == ["after", "before"]


async def test_links_that_are_made_once_more_are_waited_for_again() -> None:
    masters = Masters()
    add = masters.acknowledge(1, 10.0)
    masters.finish("page", claimed_s=9.0)
    assert masters.recents[1].take_doubtful() == [add]
    masters.beat(1, 30.0)
    assert masters.settled == []
    masters.recents[1].acknowledged(add, Added("0"), now_s=31.0)
    masters.beat(1, 31.0 + SAFE_AFTER_S)
    assert masters.settled == ["page"]


async def test_what_waits_for_a_master_that_was_given_up_on_is_not_settled() -> None:
    masters = Masters()
    for shard in (0, 1):
        masters.acknowledge(shard, 10.0)
    masters.finish("page", claimed_s=9.0)
    masters.barrier.drop(1)
    assert not masters.barrier
    masters.beat(0, 20.0)
    assert masters.settled == []
