"""Overloads and failures of hosts, counted for the fleet on a real Redis; and their delays."""

from redis.asyncio import Redis

from crawler.politeness.host_delays import FAILURES, OVERLOAD, Fetch, HostDelays, HostHealth
from tests.support.crawlers import project_crawler

HOST = "h.test"
OVERLOADED = Fetch(0.01, 503)
LOST = Fetch(0.01, None)


def host_delays_in(redis: Redis) -> HostDelays:
    """Those of one process of a fleet."""
    host_delays = HostDelays.of(
        project_crawler(
            DELAY_FACTOR=0,
            DELAY_MIN=1,
            BREAKER_FAILURES=3,
            BREAKER_REST=30,
            HOST_RULES={"ruled.test": {"delay": 2}},
        )
    )
    host_delays.health = HostHealth(redis, quiet_s=1800)
    return host_delays


async def test_overloads_and_failures_are_counted_by_host_and_kind_whoever_meets_them(
    redis_client: Redis,
) -> None:
    for expected in (1, 2, 3):
        assert await HostHealth(redis_client, quiet_s=10).count(OVERLOAD, HOST) == expected
    health = HostHealth(redis_client, quiet_s=10)
    assert await health.count(FAILURES, HOST) == 1
    assert await health.count(OVERLOAD, "other.test") == 1
    assert await redis_client.get(f"health:overload:{HOST}") == b"3"
    assert await redis_client.get(f"health:failures:{HOST}") == b"1"


async def test_they_are_forgotten_some_quiet_time_after_the_delay(redis_client: Redis) -> None:
    health = HostHealth(redis_client, quiet_s=1800)
    await health.count(OVERLOAD, HOST)
    # A process that dies now leaves nothing for ever.
    assert await redis_client.pttl(f"health:overload:{HOST}") > 0
    await health.forget_after(OVERLOAD, HOST, 60)
    assert 1_850_000 < await redis_client.pttl(f"health:overload:{HOST}") <= 1_860_000


async def test_a_host_that_works_again_has_no_failures_in_a_row(redis_client: Redis) -> None:
    mine, other = HostHealth(redis_client, quiet_s=10), HostHealth(redis_client, quiet_s=10)
    await mine.count(FAILURES, HOST)
    await mine.count(OVERLOAD, HOST)
    await other.worked(HOST)
    assert await mine.count(FAILURES, HOST) == 1
    # An overload is no broken connection: an answer does not undo it.
    assert await mine.count(OVERLOAD, HOST) == 2


async def test_redis_is_not_told_of_every_fetch_that_works(redis_client: Redis) -> None:
    health = HostHealth(redis_client, quiet_s=10)
    await health.worked(HOST)
    before = (await redis_client.info("stats"))["total_commands_processed"]
    for _ in range(100):
        await health.worked(HOST)
    assert (await redis_client.info("stats"))["total_commands_processed"] - before < 10


async def test_the_failures_of_a_host_that_works_again_are_told_once(redis_client: Redis) -> None:
    mine, other = (
        HostHealth(redis_client, quiet_s=10),
        HostHealth(redis_client, quiet_s=10, fine_s=0),
    )
    assert await other.worked(HOST) == 0
    for _ in range(3):
        await mine.count(FAILURES, HOST)
    # It said a moment ago that the host works, and still sees what happened since.
    assert await other.worked(HOST) == 3
    assert await mine.worked(HOST) == 0


async def test_while_redis_is_away_each_of_them_counts_as_the_first() -> None:
    # Nothing listens on the discard port.
    async with Redis.from_url("redis://127.0.0.1:9") as away:
        health = HostHealth(away, quiet_s=10)
        assert await health.count(OVERLOAD, HOST) == 1
        assert await health.count(OVERLOAD, HOST) == 1
        await health.forget_after(OVERLOAD, HOST, 1)
        await health.worked(HOST)


async def test_an_overloaded_host_is_left_alone_longer_each_time_whichever_process_asks(
    redis_client: Redis,
) -> None:
    for expected_s in (60, 120, 240):
        delay_ms = (await host_delays_in(redis_client).after(HOST, OVERLOADED)).ms
        assert expected_s * 1000 <= delay_ms <= expected_s * 1100


async def test_a_breaker_opens_for_the_fleet_and_one_answer_closes_it(redis_client: Redis) -> None:
    delays = [
        (await host_delays_in(redis_client).after(HOST, LOST, unanswered=True)).ms for _ in range(4)
    ]
    assert delays[:2] == [2_000, 2_000]
    assert 30_000 <= delays[2] <= 33_000
    assert 60_000 <= delays[3] <= 66_000
    await host_delays_in(redis_client).answered(HOST)
    assert (await host_delays_in(redis_client).after(HOST, LOST, unanswered=True)).ms == 2_000


async def test_the_causes_of_delays_are_counted(redis_client: Redis) -> None:
    host_delays = host_delays_in(redis_client)
    await host_delays.after(HOST, Fetch(0.01, 200))
    await host_delays.after(HOST, Fetch(0.01, 200), crawl_delay_s=5)
    await host_delays.after(HOST, Fetch(0.01, 503, retry_after_s=100))
    await host_delays.after(HOST, OVERLOADED)
    for _ in range(4):
        await host_delays.after(HOST, LOST, unanswered=True)
    await host_delays.answered(HOST)
    await host_delays.after("ruled.test", Fetch(0.01, 200))
    stats = host_delays._crawler.stats
    assert stats is not None
    found = {name: value for name, value in stats.get_stats().items() if "/" in name}
    assert found.pop("politeness/rest_ms") > 0
    assert found == {
        "delay/minimum": 3,
        "delay/crawl_delay": 1,
        "delay/retry_after": 1,
        "delay/overload": 1,
        "delay/breaker": 2,
        "delay/host_rule": 1,
        # Opened, tried in vain and opened again, tried and closed.
        "breaker/opened": 2,
        "breaker/half_open": 2,
        "breaker/closed": 1,
    }
