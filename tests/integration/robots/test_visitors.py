"""Pages that visit a host for a part and do not know its rules, on a real Redis."""

from __future__ import annotations

from time import monotonic

from redis.asyncio import Redis

from crawler.frontier import CrawlControl, Frontier
from crawler.robots.gate import Allowed, Denied
from crawler.scheduling.visits import HostVisits
from tests.integration.frontier.fleet import CRAWL, Process
from tests.unit.middlewares.robots_worlds import ALLOWED, FORBIDDEN, World, answer

HOST = "h.test"


async def test_the_rules_are_fetched_in_a_visit_whose_end_keeps_their_delay(
    redis_client: Redis,
) -> None:
    frontier = Frontier(redis_client, CRAWL)
    await frontier.open()
    pool = Process(frontier).pool
    pool.keep_alive(monotonic() + 60)
    world = World(answer())
    world.robots.open(redis_client)
    gate = world.robots.gate
    visits = HostVisits(pool, gate.host_delays)
    assert await gate.check_part(ALLOWED) is None
    async with visits.at(HOST, within_s=60) as visit:
        assert visit is not None
        async with visit.turn():
            assert await gate.fetch_rules(ALLOWED, visit) == 7.0
    await visits.close()
    await pool.outbox.drain()
    state = await (await CrawlControl.open(redis_client, CRAWL)).host(HOST)
    assert (state.in_flight, state.delay_ms) == (0, 7000)
    # Another process finds them.
    other = World(answer())
    other.robots.open(redis_client)
    assert isinstance(await other.robots.gate.check_part(ALLOWED), Allowed)
    assert isinstance(await other.robots.gate.check_part(FORBIDDEN), Denied)
    assert (len(world.asked), other.asked) == (1, [])
