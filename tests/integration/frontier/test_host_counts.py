"""Hosts are counted by state without a look at each of them."""

import time

from crawler.frontier import Frontier
from tests.integration.frontier.fleet import CRAWL, Place, hosts, request_id

FAR_MS = 3_600_000


async def test_hosts_are_counted_by_state(place: Place) -> None:
    frontier = Frontier(place.redis, CRAWL, shards=place.shards)
    await frontier.open()
    control = await place.control()
    assert not any((await control.host_counts()).values())

    await frontier.add(hosts(9))
    leases = []
    for shard in range(place.shards):
        leases += (await frontier.claim(9, request_id(), shard=shard)).leases
    assert (await control.host_counts())["in_flight"] == 9

    # Two rest, of which one is blocked; two are ready again; one is excluded.
    names = [lease.entry.host for lease in leases]
    await frontier.hand_back([(lease, FAR_MS) for lease in leases[:2]])
    await frontier.hand_back([(lease, 0) for lease in leases[2:4]])
    await control.host(names[0], block=round(time.time() * 1000) + FAR_MS)
    await frontier.done([(leases[4], True)])
    await frontier.release([(leases[4], 0)])
    await control.host(names[4], exclude=True)
    assert await control.host_counts() == {
        "ready": 2,
        "resting": 1,
        "in_flight": 4,
        "blocked": 1,
        "excluded": 1,
    }
