"""A master of a cluster dies, and its replica takes over without the master's last moments."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from crawler.frontier import Frontier, Tuning
from crawler.frontier.connection import connect
from crawler.frontier.shards import shard_of
from crawler.tasks import end
from tests.cluster import RedisProcess, add_replica, cluster_node, form_cluster, poll
from tests.integration.frontier.fleet import CRAWL, Process, crawl_all, entry, hosts_of_master

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
            poll(lambda: replica.info("replication")["slave_repl_offset"] >= offset, "in step")
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
    await process.bench.close()
    await process.heart.close()
    await client.aclose()


async def test_links_that_a_dying_master_had_acknowledged_are_not_lost(
    cluster: Cluster, process: Process
) -> None:
    bench = process.bench
    [parent] = [entry(f"http://{host}/") for host in hosts_of_master(1, 1, SHARDS)]
    links = [entry(f"http://{host}/") for host in hosts_of_master(0, 5, SHARDS)]
    await bench.outbox.add([parent])
    [lease] = (await bench._frontier.claim(1, "r", shard=shard_of(parent.host, SHARDS))).leases
    bench._held[lease.key] = lease
    # The links are acknowledged by a master that dies at once, before any beat. No beat may need a
    # second connection meanwhile: the master would want its password.
    assert process.heart._task is not None
    await end(process.heart._task)
    cluster.cut_off()
    added = await bench.outbox.add(links)
    assert added.new == len(links)
    bench.release(lease, 0)
    bench.outbox.done(lease, page=True)
    bench.settled(lease)
    cluster.masters[0].kill()

    process.heart._task = asyncio.get_running_loop().create_task(process.heart._beat_forever())
    bench.open()
    fetched = await crawl_all(bench)
    assert set(fetched) - {parent.url} == {link.url for link in links}
    sizes = await bench._frontier.sizes()
    assert (sizes.unfinished, sizes.done) == (0, 1 + len(links))
