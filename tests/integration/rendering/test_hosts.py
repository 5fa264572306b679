"""What the fleet has learnt of hosts, in a real Redis."""

from redis.asyncio import Redis

from crawler.rendering.hosts import RenderedHosts
from crawler.rendering.needs import Standing, Trials


async def test_nothing_is_known_of_a_new_host(redis_client: Redis) -> None:
    assert await RenderedHosts(redis_client).trials_of("h.test") == Trials(0, 0)


async def test_trials_are_shared_with_other_processes(redis_client: Redis) -> None:
    mine = RenderedHosts(redis_client)
    for gained in (True, True, False):
        await mine.note("h.test", gained=gained)
    assert await mine.trials_of("h.test") == Trials(3, 2)
    assert await RenderedHosts(redis_client).trials_of("h.test") == Trials(3, 2)
    assert await mine.trials_of("other.test") == Trials()


async def test_a_host_that_changes_is_found_out(redis_client: Redis) -> None:
    hosts = RenderedHosts(redis_client)
    for _ in range(200):
        await hosts.note("h.test", gained=False)
    assert (await hosts.trials_of("h.test")).standing is Standing.PLAIN
    for _ in range(60):
        await hosts.note("h.test", gained=True)
    assert (await hosts.trials_of("h.test")).standing is Standing.NEEDS


async def test_what_is_known_expires(redis_client: Redis) -> None:
    await RenderedHosts(redis_client).note("h.test", gained=True)
    assert 0 < await redis_client.pttl("rendering:h.test") <= 30 * 86_400_000
