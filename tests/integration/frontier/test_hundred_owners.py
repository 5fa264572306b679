"""A hundred instances at work on one frontier at once, some of which die, in virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from crawler.frontier import Frontier, Lease
from tests.integration.frontier.fleet import T0, Place, beat, claim, entry

T = TypeVar("T")

OWNERS, DYING, LEAVING = 100, 10, 5
HOSTS, PAGES = 300, 8
# As many in all as there are hosts.
SHARE = HOSTS // OWNERS
STEP_MS, REST_MS, TTL_MS = 1000, 900, 30_000
ROUNDS_MAX = 40
# Instances by which the order of claims is turned in each round.
TURN = 7
# A client of a cluster has so many connections to each master, and here all share one client.
AT_ONCE = 10


async def at_once(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Await calls, AT_ONCE of them at the same time."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def in_turn(call: Coroutine[Any, Any, T]) -> T:
        async with turns:
            return await call

    return await asyncio.gather(*map(in_turn, calls))


class Crawl:
    """The instances, what they hold, and what hosts and URLs have seen of them."""

    def __init__(self, fleet: list[Frontier]) -> None:
        self.fleet = fleet
        self.now_ms = T0
        self.held: dict[str, list[Lease]] = {each.owner: [] for each in fleet}
        self.fetched: Counter[str] = Counter()
        # By instance.
        self.shares: Counter[str] = Counter()
        # By host: the instance that occupies it, and when the next contact is due.
        self._occupied: dict[str, str] = {}
        self._due_ms: dict[str, int] = {}
        self._leased: dict[str, str] = {}

    async def claim_all(self) -> int:
        """Let all instances claim at the same time; returns the number of leases."""
        # None is always among the first.
        self.fleet = [*self.fleet[TURN:], *self.fleet[:TURN]]
        found = await at_once(claim(each, SHARE, now_ms=self.now_ms) for each in self.fleet)
        for frontier, leases in zip(self.fleet, found, strict=True):
            assert len(leases) <= SHARE
            for lease in leases:
                self._take(frontier.owner, lease)
        return sum(map(len, found))

    def _take(self, owner: str, lease: Lease) -> None:
        url, host = lease.entry.url, lease.entry.host
        assert url not in self._leased, f"{url} is leased to {self._leased[url]} too"
        assert host not in self._occupied, f"{host} is occupied by {self._occupied[host]}"
        assert self.now_ms >= self._due_ms.get(host, 0), f"{host} is contacted too early"
        self._leased[url] = self._occupied[host] = owner
        self.held[owner].append(lease)
        self.shares[owner] += 1

    async def settle_all(self) -> None:
        """Let all instances end what they hold at the same time."""
        await at_once(self._settle(each) for each in self.fleet)
        self.now_ms += STEP_MS

    async def _settle(self, frontier: Frontier) -> None:
        leases = self.held[frontier.owner]
        await self.release(frontier)
        await frontier.done([(lease, True) for lease in leases])
        for lease in leases:
            self.fetched[lease.entry.url] += 1
        self.forget(frontier.owner)

    async def release(self, frontier: Frontier) -> None:
        """End the fetches of an instance."""
        leases = self.held[frontier.owner]
        await frontier.release([(lease, REST_MS) for lease in leases], now_ms=self.now_ms)
        for lease in leases:
            self._due_ms[lease.entry.host] = self.now_ms + REST_MS
            self._occupied.pop(lease.entry.host, None)

    def forget(self, owner: str) -> list[Lease]:
        """Return what an instance held; it may be leased again."""
        leases, self.held[owner] = self.held[owner], []
        for lease in leases:
            del self._leased[lease.entry.url]
            self._occupied.pop(lease.entry.host, None)
        return leases

    async def beat_all(self) -> None:
        """Let all instances beat, each with what it holds."""
        await at_once(beat(each, self.held[each.owner], now_ms=self.now_ms) for each in self.fleet)

    async def run(self, rounds: int) -> None:
        """Crawl for so many rounds."""
        for _ in range(rounds):
            await self.claim_all()
            await self.settle_all()


async def test_a_hundred_instances_share_a_frontier_and_lose_nothing(place: Place) -> None:
    fleet = [await place.instance() for _ in range(OWNERS)]
    urls = {f"http://h{host}.test/{page}" for host in range(HOSTS) for page in range(PAGES)}
    await fleet[0].add([entry(url) for url in sorted(urls)])
    crawl = Crawl(fleet)

    # While there is enough for all, all have the same.
    await crawl.run(3)
    assert set(crawl.shares.values()) == {3 * SHARE}
    assert len(crawl.shares) == OWNERS

    # Some die: half of them in the middle of their fetches, half with pages that are not stored.
    await crawl.claim_all()
    dead, crawl.fleet = fleet[:DYING], fleet[DYING:]
    for frontier in dead[: DYING // 2]:
        await crawl.release(frontier)
    await crawl.settle_all()
    lost = [lease for frontier in dead for lease in crawl.held[frontier.owner]]
    assert len(lost) == DYING * SHARE
    # Some leave.
    for frontier in crawl.fleet[:LEAVING]:
        await frontier.leave()
    del crawl.fleet[:LEAVING]

    # The others go on, and have the same again. Nobody has what the dead hold: _take() asserts it.
    await crawl.run(2)
    assert {crawl.shares[each.owner] for each in crawl.fleet} == {6 * SHARE}
    crawl.now_ms += TTL_MS
    await crawl.beat_all()
    # Several find them dead at the same time.
    taken = await at_once(
        each.reclaim(silence_ms=TTL_MS, delay_ms=REST_MS, now_ms=crawl.now_ms)
        for each in crawl.fleet[:5]
    )
    assert sum(taken) == len(lost)
    late = {frontier.owner: crawl.forget(frontier.owner) for frontier in dead}
    crawl.now_ms += STEP_MS
    await crawl.claim_all()
    # The dead were only slow: what they say now changes nothing.
    done = (await fleet[0].sizes()).done
    for frontier in dead:
        leases = late[frontier.owner]
        await frontier.release([(lease, 0) for lease in leases], now_ms=crawl.now_ms)
        await frontier.done([(lease, True) for lease in leases])
    assert (await fleet[0].sizes()).done == done
    await crawl.settle_all()

    rounds = 0
    while (await fleet[0].sizes()).unfinished:
        rounds += 1
        assert rounds < ROUNDS_MAX, "it does not end"
        await crawl.run(1)
    # Each URL once, also those of the dead: their fetches were not settled.
    assert crawl.fetched == dict.fromkeys(urls, 1)
    sizes = await fleet[0].sizes()
    assert (sizes.done, sizes.leased, sizes.dead) == (len(urls), 0, 0)
