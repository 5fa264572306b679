"""Instances: they beat, die, lose their leases to others, and repeat what a server forgot."""

from __future__ import annotations

import pytest

from crawler.frontier import Frontier, Lease, OwnerDead
from crawler.frontier.frontier import POISON, shard_of, tags
from crawler.scheduling.engine import EngineHooks
from crawler.scheduling.heartbeat import Heartbeat, Pulse
from crawler.scheduling.lease_pool import CompletionLimits, LeasePool
from crawler.scheduling.recrawls import Recrawls
from crawler.scheduling.shards import ShardTurns
from crawler.servers.health import redis_health
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

SILENCE = 30_000
LATER = T0 + SILENCE


async def reclaim(frontier: Frontier, now_ms: int = LATER, **more: int) -> int:
    await beat(frontier, (), now_ms=now_ms)
    return await frontier.reclaim(silence_ms=SILENCE, delay_ms=1000, now_ms=now_ms, **more)


@pytest.fixture
async def dead(place: Place) -> Frontier:
    """An instance that beats at T0 and never again."""
    return await place.instance()


@pytest.fixture
async def alive(dead: Frontier, place: Place) -> Frontier:
    """One that goes on, and clears up after the other."""
    return await place.instance()


# --- beat ----------------------------------------------------------------------------------------


async def test_a_registered_instance_is_among_the_live(frontier: Frontier, place: Place) -> None:
    other = await place.instance()
    assert set(await frontier.live()) == {frontier.owner, other.owner}
    assert (await frontier.sizes()).owners == 2


async def test_an_instance_says_what_it_is(frontier: Frontier, place: Place) -> None:
    await beat(frontier, (), {"host": "box", "pages": 3}, now_ms=T0)
    instances = await (await place.control()).instances()
    assert instances == {frontier.owner: {"host": "box", "pages": 3}}


async def test_an_instance_that_was_killed_is_not_live(frontier: Frontier, place: Place) -> None:
    control = await place.control()
    await beat(frontier, (), {"host": "box"}, now_ms=T0)
    assert await control.instances() == {frontier.owner: {"host": "box"}}
    owners = f"{tags(frontier.crawl, frontier.shards)[0]}:owners"
    # Its last beat was long ago.
    assert await place.redis.zadd(owners, {frontier.owner: 1}, xx=True, ch=True) == 1
    assert await control.instances() == {}


async def test_each_registration_has_a_name_of_its_own(frontier: Frontier) -> None:
    name = frontier.owner
    await frontier.register()
    assert frontier.owner != name


async def test_an_instance_learns_that_it_was_declared_dead(
    dead: Frontier, alive: Frontier
) -> None:
    await reclaim(alive)
    with pytest.raises(OwnerDead):
        await beat(dead, now_ms=LATER)
    with pytest.raises(OwnerDead):
        await dead.claim(1, request_id(), now_ms=LATER)


async def test_a_beat_returns_the_leases_that_the_instance_lost_sight_of(
    frontier: Frontier,
) -> None:
    await frontier.add(hosts(10))
    leases = await claim(frontier)
    _, strays = await beat(frontier, leases[:4], now_ms=T0)
    assert sorted(urls(strays)) == sorted(urls(leases[4:]))
    assert {x.key for x in strays} == {x.key for x in leases[4:]}
    assert (await beat(frontier, leases, now_ms=T0))[1] == []


async def test_a_stray_lease_may_be_handed_back(frontier: Frontier) -> None:
    await frontier.add(hosts(3))
    await claim(frontier)
    _, strays = await beat(frontier, (), now_ms=T0)
    await frontier.hand_back([(lease, 0) for lease in strays], now_ms=T0)
    assert len(await claim(frontier, now_ms=T0)) == 3


async def test_leaving_takes_an_instance_off_the_list(frontier: Frontier, place: Place) -> None:
    await frontier.leave()
    assert await frontier.live() == []
    assert await (await place.control()).instances() == {}


async def test_who_leaves_with_leases_is_reclaimed_from_later(
    dead: Frontier, alive: Frontier
) -> None:
    await dead.add([entry("http://a.test/")])
    await one(dead)
    await dead.leave()
    assert dead.owner in await alive.live() or dead.shards > 1
    assert await reclaim(alive) == 1
    assert len(await claim(alive, now_ms=LATER + 1000)) == 1


# --- reclaim -------------------------------------------------------------------------------------


async def test_the_leases_of_the_living_are_not_touched(frontier: Frontier, place: Place) -> None:
    await frontier.add(hosts(5))
    await claim(frontier)
    await beat(frontier, (), now_ms=LATER)
    other = await place.instance(now_ms=LATER)
    assert await reclaim(other, LATER + SILENCE - 1) == 0
    assert (await frontier.sizes()).leased == 5


async def test_a_dead_instance_gives_its_leases_back(dead: Frontier, alive: Frontier) -> None:
    await dead.add(hosts(5))
    lost = await claim(dead)
    assert await reclaim(alive, LATER - 1) == 0
    assert await reclaim(alive) == 5
    assert await alive.live() == [alive.owner]
    again = await claim(alive, now_ms=LATER + 1000)
    assert sorted(urls(again)) == sorted(urls(lost))
    assert {lease.entry.reclaims for lease in again} == {1}
    assert (await alive.sizes()).reclaimed == 5


async def test_the_host_of_a_reclaimed_fetch_rests(dead: Frontier, alive: Frontier) -> None:
    await dead.add(entries(2))
    await one(dead)
    await reclaim(alive)
    assert await claim(alive, now_ms=LATER + 999) == []
    assert len(await claim(alive, now_ms=LATER + 1000)) == 1


async def test_it_rests_for_its_own_delay_where_that_is_known(
    dead: Frontier, alive: Frontier
) -> None:
    await dead.add(entries(3))
    await crawl(dead, await one(dead, now_ms=T0), rest_ms=7000)
    await one(dead, now_ms=T0 + 7000)
    await reclaim(alive)
    assert await claim(alive, now_ms=LATER + 6999) == []
    assert len(await claim(alive, now_ms=LATER + 7000)) == 1


async def test_a_fetch_that_ended_before_its_owner_died_keeps_its_hosts_clock(
    dead: Frontier, alive: Frontier
) -> None:
    await dead.add([entry("http://a.test/")])
    lease = await one(dead)
    await dead.release([(lease, SILENCE + 9000)], now_ms=T0)
    assert await reclaim(alive) == 1
    assert await claim(alive, now_ms=LATER + 8999) == []
    assert len(await claim(alive, now_ms=LATER + 9000)) == 1


async def test_one_call_takes_back_a_bounded_number(dead: Frontier, alive: Frontier) -> None:
    await dead.add(hosts(60))
    await claim(dead)
    taken = [await reclaim(alive, limit=3) for _ in range(25)]
    assert sum(taken) == 60
    assert max(taken) <= 3 * alive.shards
    assert await alive.live() == [alive.owner]


async def test_who_is_declared_dead_stays_so_while_its_leases_are_taken_back(
    dead: Frontier, alive: Frontier
) -> None:
    await dead.add(entries(1))
    await dead.add(hosts(60))
    leases = await claim(dead)
    assert await reclaim(alive, limit=1) < len(leases)
    assert await alive.live() == [alive.owner]
    with pytest.raises(OwnerDead):
        await beat(dead, leases, now_ms=LATER)
    with pytest.raises(OwnerDead):
        await dead.claim(1, request_id(), shard=leases[0].shard, now_ms=LATER)
    while await reclaim(alive, limit=1):
        pass
    assert (await alive.sizes()).reclaimed == len(leases)


async def test_even_thousands_of_leases_come_back_in_small_batches(
    dead: Frontier, alive: Frontier
) -> None:
    await dead.add(hosts(4000))
    assert len(await claim(dead, 4000)) == 4000
    taken = 0
    for _ in range(100):
        taken += await reclaim(alive, limit=50)
    assert taken == 4000


async def test_a_url_that_kills_its_workers_says_how_often(place: Place) -> None:
    now, survivor = T0, await place.instance()
    await survivor.add([entry("http://poison.test/")])
    for _ in range(POISON):
        victim = await place.instance(now_ms=now)
        await one(victim, now_ms=now)
        now += SILENCE
        assert await reclaim(survivor, now) == 1
        now += 1000
    # Its next owner buries it.
    assert (await one(survivor, now_ms=now)).entry.reclaims == POISON


async def test_a_url_that_no_victim_had_begun_to_fetch_is_no_suspect(place: Place) -> None:
    now, survivor = T0, await place.instance()
    innocent, poison = entry("http://innocent.test/"), entry("http://poison.test/")
    await survivor.add([innocent, poison])
    for _ in range(5):
        victim = await place.instance(now_ms=now)
        leases = await claim(victim, now_ms=now)
        waiting = {lease.key for lease in leases if lease.entry.host == innocent.host}
        await beat(victim, leases, unsuspected=waiting, now_ms=now)
        now += SILENCE
        assert await reclaim(survivor, now) == len(leases)
        now += 1000
    found = {lease.entry.url: lease.entry.reclaims for lease in await claim(survivor, now_ms=now)}
    assert found == {innocent.url: 0, poison.url: 5}


async def test_a_fetch_that_began_after_a_beat_is_told_with_the_next(place: Place) -> None:
    now, survivor = T0, await place.instance()
    await survivor.add([entry("http://poison.test/")])
    for _ in range(POISON):
        victim = await place.instance(now_ms=now)
        lease = await one(victim, now_ms=now)
        await beat(victim, [lease], unsuspected={lease.key}, now_ms=now)
        await beat(victim, [lease], now_ms=now + 10)
        now += 10 + SILENCE
        assert await reclaim(survivor, now) == 1
        now += 1000
    assert (await one(survivor, now_ms=now)).entry.reclaims == POISON
    assert not [key async for key in place.redis.scan_iter("*:unsuspected:*")]


async def test_a_dead_owners_verbs_do_nothing_after_the_reclaim(
    dead: Frontier, alive: Frontier
) -> None:
    await dead.add(entries(2))
    lease = await one(dead)
    await reclaim(alive)
    again = await one(alive, now_ms=LATER + 1000)
    before = await alive.sizes()
    await dead.release([(lease, 0)], now_ms=LATER + 1000)
    await dead.done([(lease, True)])
    await dead.retry([(lease, 0, lease.entry)], now_ms=LATER + 1000)
    await dead.bury([(lease, "x")], now_ms=LATER + 1000)
    await dead.hand_back([(lease, 0)], now_ms=LATER + 1000)
    assert await alive.sizes() == before
    assert await claim(alive, now_ms=LATER + 2000) == []
    await crawl(alive, again, now_ms=LATER + 2000)
    assert (await alive.sizes()).done == 1


async def test_what_was_purged_while_leased_does_not_come_back_by_reclaim(
    dead: Frontier, alive: Frontier, place: Place
) -> None:
    await dead.add(entries(3))
    await one(dead)
    await (await place.control()).host("a.test", purge=True)
    await alive.add([entry("http://a.test/after")])
    await reclaim(alive)
    assert urls(await claim(alive, now_ms=LATER + 1000)) == ["http://a.test/after"]
    assert (await alive.sizes()).dropped_purged == 3


# --- reassert ------------------------------------------------------------------------------------


async def lose_host(place: Place, lease: Lease) -> None:
    """What a restart without the last second may do: the claim never happened."""
    host, redis = lease.entry.host, place.redis
    await redis.delete(place.key(host, f"host:{host}"))
    await redis.zrem(place.key(host, "host_heap"), host)


async def test_a_host_in_flight_stays_taken_after_a_loss(frontier: Frontier, place: Place) -> None:
    await frontier.add([entry("http://a.test/1")])
    lease = await one(frontier)
    await lose_host(place, lease)
    await frontier.reassert([lease], {}, now_ms=T0)
    await frontier.add([entry("http://a.test/2")])
    assert await claim(frontier, now_ms=T0 + 5000) == []
    await frontier.release([(lease, 100)], now_ms=T0 + 5000)
    assert len(await claim(frontier, now_ms=T0 + 5100)) == 1


async def test_a_host_on_the_heap_is_taken_off_it(frontier: Frontier, place: Place) -> None:
    await frontier.add(entries(3))
    lease = await one(frontier)
    key = place.key("a.test", "host:a.test")
    await place.redis.hset(key, "tokens", "")
    await place.redis.zadd(place.key("a.test", "host_heap"), {"a.test": T0})
    await frontier.reassert([lease], {}, now_ms=T0)
    assert await claim(frontier, now_ms=T0 + 5000) == []


async def test_reasserting_twice_takes_one_slot(frontier: Frontier, place: Place) -> None:
    await frontier.add(entries(2))
    lease = await one(frontier)
    await frontier.reassert([lease], {}, now_ms=T0)
    await frontier.reassert([lease], {}, now_ms=T0)
    assert (await (await place.control()).host("a.test")).in_flight == 1
    await frontier.release([(lease, 0)], now_ms=T0)
    assert len(await claim(frontier, now_ms=T0)) == 1


async def test_a_fetch_whose_claim_was_lost_ends_with_its_owner(
    dead: Frontier, alive: Frontier, place: Place
) -> None:
    """The URL waits again, but the slot was told again: nobody else would ever free it."""
    await dead.add(entries(1))
    lease = await one(dead)
    await lose_host(place, lease)
    await place.redis.delete(place.key("a.test", f"leases:{dead.owner}"))
    await dead.reassert([lease], {}, now_ms=T0)
    await alive.add(entries(1), mode="force")
    await reclaim(alive)
    assert await claim(alive, now_ms=LATER + 999) == []
    assert len(await claim(alive, now_ms=LATER + 1000)) == 1


async def test_a_lease_whose_claim_was_lost_frees_its_slot_when_it_is_handed_back(
    frontier: Frontier, place: Place
) -> None:
    await frontier.add(entries(1))
    lease = await one(frontier)
    await place.redis.delete(place.key("a.test", f"leases:{frontier.owner}"))
    await frontier.reassert([lease], {}, now_ms=T0)
    await frontier.add(entries(1), mode="force")
    await frontier.hand_back([(lease, 300)], now_ms=T0)
    assert await claim(frontier, now_ms=T0 + 299) == []
    assert len(await claim(frontier, now_ms=T0 + 300)) == 1


async def test_who_leaves_frees_the_slots_of_fetches_whose_claims_were_lost(
    frontier: Frontier, place: Place
) -> None:
    await frontier.add(entries(1))
    lease = await one(frontier)
    await place.redis.delete(place.key("a.test", f"leases:{frontier.owner}"))
    await frontier.reassert([lease], {}, now_ms=T0)
    await frontier.leave()
    assert (await (await place.control()).host("a.test")).in_flight == 0
    assert not [key async for key in place.redis.scan_iter("*flights*")]


async def test_a_recent_contact_is_remembered(frontier: Frontier, place: Place) -> None:
    await frontier.add([entry("http://a.test/1")])
    lease = await one(frontier)
    await crawl(frontier, lease, rest_ms=4000)
    await lose_host(place, lease)
    await frontier.reassert([], {"a.test": 3000}, now_ms=T0 + 1000)
    await frontier.add([entry("http://a.test/2")])
    assert await claim(frontier, now_ms=T0 + 3999) == []
    assert len(await claim(frontier, now_ms=T0 + 4000)) == 1


async def test_a_clock_that_is_later_already_stays(frontier: Frontier, place: Place) -> None:
    await frontier.add(entries(2))
    await crawl(frontier, await one(frontier), rest_ms=9000)
    await frontier.reassert([], {"a.test": 10}, now_ms=T0)
    assert await claim(frontier, now_ms=T0 + 8999) == []


async def test_what_people_said_of_a_host_outlives_a_reassert(
    frontier: Frontier, place: Place
) -> None:
    control = await place.control()
    await control.host("a.test", exclude=True)
    await frontier.reassert([], {"a.test": 1000}, now_ms=T0)
    assert await place.redis.pttl(place.key("a.test", "host:a.test")) == -1


async def test_tokens_of_forgotten_claims_are_not_given_out_again(
    frontier: Frontier, place: Place
) -> None:
    await frontier.add(entries(2))
    lease = await one(frontier)
    await place.redis.hset(place.key("a.test", "stats"), "token", 0)
    await frontier.reassert([lease], {}, now_ms=T0)
    await frontier.release([(lease, 0)], now_ms=T0)
    assert int((await one(frontier)).token) > int(lease.token)


async def test_sizes_add_up_over_every_state(frontier: Frontier) -> None:
    await frontier.add([*hosts(6), *entries(4, queue=3)])
    leases = await claim(frontier)
    assert len(leases) == 7
    await frontier.release([(lease, 0) for lease in leases], now_ms=T0)
    await frontier.done([(leases[0], True), (leases[1], False)])
    await frontier.retry([(leases[2], 5000, leases[2].entry)], now_ms=T0)
    await frontier.bury([(leases[3], "x")], now_ms=T0)
    sizes = await frontier.sizes()
    assert (sizes.added, sizes.claimed, sizes.leased, sizes.waiting) == (10, 7, 3, 3)
    assert (sizes.done, sizes.pages, sizes.retries, sizes.dead) == (2, 1, 1, 1)
    assert sizes.unfinished == 7
    assert (await frontier.sizes()).waiting == 3


# --- strategies ----------------------------------------------------------------------------------


async def shards_of(frontier: Frontier, strategy: str) -> ShardTurns:
    """Return the turns of the shards, as an instance asks them."""

    async def nothing() -> int:
        return 0

    pool = LeasePool(
        frontier,
        redis_health(),
        CompletionLimits(),
        EngineHooks(lambda: 0, lambda: None, nothing),
        Recrawls(),
    )
    heart = Heartbeat(
        frontier,
        pool,
        redis_health(),
        Pulse(strategy=strategy),
        about=dict,
        on_beat=nothing,
        on_epoch=lambda: None,
        on_loss=lambda _: None,
    )
    await heart._order_shards()
    return pool.shards


@pytest.mark.parametrize("strategy", ["sticky", "hash"])
async def test_every_shard_has_one_instance_of_its_own_and_another_when_that_leaves(
    place: Place, strategy: str
) -> None:
    if place.shards == 1:
        pytest.skip("there is one shard")
    fleet = [await place.instance() for _ in range(3)]
    for live in (fleet, fleet[1:]):
        turns = [await shards_of(frontier, strategy) for frontier in live]
        assert sorted(shard for each in turns for shard in each.own) == list(range(place.shards))
        assert all({*each.own, *each.others} == {*range(place.shards)} for each in turns)
        await fleet[0].leave()


async def test_a_balanced_instance_asks_the_fullest_shard_first(
    frontier: Frontier, place: Place
) -> None:
    await frontier.add([*entries(9), *hosts(3)])
    turns = await shards_of(frontier, "balanced")
    order = turns.turn()[0]
    assert order == turns.turn()[0]
    assert order[0] == shard_of("a.test", place.shards)
    waiting = [(await frontier.sizes(shard)).waiting for shard in range(place.shards)]
    assert [waiting[shard] for shard in order] == sorted(waiting, reverse=True)


async def test_an_instance_without_preference_goes_round(frontier: Frontier, place: Place) -> None:
    turns = await shards_of(frontier, "round_robin")
    assert {turns.turn()[0][0] for _ in range(place.shards)} == {*range(place.shards)}


# --- conclude ------------------------------------------------------------------------------------

DEAD_MS = 10_000


async def test_the_last_instance_that_leaves_concludes_the_crawl(
    frontier: Frontier, place: Place
) -> None:
    other = await place.instance()
    await frontier.leave()
    verdict, first_ms = await frontier.conclude(silence_ms=DEAD_MS, now_ms=T0)
    assert (verdict, first_ms) == (-1, T0)
    await other.leave()
    last = await other.conclude(silence_ms=DEAD_MS, now_ms=T0 + 10)
    assert last[0] == 1
    again = await frontier.conclude(silence_ms=DEAD_MS, first_ms=first_ms, now_ms=T0 + 20)
    assert again[0] == 0


async def test_an_instance_that_beats_on_concludes_the_crawl_itself(
    frontier: Frontier, place: Place
) -> None:
    other = await place.instance()
    await frontier.leave()
    _, first_ms = await frontier.conclude(silence_ms=DEAD_MS, now_ms=T0 + 1000)
    await beat(other, now_ms=T0 + 2000)
    now = {"silence_ms": DEAD_MS, "now_ms": T0 + 2500}
    assert (await frontier.conclude(first_ms=first_ms, **now))[0] == 0
    await other.leave()
    assert (await other.conclude(**now))[0] == 1


async def test_a_killed_instance_is_not_waited_for_longer_than_its_silence(
    dead: Frontier, alive: Frontier
) -> None:
    await beat(alive, now_ms=T0 + 5000)
    await alive.leave()
    verdict, first_ms = await alive.conclude(silence_ms=DEAD_MS, now_ms=T0 + 5000)
    assert verdict == -1
    for at_ms, expected in ((T0 + DEAD_MS - 1, -1), (T0 + DEAD_MS, 1), (T0 + DEAD_MS + 1, 0)):
        answer = await alive.conclude(silence_ms=DEAD_MS, first_ms=first_ms, now_ms=at_ms)
        assert answer[0] == expected


async def test_a_crawl_that_runs_again_is_concluded_again(frontier: Frontier, place: Place) -> None:
    await frontier.leave()
    assert (await frontier.conclude(silence_ms=DEAD_MS, now_ms=T0))[0] == 1
    later = await place.instance()
    await later.leave()
    assert (await later.conclude(silence_ms=DEAD_MS, now_ms=T0 + 60_000))[0] == 1
