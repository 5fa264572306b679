"""claim: lease URLs of hosts that may be contacted now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from crawler.frontier import Entry, Frontier, Lease, OwnerDead, Tuning
from crawler.frontier.entry import encode
from crawler.frontier.frontier import shard_of
from crawler.frontier.tuning import TypeBudgets
from tests.integration.frontier.fleet import (
    T0,
    Place,
    beat,
    claim,
    crawl,
    entries,
    entry,
    hosts,
    one,
    request_id,
    urls,
)

Settle = Callable[[Frontier, Lease], Awaitable[None]]

# Ends of a lease that gave no page.
SETTLES: dict[str, Settle] = {
    "done": lambda frontier, lease: frontier.done([(lease, False)]),
    "retry": lambda frontier, lease: frontier.retry([(lease, 1000, lease.entry)], now_ms=T0),
    "bury": lambda frontier, lease: frontier.bury([(lease, "gone")], now_ms=T0),
    "hand_back": lambda frontier, lease: frontier.hand_back([(lease, 0)], now_ms=T0),
}


async def test_a_lease_carries_the_entry_and_a_token(frontier: Frontier) -> None:
    page = entry("http://a.test/", 3, depth=2, parent=9)
    await frontier.add([page])
    lease = await one(frontier)
    assert lease.entry == page
    assert int(lease.token) > 0
    assert lease.shard == shard_of("a.test", frontier.shards)


async def test_no_host_is_leased_twice_at_once(frontier: Frontier, place: Place) -> None:
    other = await place.instance()
    await frontier.add(entries(5))
    assert len(await claim(frontier)) == 1
    assert await claim(frontier) == await claim(other) == []


async def test_a_host_is_contacted_again_when_its_clock_says_so(frontier: Frontier) -> None:
    await frontier.add(entries(3))
    first = await one(frontier)
    await frontier.release([(first, 700)], now_ms=T0 + 100)
    assert await claim(frontier, now_ms=T0 + 799) == []
    assert len(await claim(frontier, now_ms=T0 + 800)) == 1


async def test_the_clock_of_an_idle_host_is_kept(frontier: Frontier) -> None:
    await frontier.add([entry("http://a.test/1")])
    await crawl(frontier, await one(frontier), rest_ms=700)
    await frontier.add([entry("http://a.test/2")])
    assert await claim(frontier, now_ms=T0 + 699) == []
    assert len(await claim(frontier, now_ms=T0 + 700)) == 1


async def test_an_idle_host_is_forgotten_an_hour_after_its_clock(
    frontier: Frontier, place: Place
) -> None:
    await frontier.add([entry("http://a.test/")])
    lease, key = await one(frontier), place.key("a.test", "host:a.test")
    assert await place.redis.pttl(key) == -1
    await crawl(frontier, lease, rest_ms=5000)
    assert await place.redis.pttl(key) > 0


async def test_time_never_runs_backwards(frontier: Frontier) -> None:
    await frontier.add(entries(2))
    lease = await one(frontier, now_ms=T0 + 10_000)
    await frontier.release([(lease, 500)], now_ms=T0)
    assert await claim(frontier, now_ms=T0 + 10_499) == []
    assert len(await claim(frontier, now_ms=T0 + 10_500)) == 1


async def test_a_claim_says_when_the_next_host_is_due(frontier: Frontier) -> None:
    await frontier.add(entries(2))
    lease = await one(frontier)
    shard = lease.shard
    busy = await frontier.claim(5, request_id(), shard=shard, now_ms=T0)
    assert (busy.leases, busy.wait_ms, busy.delayed_ms, busy.more) == ([], None, None, False)
    await frontier.release([(lease, 400)], now_ms=T0)
    resting = await frontier.claim(5, request_id(), shard=shard, now_ms=T0 + 100)
    assert (resting.leases, resting.wait_ms) == ([], 300)


async def test_a_claim_says_when_the_next_delayed_url_is_due(frontier: Frontier) -> None:
    await frontier.add([entry("http://a.test/")])
    lease = await one(frontier)
    await frontier.retry([(lease, 5000, lease.entry)], now_ms=T0)
    waiting = await frontier.claim(1, request_id(), shard=lease.shard, now_ms=T0 + 1000)
    assert waiting.delayed_ms == 4000
    due = await frontier.claim(1, request_id(), shard=lease.shard, now_ms=T0 + 5000)
    assert due.delayed_ms == 0


async def test_the_same_request_id_brings_the_same_leases(frontier: Frontier) -> None:
    await frontier.add(hosts(8))
    shard = shard_of("h0.test", frontier.shards)
    first = await frontier.claim(2, "same", shard=shard, now_ms=T0)
    again = await frontier.claim(2, "same", shard=shard, now_ms=T0 + 5)
    assert first.leases
    assert sorted(urls(again.leases)) == sorted(urls(first.leases))
    assert {x.token for x in again.leases} == {x.token for x in first.leases}


async def test_a_repeated_claim_leaves_out_what_was_settled(frontier: Frontier) -> None:
    await frontier.add([entry("http://a.test/")])
    shard = shard_of("a.test", frontier.shards)
    first = await frontier.claim(1, "same", shard=shard, now_ms=T0)
    await frontier.done([(first.leases[0], True)])
    assert (await frontier.claim(1, "same", shard=shard, now_ms=T0)).leases == []


async def test_an_owner_that_is_not_registered_gets_nothing(frontier: Frontier) -> None:
    await frontier.add(hosts(3))
    frontier.owner = "nobody"
    with pytest.raises(OwnerDead):
        await frontier.claim(1, request_id(), now_ms=T0)


async def test_routing_stops_when_enough_hosts_are_ready(frontier: Frontier, place: Place) -> None:
    many = [e for e in hosts(600) if shard_of(e.host, place.shards) == 0]
    await frontier.add(many)
    assert len((await frontier.claim(3, request_id(), now_ms=T0)).leases) == 3
    assert sum((await frontier.sizes()).front) == len(many) - 3


async def test_one_call_routes_a_thousand_urls_and_says_that_there_are_more(
    frontier: Frontier,
) -> None:
    await frontier.add([entry(f"http://a.test/{i}", 1 + i % 2) for i in range(1500)])
    await frontier.add([entry("http://b.test/")])
    shard = shard_of("a.test", frontier.shards)
    first = await frontier.claim(2, request_id(), shard=shard, now_ms=T0)
    assert (len(first.leases), first.more) == (1, True)
    second = await frontier.claim(2, request_id(), shard=shard, now_ms=T0)
    assert not second.more
    assert (await frontier.sizes()).back >= 1499


async def test_hosts_that_rest_do_not_keep_others_from_being_routed(frontier: Frontier) -> None:
    await frontier.add(entries(3))
    await frontier.release([(await one(frontier), 60_000)], now_ms=T0)
    await frontier.add([entry("http://late.test/")])
    assert urls(await claim(frontier)) == ["http://late.test/"]


# --- priorities ----------------------------------------------------------------------------------


async def shares(frontier: Frontier, place: Place, claims: int) -> Counter[int]:
    """Claim one after the other from one shard; count the queues they came from."""
    counter: Counter[int] = Counter()
    for i in range(claims):
        lease = (await frontier.claim(1, request_id(), now_ms=T0 + i)).leases[0]
        counter[lease.entry.queue] += 1
        await crawl(frontier, lease, now_ms=T0 + i)
    return counter


def of_shard_0(number: int, queue: int, place: Place) -> list[Entry]:
    """One URL each of so many hosts in shard 0."""
    found: list[Entry] = []
    i = 0
    while len(found) < number:
        url = f"http://q{queue}n{i}.test/"
        i += 1
        if shard_of(f"q{queue}n{i - 1}.test", place.shards) == 0:
            found.append(entry(url, queue))
    return found


async def test_queues_share_a_thousand_claims_by_their_weights(
    frontier: Frontier, place: Place
) -> None:
    for queue in range(1, 6):
        await frontier.add(of_shard_0(450, queue, place))
    assert await shares(frontier, place, 1000) == {1: 400, 2: 300, 3: 200, 4: 70, 5: 30}


async def test_under_load_the_important_get_more(place: Place) -> None:
    frontier = await place.instance(tuning=Tuning(load_threshold=50 * place.shards))
    for queue in range(1, 6):
        await frontier.add(of_shard_0(150, queue, place))
    assert await shares(frontier, place, 200) == {1: 120, 2: 50, 3: 20, 4: 8, 5: 2}


async def test_an_empty_queue_passes_its_share_on(frontier: Frontier, place: Place) -> None:
    for queue in (4, 5):
        await frontier.add(of_shard_0(150, queue, place))
    counter = await shares(frontier, place, 200)
    assert counter[4] + counter[5] == 200
    assert counter[4] > counter[5] > 20


async def test_queues_without_a_share_come_when_there_are_no_others(place: Place) -> None:
    frontier = await place.instance(tuning=Tuning(weights=(0, 2, 1, 0, 0)))
    for queue in (1, 2, 4):
        await frontier.add([entry(f"http://a.test/{queue}/{i}", queue) for i in range(2)])
        await frontier.add([entry(f"http://b{queue}.test/", queue)])
    served = []
    for i in range(9):
        for lease in await claim(frontier, now_ms=T0 + i):
            served.append(lease.entry)
            await crawl(frontier, lease, now_ms=T0 + i)
    inside = [e.queue for e in served if e.host == "a.test"]
    assert (inside, len(served)) == ([2, 2, 1, 1, 4, 4], 9)


async def test_one_call_routes_the_urls_of_a_host_in_their_order(
    frontier: Frontier, place: Place
) -> None:
    found = [entry(f"http://a.test/{i}", 1 + i % 3) for i in range(30)]
    await frontier.add(found)
    first = await one(frontier)
    sizes = await frontier.sizes()
    assert (sum(sizes.front), sizes.back, sizes.hosts) == (0, 29, 0)
    for queue in (1, 2, 3):
        back = await place.redis.lrange(place.key("a.test", f"back:a.test:{queue}"), 0, -1)
        waits = [encode(e) for e in found if e.queue == queue and e != first.entry]
        assert back == waits
    await crawl(frontier, first)
    assert (await frontier.sizes()).hosts == 1


async def test_inside_a_host_the_queues_share_by_the_same_weights(
    frontier: Frontier, place: Place
) -> None:
    for queue in range(1, 6):
        await frontier.add([entry(f"http://a.test/{queue}/{i}", queue) for i in range(120)])
    counter: Counter[int] = Counter()
    for i in range(200):
        lease = await one(frontier, now_ms=T0 + i)
        counter[lease.entry.queue] += 1
        await crawl(frontier, lease, now_ms=T0 + i)
    assert counter == {1: 80, 2: 60, 3: 40, 4: 14, 5: 6}


async def test_the_least_important_are_served_beside_an_endless_stream(
    frontier: Frontier, place: Place
) -> None:
    await frontier.add([entry(f"http://a.test/low{i}", 5) for i in range(6)])
    served = 0
    for i in range(200):
        await frontier.add([entry(f"http://a.test/{i}/{j}", 1) for j in range(2)])
        lease = await one(frontier, now_ms=T0 + i)
        served += lease.entry.queue == 5
        await crawl(frontier, lease, now_ms=T0 + i)
    assert served == 6


async def test_a_host_with_very_many_urls_holds_no_other_up(frontier: Frontier) -> None:
    await frontier.add(entries(20_000, "big.test"))
    await frontier.add(hosts(20))
    leases = await claim(frontier, 100)
    assert len(leases) == 21
    assert sum(lease.entry.host == "big.test" for lease in leases) == 1
    for i in range(5):
        await frontier.add([entry(f"http://late{i}.test/")])
        assert len(await claim(frontier)) == 1


# Entries of big.test, made where they wait: a million would take too long to send.
FILL = """
for first = ARGV[1], ARGV[2], 1000 do
  local batch = {}
  for number = first, first + 999 do
    batch[#batch + 1] = string.char(16, 0, 32, 0, 0) .. struct.pack('>I4I4', 7, number)
      .. string.rep('\\0', 8) .. 'big.test/' .. number
  end
  redis.call('RPUSH', KEYS[1], unpack(batch))
end
"""
MILLION = 1_000_000


async def fill(place: Place, key: str) -> None:
    """In small steps: a cluster takes a node that is busy for long for dead."""
    for first in range(0, MILLION, 20_000):
        await place.redis.eval(FILL, 1, place.key("big.test", key), first, first + 19_999)


async def test_a_million_urls_of_a_host_in_front_hold_no_other_up(
    frontier: Frontier, place: Place
) -> None:
    await fill(place, "front:1")
    shard = shard_of("big.test", place.shards)
    names = [f"t{i}.test" for i in range(400)]
    trickle = [name for name in names if shard_of(name, place.shards) == shard][:20]
    for number, name in enumerate(trickle):
        await frontier.add([entry(f"http://{name}/", 2 + number % 4)])
        found = await frontier.claim(2, request_id(), shard=shard, now_ms=T0 + number)
        assert name in [lease.entry.host for lease in found.leases]
    sizes = await frontier.sizes()
    assert MILLION - 1000 * len(trickle) <= sizes.front[0] <= MILLION
    assert sizes.waiting == MILLION - 1


async def test_a_million_urls_of_a_host_that_is_active_hold_no_other_up(
    frontier: Frontier, place: Place
) -> None:
    await frontier.add(entries(2, "big.test"))
    big = await one(frontier)
    await fill(place, "back:big.test:1")
    await place.redis.hset(place.key("big.test", "host:big.test"), "waiting", MILLION + 1)
    await place.redis.hincrby(place.key("big.test", "stats"), "back", MILLION)
    for number in range(20):
        await crawl(frontier, big, now_ms=T0 + number)
        await frontier.add([entry(f"http://t{number}.test/", 1 + number % 5)])
        found = await claim(frontier, 5, now_ms=T0 + number)
        assert {lease.entry.host for lease in found} == {"big.test", f"t{number}.test"}
        [big] = [lease for lease in found if lease.entry.host == "big.test"]


async def test_other_hosts_of_the_least_importance_are_served_beside_an_endless_stream(
    frontier: Frontier, place: Place
) -> None:
    low = of_shard_0(6, 5, place)
    await frontier.add(low)
    stream = iter(of_shard_0(800, 1, place))
    served = []
    for number in range(80):
        await frontier.add([next(stream) for _ in range(10)])
        found = await frontier.claim(5, request_id(), now_ms=T0 + number)
        assert len(found.leases) == 5
        served += [lease.entry for lease in found.leases if lease.entry.queue == 5]
        for lease in found.leases:
            await crawl(frontier, lease, now_ms=T0 + number)
    assert sorted(e.url for e in served) == sorted(e.url for e in low)
    assert sum((await frontier.sizes()).front) > 300


# --- parallelism ---------------------------------------------------------------------------------


@pytest.fixture
async def parallel(place: Place) -> Frontier:
    """An instance with two fetches a host at a time, that knows a.test's delay: 1,000 ms."""
    frontier = await place.instance(tuning=Tuning(parallelism=2))
    await frontier.add([entry("http://a.test/first")])
    await crawl(frontier, await one(frontier), rest_ms=1000)
    return frontier


async def test_two_fetches_of_a_host_start_a_delay_apart(parallel: Frontier) -> None:
    await parallel.add(entries(5))
    assert len(await claim(parallel, now_ms=T0 + 1000)) == 1
    assert await claim(parallel, now_ms=T0 + 1999) == []
    assert len(await claim(parallel, now_ms=T0 + 2000)) == 1
    assert await claim(parallel, now_ms=T0 + 9000) == []


async def test_what_a_host_asked_for_once_is_not_its_delay(parallel: Frontier) -> None:
    await parallel.add(entries(5))
    lease = await one(parallel, now_ms=T0 + 1000)
    await parallel.release([(lease, 3_600_000)], usual=False, now_ms=T0 + 1000)
    later = T0 + 3_601_000
    assert await claim(parallel, now_ms=later - 1) == []
    assert len(await claim(parallel, now_ms=later)) == 1
    assert len(await claim(parallel, now_ms=later + 1000)) == 1


async def test_a_url_found_later_waits_for_the_delay_too(parallel: Frontier) -> None:
    await parallel.add([entry("http://a.test/1")])
    assert len(await claim(parallel, now_ms=T0 + 5000)) == 1
    await parallel.add([entry("http://a.test/2")])
    assert await claim(parallel, now_ms=T0 + 5999) == []
    assert len(await claim(parallel, now_ms=T0 + 6000)) == 1


async def test_a_host_with_more_in_flight_than_may_be_waits_for_the_last(place: Place) -> None:
    wide = await place.instance(tuning=Tuning(parallelism=3))
    narrow = await place.instance()
    await wide.add(entries(9))
    flights = [await one(wide, now_ms=T0 + i) for i in range(3)]
    for i, lease in enumerate(flights):
        assert await claim(narrow, now_ms=T0 + 10 + i) == []
        await narrow.release([(lease, 0)], now_ms=T0 + 10 + i)
    assert len(await claim(narrow, now_ms=T0 + 20)) == 1


async def test_a_hosts_own_parallelism_holds_for_the_whole_fleet(place: Place) -> None:
    frontier, other = await place.instance(), await place.instance()
    control = await place.control()
    assert (await control.host("a.test", parallelism=2)).parallelism == 2
    await frontier.add([*entries(6), *entries(6, "b.test")])
    assert {lease.entry.host for lease in await claim(frontier)} == {"a.test", "b.test"}
    for later in range(1, 4):
        await claim(other, now_ms=T0 + 10_000 * later)
    in_flight = [await control.host(name) for name in ("a.test", "b.test")]
    assert [state.in_flight for state in in_flight] == [2, 1]


async def test_starts_at_a_host_with_a_parallelism_are_a_delay_apart(place: Place) -> None:
    frontier = await place.instance(tuning=Tuning(spacing_ms=300))
    await (await place.control()).host("a.test", parallelism=3)
    await frontier.add(entries(9))
    # Its own delay is not known yet.
    flights = [await one(frontier)]
    for start in (T0 + 300, T0 + 600):
        assert await claim(frontier, now_ms=start - 1) == []
        flights.append(await one(frontier, now_ms=start))
    assert await claim(frontier, now_ms=T0 + 5000) == []
    await frontier.release([(flights[0], 1000)], now_ms=T0 + 5000)
    assert await claim(frontier, now_ms=T0 + 5999) == []
    assert len(await claim(frontier, now_ms=T0 + 6000)) == 1


async def test_a_parallelism_given_while_a_host_is_in_flight_takes_effect(place: Place) -> None:
    frontier, control = await place.instance(), await place.control()
    await frontier.add(entries(5))
    first = await one(frontier)
    assert await claim(frontier, now_ms=T0 + 9000) == []
    await control.host("a.test", parallelism=2)
    # A second after the order, since the host's own delay is not known.
    assert await claim(frontier, now_ms=T0 + 9999) == []
    second = await one(frontier, now_ms=T0 + 10_000)
    # Taken back: the next one waits for both.
    assert (await control.host("a.test", parallelism=None)).parallelism is None
    await frontier.release([(first, 0)], now_ms=T0 + 20_000)
    assert await claim(frontier, now_ms=T0 + 30_000) == []
    await frontier.release([(second, 0)], now_ms=T0 + 30_000)
    assert len(await claim(frontier, now_ms=T0 + 30_000)) == 1


async def test_the_weights_may_change_while_a_crawl_runs(frontier: Frontier, place: Place) -> None:
    for queue in (1, 5):
        await frontier.add(of_shard_0(60, queue, place))
    frontier.set_queues((1, 0, 0, 0, 3), (1, 1, 1, 1, 1), 100_000, TypeBudgets())
    assert await shares(frontier, place, 40) == {1: 10, 5: 30}
    frontier.set_queues((1, 0, 0, 0, 0), (0, 0, 0, 0, 1), 10, TypeBudgets())
    assert await shares(frontier, place, 10) == {5: 10}


# --- limits --------------------------------------------------------------------------------------


async def test_while_paused_nothing_is_leased(frontier: Frontier, place: Place) -> None:
    await frontier.add(hosts(3))
    control = await place.control()
    await control.pause()
    assert (await frontier.claim(1, request_id(), now_ms=T0)).state == "paused"
    assert await claim(frontier) == []
    await control.resume()
    assert len(await claim(frontier)) == 3


async def test_a_paused_crawl_repeats_a_claim_whose_reply_was_lost(
    frontier: Frontier, place: Place
) -> None:
    await frontier.add([entry("http://a.test/")])
    shard = shard_of("a.test", frontier.shards)
    await frontier.claim(1, "same", shard=shard, now_ms=T0)
    await (await place.control()).pause()
    assert len((await frontier.claim(1, "same", shard=shard, now_ms=T0)).leases) == 1


async def test_max_pages_counts_pages_and_the_leases_of_all(
    frontier: Frontier, place: Place
) -> None:
    other = await place.instance()
    await frontier.add(of_shard_0(10, 1, place))

    async def take(instance: Frontier, n: int) -> int:
        found = await instance.claim(n, request_id(), max_pages=4, now_ms=T0)
        taken.extend(found.leases)
        return len(found.leases)

    taken: list = []
    assert await take(frontier, 3) == 3
    assert await take(other, 3) == 1
    assert await take(other, 3) == 0
    await crawl(frontier, taken[0])
    assert await take(other, 3) == 0
    await frontier.release([(taken[1], 0)], now_ms=T0)
    await frontier.done([(taken[1], False)])
    assert await take(other, 3) == 1
    await crawl(frontier, taken[2])
    await crawl(other, taken[3])
    await crawl(other, taken[4])
    assert (await frontier.claim(1, request_id(), max_pages=4, now_ms=T0)).state == "limit"


async def test_a_host_gives_no_more_pages_than_its_budget(frontier: Frontier) -> None:
    await frontier.add([*entries(10), *hosts(2)])
    fetched = []
    for i in range(10):
        leases = await claim(frontier, now_ms=T0 + i, host_pages=3)
        fetched += urls(leases)
        for lease in leases:
            await crawl(frontier, lease, now_ms=T0 + i)
    assert len(fetched) == 5
    sizes = await frontier.sizes()
    assert (sizes.dropped_budget, sizes.unfinished, sizes.hosts) == (7, 0, 0)


@pytest.mark.parametrize("parallelism", [1, 5])
async def test_a_budget_counts_pages_that_are_fetched_and_not_settled_yet(
    place: Place, parallelism: int
) -> None:
    frontier = await place.instance(tuning=Tuning(parallelism=parallelism))
    await frontier.add(entries(10))
    fetched = []
    now_ms = T0
    for _ in range(10):
        now_ms += 60_000
        leases = await claim(frontier, now_ms=now_ms, host_pages=3)
        await frontier.release([(lease, 0) for lease in leases], now_ms=now_ms)
        fetched += leases
    assert len(fetched) == 3
    assert (await frontier.sizes()).dropped_budget == 0
    # One of them gave no page, so another URL has its turn.
    await frontier.done([(lease, lease is not fetched[0]) for lease in fetched])
    await crawl(frontier, await one(frontier, now_ms=now_ms + 60_000, host_pages=3))
    assert not await claim(frontier, now_ms=now_ms + 120_000, host_pages=3)
    sizes = await frontier.sizes()
    assert (sizes.dropped_budget, sizes.unfinished, sizes.hosts) == (6, 0, 0)


@pytest.mark.parametrize("settle", SETTLES.values(), ids=SETTLES)
async def test_a_lease_that_gave_no_page_leaves_the_budget_to_others(
    frontier: Frontier, settle: Settle
) -> None:
    await frontier.add(entries(2))
    lease = await one(frontier, host_pages=1)
    await frontier.release([(lease, 0)], now_ms=T0)
    assert not await claim(frontier, now_ms=T0 + 60_000, host_pages=1)
    await settle(frontier, lease)
    assert await claim(frontier, now_ms=T0 + 120_000, host_pages=1)


async def test_a_lease_of_an_owner_that_died_leaves_the_budget_to_others(place: Place) -> None:
    first, second = await place.instance(), await place.instance()
    await first.add(entries(2))
    await one(first, host_pages=1)
    later_ms = T0 + 3_600_000
    await beat(second, now_ms=later_ms)
    assert not await claim(second, now_ms=later_ms, host_pages=1)
    assert await second.reclaim(silence_ms=60_000, delay_ms=1000, now_ms=later_ms) == 1
    assert await claim(second, now_ms=later_ms + 60_000, host_pages=1)


# --- damage --------------------------------------------------------------------------------------


async def test_bytes_that_are_no_entry_are_buried_and_stop_nothing(
    frontier: Frontier, place: Place
) -> None:
    good = encode(entry("http://a.test/good"))
    damaged = [b"", b"x", good[:21], good[:2] + b"\x1f" + good[3:], good[:21] + b"no-slash"]
    await place.redis.rpush(place.key("a.test", "front:1"), *damaged)
    await frontier.add([entry("http://a.test/good")])
    assert urls(await claim(frontier)) == ["http://a.test/good"]
    assert await place.dead() == {data.hex(): "damaged" for data in damaged}


async def test_an_entry_that_only_python_cannot_read_is_buried_with_its_bytes(
    frontier: Frontier, place: Place
) -> None:
    good = encode(entry("http://a.test/good"))
    newer = bytes([0xF0]) + good[1:]
    await place.redis.rpush(place.key("a.test", "front:1"), newer)
    assert await claim(frontier) == []
    letters = await (await place.control()).dead()
    assert [letter.data for letter in letters] == [newer]
    assert letters[0].reason.startswith("damaged: entry version 15")
    assert (await frontier.sizes()).leased == 0


async def test_the_host_of_a_damaged_entry_is_not_blocked_by_it(
    frontier: Frontier, place: Place
) -> None:
    good = encode(entry("http://a.test/damaged"))
    await place.redis.rpush(place.key("a.test", "front:1"), bytes([0xF0]) + good[1:])
    await frontier.add([entry("http://a.test/good")])
    assert await claim(frontier) == []
    assert urls(await claim(frontier)) == ["http://a.test/good"]


async def test_a_claim_of_very_many_takes_a_thousand_and_loses_none(frontier: Frontier) -> None:
    await frontier.add(hosts(5000), mode="new")
    leases = await claim(frontier, 5000)
    assert len(leases) == 5000
    assert (await frontier.sizes()).leased == 5000
    await frontier.release([(lease, 0) for lease in leases], now_ms=T0)
    await frontier.done([(lease, True) for lease in leases])
    sizes = await frontier.sizes()
    assert (sizes.unfinished, sizes.done) == (0, 5000)


async def test_a_host_in_flight_never_expires(frontier: Frontier, place: Place) -> None:
    control = await place.control()
    await control.host("a.test", block=T0 - 1000)
    await frontier.add([entry("http://a.test/")])
    assert len(await claim(frontier)) == 1
    assert await place.redis.pttl(place.key("a.test", "host:a.test")) == -1


async def test_an_exhausted_limit_says_nothing_of_hosts_that_are_due(frontier: Frontier) -> None:
    await frontier.add(hosts(3))
    lease = (await claim(frontier, 1))[0]
    await frontier.release([(lease, 0)], now_ms=T0)
    await frontier.done([(lease, True)])
    found = await frontier.claim(1, request_id(), shard=lease.shard, max_pages=1, now_ms=T0)
    assert (found.state, found.wait_ms, found.leases) == ("limit", None, [])
