"""A master of a cluster dies, and its replica takes over without the master's last moments."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from crawler.errors import CrawlerError
from crawler.frontier import Entry, Frontier, Lease, Tuning
from crawler.frontier.frontier import shard_of, tags
from crawler.scheduling.lease_pool import LeasePool
from crawler.scheduling.outcome import Bury
from crawler.servers.redis.connection import Client, connect
from crawler.servers.redis.errors import RedisAway
from crawler.util.tasks import end
from tests.integration.frontier.fleet import CRAWL, Process, crawl_all, entry, hosts_of_master
from tests.support.cluster import RedisProcess, add_replica, cluster_node, form_cluster
from tests.support.waiting import until, wait_until

SHARDS = 12
TIMEOUT_MS = 500
GRACE_MS = 500


@dataclass
class Cluster:
    """Three masters, and a replica of the first."""

    masters: list[RedisProcess]
    replica: RedisProcess

    def cut_off(self) -> None:
        """Let the replica catch up, and hear nothing more of its master but that it is there."""
        with self.masters[0].client as master, self.replica.client as replica:
            offset = master.info("replication")["master_repl_offset"]
            wait_until(
                lambda: replica.info("replication")["slave_repl_offset"] >= offset, "in step"
            )
            master.config_set("requirepass", "unknown to the replica")
            master.client_kill_filter(_type="replica")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    masters = [cluster_node(tmp_path / str(i), timeout_ms=TIMEOUT_MS) for i in range(3)]
    replica = cluster_node(tmp_path / "replica", timeout_ms=TIMEOUT_MS)
    try:
        form_cluster(masters)
        add_replica(replica, masters[0], masters)
        yield Cluster(masters, replica)
    finally:
        for node in (*masters, replica):
            node.kill()


@pytest.fixture
async def process(cluster: Cluster) -> AsyncIterator[Process]:
    client = await connect(cluster.masters[1].url)
    frontier = Frontier(client, CRAWL, shards=SHARDS, tuning=Tuning(grace_ms=GRACE_MS))
    process = Process(frontier)
    await process.heart.open()
    yield process
    await process.pool.close()
    await process.heart.close()
    await client.aclose()


async def test_links_that_a_dying_master_had_acknowledged_are_not_lost(
    cluster: Cluster, process: Process
) -> None:
    pool = process.pool
    [parent] = [entry(f"http://{host}/") for host in hosts_of_master(1, 1, SHARDS)]
    links = [entry(f"http://{host}/") for host in hosts_of_master(0, 5, SHARDS)]
    await pool.outbox.add([parent])
    [lease] = (await pool._frontier.claim(1, "r", shard=shard_of(parent.host, SHARDS))).leases
    pool._held[lease.key] = lease
    # The links are acknowledged by a master that dies at once, before any beat. No beat may need a
    # second connection meanwhile: the master would want its password.
    assert process.heart._task is not None
    await end(process.heart._task)
    cluster.cut_off()
    added = await pool.outbox.add(links)
    assert added.new == len(links)
    pool.release(lease, 0)
    pool.done(lease, page=True)
    cluster.masters[0].kill()

    process.heart._task = asyncio.get_running_loop().create_task(process.heart._beat_forever())
    pool.open()
    fetched = await crawl_all(pool)
    assert set(fetched) - {parent.url} == {link.url for link in links}
    sizes = await pool._frontier.sizes()
    assert (sizes.unfinished, sizes.done) == (0, 1 + len(links))


async def redirected(pool: LeasePool, lease: Lease, target: Entry) -> None:
    sent = pool.outbox.add([target], mode="all")
    pool.settle_after(lease, sent, lambda _error: pool.done(lease, page=False))
    await until(lambda: not pool.held, "the target was acknowledged")


async def failed(pool: LeasePool, lease: Lease, target: Entry) -> None:
    """As an errback that gives a request, at the last failure."""
    await pool.outbox.add([target], mode="all")
    pool.fail(lease, Bury("timeout"))


@pytest.mark.parametrize("ending", [redirected, failed])
async def test_the_target_of_a_redirect_or_an_errback_outlives_its_master_and_its_process(
    cluster: Cluster, ending: Callable[[LeasePool, Lease, Entry], Awaitable[None]]
) -> None:
    [source] = [entry(f"http://{host}/") for host in hosts_of_master(1, 1, SHARDS)]
    [target] = [entry(f"http://{host}/") for host in hosts_of_master(0, 1, SHARDS)]
    client = await connect(cluster.masters[1].url)
    process = Process(Frontier(client, CRAWL, shards=SHARDS, tuning=Tuning(grace_ms=GRACE_MS)))
    pool = process.pool
    await process.heart.open()
    await pool.outbox.add([source])
    [lease] = (await pool._frontier.claim(1, "r", shard=shard_of(source.host, SHARDS))).leases
    pool._held[lease.key] = lease
    # The target is acknowledged by a master that dies before any beat, and this process with it.
    assert process.heart._task is not None
    await end(process.heart._task)
    cluster.cut_off()
    pool.release(lease, 0)
    await ending(pool, lease, target)
    await until(lambda: all(lane.task is None for lane in pool.outbox._lanes), "all was sent")
    cluster.masters[0].kill()
    await client.aclose()

    client = await connected(cluster.masters[1])
    frontier = Frontier(client, CRAWL, shards=SHARDS, tuning=Tuning(grace_ms=GRACE_MS))
    other = Process(frontier, lease_ttl_s=1)
    await other.heart.open()
    other.pool.open()
    fetched = []
    while other.pool.completion.reason is None:
        found = other.pool.take()
        if found is None:
            await asyncio.sleep(0.005)
            continue
        fetched.append(found.entry.url)
        if found.entry.url == source.url:
            await other.pool.outbox.add([target], mode="all")
        other.pool.release(found, 0)
        other.pool.done(found, page=True)
    assert fetched == [source.url, target.url]
    assert ((await frontier.sizes()).done, (await frontier.sizes()).dead) == (2, 0)
    await other.pool.close()
    await other.heart.close()
    await client.aclose()


async def connected(node: RedisProcess) -> Client:
    """A client, when the replica has taken over and all slots are served."""
    async with asyncio.timeout(30):
        while True:
            try:
                client = await connect(node.url)
                for tag in tags(CRAWL, SHARDS):
                    await client.exists(tag)
            except (CrawlerError, *RedisAway):
                await asyncio.sleep(0.05)
            else:
                return client
