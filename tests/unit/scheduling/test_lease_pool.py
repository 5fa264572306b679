"""Leases are settled once: put off by a middleware, or when what came of them is safe."""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest
from scrapy import Request

from crawler.errors import NotStored
from crawler.frontier import Entry, Frontier, Lease
from crawler.scheduling.engine import EngineHooks
from crawler.scheduling.lease_pool import CompletionLimits, LeasePool, RecentReleases
from crawler.scheduling.outcome import Bury, Retry
from crawler.scheduling.recrawls import Recrawls
from crawler.servers.health import GaveUp, redis_health
from crawler.util.request_meta import LEASE
from tests.support.schedulers import lease_of


class RecordingOutbox:
    """Takes the verbs of leases; sends nothing."""

    def __init__(self) -> None:
        self.verbs: list[str] = []

    def __getattr__(self, verb: str) -> Callable[..., None]:
        return lambda *_arguments, **_more: self.verbs.append(verb)


class Pool:
    """A lease pool that holds one lease, and counts."""

    def __init__(self) -> None:
        async def nothing() -> int:
            return 0

        self.counted: list[str] = []
        hooks = EngineHooks(lambda: 0, lambda: None, nothing, count=self.counted.append)
        frontier, health = Frontier(None, "crawl"), redis_health()
        self.leases = LeasePool(frontier, health, CompletionLimits(), hooks, Recrawls())
        self.outbox = RecordingOutbox()
        self.leases.outbox = self.outbox  # type: ignore[assignment]
        self.lease: Lease = lease_of()
        self.leases.claimed([self.lease])
        assert self.leases.take() is self.lease


@pytest.fixture
def pool() -> Pool:
    return Pool()


def test_a_request_that_is_put_off_no_longer_has_a_lease(pool: Pool) -> None:
    request = Request("http://h.test/a", meta={LEASE: pool.lease})
    assert pool.leases.put_off(request, 1000) is request
    assert pool.outbox.verbs == ["hand_back"]
    assert not pool.leases.holds(pool.lease)
    assert not pool.leases.may_fetch(pool.lease)


def test_a_page_counts_for_its_shard_too(pool: Pool) -> None:
    pool.leases.done(pool.lease, page=True)
    assert pool.counted == ["pages/crawled", f"shard/pages/{pool.lease.shard}"]


def test_what_is_no_page_counts_for_no_shard(pool: Pool) -> None:
    pool.leases.done(pool.lease, page=False, no_page="robots/denied")
    assert pool.counted == ["robots/denied"]


@pytest.mark.parametrize(
    ("decision", "verb", "stats"),
    [
        (Retry(1, "timeout"), "retry", ["retry/timeout"]),
        (Bury("timeout"), "bury", ["failed/timeout", "dead/timeout"]),
    ],
)
def test_a_lease_fails_as_the_policy_decided(
    pool: Pool, decision: Retry | Bury, verb: str, stats: list[str]
) -> None:
    pool.leases.fail(pool.lease, decision)
    # It was not fetched, so its host is available at once.
    assert pool.outbox.verbs == [verb, "release"]
    assert pool.counted == stats
    assert not pool.leases.held


@pytest.mark.parametrize(
    ("error", "verbs"),
    [
        (None, ["done", "release"]),
        (ValueError("odd"), ["bury", "release"]),
        (GaveUp("Redis is away"), ["hand_back"]),
        (NotStored("MongoDB is away"), ["hand_back"]),
        (asyncio.CancelledError(), ["hand_back"]),
    ],
)
async def test_a_lease_is_settled_after_something_else_is_safe(
    pool: Pool, error: BaseException | None, verbs: list[str]
) -> None:
    leases, lease = pool.leases, pool.lease

    def settle(error: BaseException | None) -> None:
        if error is None:
            leases.done(lease, page=False)
        else:
            leases.fail(lease, Bury("odd"))

    safe: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    leases.settle_after(lease, safe, settle)
    # Nobody else settles it, and it is neither lost nor forgotten.
    assert not leases.holds(lease)
    assert (list(leases.taken), leases.held) == ([], 1)
    if isinstance(error, asyncio.CancelledError):
        safe.cancel()
    elif error is not None:
        safe.set_exception(error)
    else:
        safe.set_result(None)
    await asyncio.sleep(0)
    assert pool.outbox.verbs == verbs
    assert not leases.held


async def test_a_lease_that_was_dropped_meanwhile_is_not_settled(pool: Pool) -> None:
    safe: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    pool.leases.settle_after(pool.lease, safe, lambda _error: pytest.fail("it is not ours"))
    pool.leases.drop_all()
    safe.set_result(None)
    await asyncio.sleep(0)
    assert pool.outbox.verbs == []


@pytest.mark.parametrize(
    ("begun", "ended", "violations"), [(True, False, 1), (True, True, 0), (False, False, 0)]
)
def test_a_fetch_whose_lease_is_lost_may_violate_politeness(
    pool: Pool, begun: bool, ended: bool, violations: int
) -> None:
    if begun:
        assert pool.leases.may_fetch(pool.lease)
    if ended:
        pool.leases.release(pool.lease, 1000)
    pool.leases.drop_all()
    assert pool.counted.count("politeness/violations") == violations


@pytest.mark.parametrize(("is_known", "violations"), [(True, 0), (False, 1)])
def test_a_fetch_that_ended_too_late_violates_politeness_if_its_lease_was_lost(
    pool: Pool, is_known: bool, violations: int
) -> None:
    assert pool.leases.may_fetch(pool.lease)
    # As after a standstill of this process.
    pool.leases.keep_alive(monotonic() - 1)
    pool.leases.release(pool.lease, 1000)
    if is_known:
        pool.leases.keep_alive(monotonic() + 60)
    pool.leases.drop_all()
    assert pool.counted.count("politeness/violations") == violations


@pytest.mark.parametrize("group_skip", [0, 4])
def test_recent_releases_name_lease_and_host_of_each_fetch(group_skip: int) -> None:
    recent = RecentReleases()
    here = Lease(1, b"7", Entry(5, "https://www.a.test:8443/path", group_skip=group_skip))
    recent.add(here, 500, now_s=100.0)
    recent.add(Lease(0, b"8", Entry(6, "http://b.test/")), 900, now_s=100.0)
    [(found, left_ms)] = recent.left(1, now_s=100.2)
    assert (found.key, found.entry.host, left_ms) == (here.key, here.entry.host, 300)


def test_releases_of_long_ago_are_forgotten() -> None:
    recent = RecentReleases()
    recent.add(Lease(0, b"1", Entry(1, "http://a.test/")), 0, now_s=0.0)
    recent.add(Lease(0, b"2", Entry(2, "http://b.test/")), 0, now_s=40.0)
    assert [lease.token for lease, _ in recent.left(0, now_s=40.0)] == [b"2"]
