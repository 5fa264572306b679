"""The rate of a whole crawl: even, whichever instances claim, and from whichever shards."""

import pytest

from crawler.frontier import Frontier
from tests.integration.frontier.fleet import T0, Place, claim, hosts, request_id

STEP_MS = 10


def parts(place: Place, frontier: Frontier) -> int:
    """How many parts the rate is divided into: on a cluster each shard has one."""
    return 1 if frontier.has_one_server else place.shards


async def test_instances_keep_one_rate_together(place: Place) -> None:
    fleet = [await place.instance() for _ in range(3)]
    await fleet[0].add(hosts(400))
    times: list[int] = []
    for step in range(300):
        now_ms = T0 + step * STEP_MS
        leases = await claim(fleet[step % 3], now_ms=now_ms, per_minute=3000)
        times += [now_ms] * len(leases)
    # 50 a second for three seconds, and 250 ms that may be caught up with at the start.
    most = 150 + 13 + parts(place, fleet[0])
    assert 150 <= len(times) <= most
    for start in range(0, 3000, 500):
        within = sum(T0 + start <= time < T0 + start + 500 for time in times)
        assert within <= 25 + 13 + parts(place, fleet[0])


async def test_what_is_not_claimed_in_time_is_no_burst_later(place: Place) -> None:
    frontier = await place.instance()
    await frontier.add(hosts(400))
    assert await claim(frontier, 1, per_minute=600)
    later = T0 + 3_600_000
    assert len(await claim(frontier, now_ms=later, per_minute=600)) <= 3 + parts(place, frontier)


async def test_a_claim_says_when_the_next_one_is_allowed(place: Place) -> None:
    frontier = await place.instance()
    await frontier.add(hosts(400))
    limits = {"per_minute": 60, "now_ms": T0}
    interval_ms = 1000 * parts(place, frontier)
    first = await frontier.claim(10, request_id(), **limits)
    assert (len(first.leases), first.state, first.wait_ms) == (1, "ok", interval_ms - 250)
    assert not first.more
    second = await frontier.claim(10, request_id(), **limits)
    assert (second.leases, second.state, second.wait_ms) == ([], "paced", interval_ms - 250)


async def test_leases_without_a_fetch_do_not_count(place: Place) -> None:
    frontier = await place.instance()
    await frontier.add(hosts(400))
    assert len((await frontier.claim(10, request_id(), per_minute=1, now_ms=T0)).leases) == 1
    limits = {"per_minute": 1, "now_ms": T0 + 1}
    again = await frontier.claim_from({0: (10, request_id())}, unused={0: 1}, **limits)
    assert len(again[0].leases) == 1
    none = await frontier.claim_from({0: (10, request_id())}, **limits)
    assert (none[0].leases, none[0].state) == ([], "paced")


async def test_a_repeated_claim_counts_once(place: Place) -> None:
    frontier = await place.instance()
    await frontier.add(hosts(400))
    limits = {"per_minute": 60, "now_ms": T0}
    first = await frontier.claim(10, "same", **limits)
    again = await frontier.claim(10, "same", **limits)
    assert [lease.token for lease in again.leases] == [lease.token for lease in first.leases]
    due_ms = T0 + 1000 * parts(place, frontier)
    assert (await frontier.claim(1, request_id(), per_minute=60, now_ms=due_ms)).leases


@pytest.mark.parametrize(("before", "after", "wait_ms"), [(1, 600, 100), (600, 0, 0)])
async def test_a_new_rate_applies_at_once(
    place: Place, before: int, after: int, wait_ms: int
) -> None:
    frontier = await place.instance()
    await frontier.add(hosts(400))
    await frontier.claim(1, request_id(), per_minute=before, now_ms=T0)
    await frontier.claim(1, request_id(), per_minute=after, now_ms=T0)
    later = T0 + wait_ms * parts(place, frontier)
    assert (await frontier.claim(1, request_id(), per_minute=after, now_ms=later)).leases
