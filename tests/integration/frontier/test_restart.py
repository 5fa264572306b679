"""A server that restarts or fails over: another run id, a new epoch, a grace, and nothing lost."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from crawler.errors import ServerAway
from crawler.frontier import Frontier, Lease, NoVisit, Visit
from crawler.frontier.records import PAGE_AGAIN, VISIT_AGAIN
from crawler.servers.redis.connection import Client, connect
from crawler.servers.redis.errors import RedisAway
from tests.integration.frontier.fleet import (
    T0,
    Place,
    beat,
    claim,
    crawl,
    entries,
    entry,
    hosts,
    urls,
)
from tests.support.cluster import RedisProcess, SentinelProcess
from tests.support.waiting import until, wait_until

GRACE = 10_000


@pytest.fixture
async def place(redis_process: RedisProcess) -> AsyncIterator[Place]:
    client = await connect(redis_process.url)
    yield Place(client, 1)
    await client.aclose()


async def restart(server: RedisProcess, place: Place) -> None:
    server.kill()
    server.start()
    await place.redis.connection_pool.disconnect()


async def test_a_restart_keeps_every_state_and_raises_the_epoch(
    redis_process: RedisProcess, place: Place
) -> None:
    frontier = await place.instance()
    await frontier.add([*hosts(6), *entries(4)])
    leases = await claim(frontier)
    await crawl(frontier, leases[0])
    await frontier.retry([(leases[1], 5000, leases[1].entry)], now_ms=T0)
    await frontier.bury([(leases[2], "gone")], now_ms=T0)
    before = await frontier.sizes()
    epoch, _ = await beat(frontier, leases, now_ms=T0)
    await restart(redis_process, place)
    assert await frontier.sizes() == before
    after, _ = await beat(frontier, leases, now_ms=T0)
    assert after > epoch
    assert (await beat(frontier, leases, now_ms=T0))[0] == after


async def test_a_restart_that_was_lost_does_not_hide_the_next(
    redis_process: RedisProcess, place: Place
) -> None:
    frontier = await place.instance()
    epoch, _ = await beat(frontier, now_ms=T0)
    seen = {epoch}
    for _ in range(3):
        await restart(redis_process, place)
        seen.add((await beat(frontier, now_ms=T0))[0])
        # It dies again, and has lost what it wrote since.
        await place.redis.hset(place.key("a.test", "stats"), "epoch", epoch)
    assert len(seen) == 4


async def test_claims_rest_for_the_grace_and_resume(
    redis_process: RedisProcess, place: Place
) -> None:
    frontier = await place.instance()
    await frontier.add(entries(2))
    await restart(redis_process, place)
    first = await frontier.claim(1, "r1", now_ms=T0 + 100)
    assert (first.state, first.leases, first.wait_ms) == ("grace", [], GRACE)
    assert (await frontier.claim(1, "r2", now_ms=T0 + 99 + GRACE)).wait_ms == 1
    assert len((await frontier.claim(1, "r3", now_ms=T0 + 100 + GRACE)).leases) == 1


async def test_hosts_are_not_visited_during_the_grace_but_visits_go_on(
    redis_process: RedisProcess, place: Place
) -> None:
    frontier = await place.instance()
    visit = await frontier.visit("a.test", now_ms=T0)
    assert isinstance(visit, Visit)
    await restart(redis_process, place)
    # This may be the first that the server hears after its restart.
    refused = await frontier.visit("b.test", now_ms=T0 + 100)
    assert refused == NoVisit("grace", GRACE)
    await beat(frontier, [visit], now_ms=T0 + 200)
    await frontier.visited([(visit, 0)], now_ms=T0 + 200)
    later = await frontier.visit("a.test", now_ms=T0 + 100 + GRACE)
    assert isinstance(later, Visit)
    assert int(later.token) > int(visit.token) + 100_000


async def test_a_crawl_that_nobody_works_on_needs_no_grace(
    redis_process: RedisProcess, place: Place
) -> None:
    frontier = await place.instance()
    await frontier.add(entries(1))
    await frontier.leave()
    await restart(redis_process, place)
    again = await place.instance()
    assert len(await claim(again)) == 1


async def test_tokens_jump_past_those_of_claims_that_were_lost(
    redis_process: RedisProcess, place: Place
) -> None:
    frontier = await place.instance()
    await frontier.add(hosts(3))
    [lease, *_] = await claim(frontier, 1)
    await restart(redis_process, place)
    await beat(frontier, (), now_ms=T0)
    [later, *_] = await claim(frontier, 1, now_ms=T0 + GRACE)
    assert int(later.token) > int(lease.token) + 100_000


async def test_a_url_leased_before_a_restart_is_crawled_again_since_its_links_may_be_lost(
    redis_process: RedisProcess, place: Place
) -> None:
    frontier = await place.instance()
    await frontier.add(hosts(3))
    before = await claim(frontier, 2)
    await frontier.release([(lease, 0) for lease in before], now_ms=T0)
    await restart(redis_process, place)
    # This may be the first that the server hears after its restart.
    await frontier.done([(lease, True) for lease in before], guarded=True)
    sizes = await frontier.sizes()
    assert (sizes.done, sizes.pages, sizes.leased, sizes.waiting) == (0, 0, 0, 3)
    later = max(T0, int(time.time() * 1000)) + 2 * GRACE
    after = await claim(frontier, now_ms=later)
    assert sorted(urls(after)) == sorted(e.url for e in hosts(3))
    await frontier.done([(lease, True) for lease in after], guarded=True)
    assert (await frontier.sizes()).pages == 3


@pytest.mark.parametrize("verb", ["done", "recrawl", "retry"])
async def test_a_lease_frees_its_host_when_a_restart_lost_the_end_of_its_fetch(
    redis_process: RedisProcess, place: Place, verb: str
) -> None:
    """The process ends before a beat tells it of the restart, so it does not repeat the release."""
    frontier = await place.instance()
    await frontier.add(entries(2))
    [lease] = await claim(frontier, 1)
    await restart(redis_process, place)
    if verb == "done":
        await frontier.done([(lease, True)], guarded=True)
    elif verb == "recrawl":
        again = [(lease, 1000, lease.entry)]
        await frontier.retry(again, kind=PAGE_AGAIN, guarded=True, now_ms=T0)
    else:
        await frontier.retry([(lease, 1000, lease.entry)], now_ms=T0)
    await frontier.leave()
    successor = await place.instance()
    later = max(T0, int(time.time() * 1000)) + 2 * GRACE
    assert len(await claim(successor, now_ms=later)) == 1


async def test_a_recrawl_leased_before_a_restart_is_not_put_off_since_its_links_may_be_lost(
    redis_process: RedisProcess, place: Place
) -> None:
    frontier = await place.instance()
    await frontier.add(hosts(2))
    [first, second] = await claim(frontier, 2)
    await restart(redis_process, place)
    for lease, kind in ((first, PAGE_AGAIN), (second, VISIT_AGAIN)):
        await frontier.retry(
            [(lease, 1000, lease.entry)], kind=kind, guarded=True, now_ms=T0 + GRACE
        )
    sizes = await frontier.sizes()
    assert (sizes.done, sizes.pages, sizes.recrawls, sizes.leased, sizes.waiting) == (0, 0, 0, 0, 2)


async def test_nobody_is_declared_dead_before_the_grace_is_over(
    redis_process: RedisProcess, place: Place
) -> None:
    """The server was away for long: no instance could beat meanwhile."""
    quick, slow = await place.instance(), await place.instance()
    await quick.add(hosts(3))
    leases = await claim(slow)
    await restart(redis_process, place)
    now = T0 + 60_000
    await beat(quick, (), now_ms=now)
    assert await quick.reclaim(silence_ms=30_000, delay_ms=0, now_ms=now) == 0
    await beat(slow, leases, now_ms=now + GRACE - 1)
    assert await quick.reclaim(silence_ms=30_000, delay_ms=0, now_ms=now + GRACE) == 0
    await slow.done([(lease, True) for lease in leases])
    assert (await slow.sizes()).done == 3


# --- failover ------------------------------------------------------------------------------------


@pytest.fixture
def replica(redis_process: RedisProcess, tmp_path: Path) -> Iterator[RedisProcess]:
    """A replica of the test's server, in step with it."""
    process = RedisProcess(
        tmp_path / "replica", "--replicaof", "127.0.0.1", str(redis_process.port)
    )
    process.start()
    with process.client as client:
        wait_until(
            lambda: client.info("replication")["master_link_status"] == "up", "it is in step"
        )
    yield process
    process.kill()


@pytest.fixture
def sentinel(
    redis_process: RedisProcess, replica: RedisProcess, tmp_path: Path
) -> Iterator[RedisProcess]:
    """A Sentinel that watches both."""
    process = SentinelProcess(tmp_path / "sentinel", redis_process)
    process.start()
    with process.client as client:
        wait_until(
            lambda: client.sentinel_master("crawl")["num-slaves"] == 1, "it knows the replica"
        )
    yield process
    process.kill()


def cut_off(master: RedisProcess, replica: RedisProcess) -> None:
    """Let the replica catch up, and hear nothing of its master from then on."""
    with master.client as one, replica.client as other:
        offset = one.info("replication")["master_repl_offset"]
        wait_until(
            lambda: other.info("replication")["slave_repl_offset"] >= offset, "it is in step"
        )
        one.config_set("requirepass", "unknown to the replica")
        one.client_kill_filter(_type="replica")


async def answered(frontier: Frontier, held: list[Lease]) -> tuple[int, list[Lease]]:
    """Beat until there is a master again."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return await beat(frontier, held, now_ms=T0)
        except RedisAway:
            assert time.monotonic() < deadline, "no failover"
            await asyncio.sleep(0.05)


async def close_all(client: Client) -> None:
    await client.aclose()
    for watcher in client.connection_pool.sentinel_manager.sentinels:
        await watcher.aclose()


async def test_a_failover_loses_nothing_that_was_replicated(
    redis_process: RedisProcess, replica: RedisProcess, sentinel: RedisProcess
) -> None:
    client = await connect(f"redis+sentinel://127.0.0.1:{sentinel.port}/crawl/0")
    frontier = await Place(client, 1).instance()
    await frontier.add([*hosts(10), *entries(5)])
    leases = await claim(frontier, 6)
    epoch, _ = await beat(frontier, leases, now_ms=T0)
    await crawl(frontier, leases[0])
    cut_off(redis_process, replica)
    # The last things that the master knows: it takes them with it.
    await frontier.release([(leases[1], 5000)], now_ms=T0)
    [late] = await claim(frontier, 1)
    await frontier.add([entry("http://not-replicated.test/")])
    redis_process.kill()

    held, flights = [*leases[1:], late], [*leases[2:], late]
    now_epoch, strays = await answered(frontier, held)
    assert (now_epoch > epoch, strays) == (True, [])
    await frontier.release([(leases[1], 5000)], now_ms=T0)
    await frontier.reassert(flights, {leases[1].entry.host: 5000}, now_ms=T0)
    assert (await frontier.claim(1, "grace", now_ms=T0)).state == "grace"

    # A claim that the replica never saw is in flight: its host is not given out a second time.
    now = T0 + GRACE
    others = await claim(frontier, now_ms=now)
    assert not {x.entry.host for x in others} & {x.entry.host for x in flights}
    fetched = [leases[0].entry.url]
    await frontier.release([(late, 0)], now_ms=now)
    open_leases = [*leases[1:], *others]
    while open_leases:
        fetched += urls(open_leases)
        for lease in open_leases:
            await crawl(frontier, lease, now_ms=now)
        now += 1000
        open_leases = await claim(frontier, now_ms=now)
    assert sorted(fetched) == sorted(e.url for e in [*hosts(10), *entries(5)])
    sizes = await frontier.sizes()
    assert (sizes.unfinished, sizes.done) == (0, 15)
    await close_all(client)


async def test_a_sentinel_that_is_silent_is_passed_over(sentinel: RedisProcess) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        silent_port = silent.getsockname()[1]
        url = f"redis+sentinel://127.0.0.1:{silent_port},127.0.0.1:{sentinel.port}/crawl/0"
        async with asyncio.timeout(5):
            client = await connect(url)
        assert await client.ping()
        await close_all(client)


async def test_sentinels_may_have_a_password_of_their_own(sentinel: RedisProcess) -> None:
    with sentinel.client as admin:
        admin.execute_command("ACL", "SETUSER", "default", ">theirs")
    url = f"redis+sentinel://127.0.0.1:{sentinel.port}/crawl/0"
    with pytest.raises(ServerAway, match="does not answer"):
        await connect(url)
    client = await connect(url, {"sentinel_kwargs": {"password": "theirs"}})
    assert await client.ping()
    await close_all(client)


async def test_no_command_goes_to_an_old_master_that_hung(
    redis_process: RedisProcess, replica: RedisProcess, sentinel: RedisProcess
) -> None:
    client = await connect(f"redis+sentinel://127.0.0.1:{sentinel.port}/crawl/0")

    async def write(name: str) -> None:
        await asyncio.gather(*(client.set(f"{name}:{number}", "1") for number in range(5)))

    async def goes_to(server: RedisProcess) -> bool:
        return bool((await client.info("server"))["tcp_port"] == server.port)

    await write("before")
    with redis_process.client as old:
        # Sentinel makes it no replica, which would close its connections ten seconds later.
        old.execute_command("ACL SETUSER default -slaveof -replicaof")
    redis_process.freeze()
    # These connections are in use while the master changes, and outlive that.
    waiting = asyncio.create_task(write("meanwhile"))
    with replica.client as new, redis_process.client as old:
        await until(lambda: new.role()[0] == b"master", "the replica takes over")
        redis_process.thaw()
        await waiting
        await until(lambda: goes_to(replica), "commands go to the new master", deadline_s=30)
        for _ in range(20):
            await write("after")
        assert old.keys("after:*") == []
    await close_all(client)
