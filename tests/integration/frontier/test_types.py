"""Documents and media have queues of their own: with a share of the turns, and with a budget."""

from __future__ import annotations

from collections import Counter

import pytest

from crawler.frontier import Entry, Frontier, Lease, Tuning
from crawler.frontier.entry import DOCUMENTS, MEDIA
from crawler.frontier.records import PAGE_AGAIN
from crawler.frontier.sweep import Sweeper
from crawler.frontier.tuning import TypeBudget, TypeBudgets
from tests.integration.frontier.fleet import T0, Place, claim, crawl, entries, entry, one, urls

BIG = "big.test"


def files(number: int, host: str = BIG, queue: int = DOCUMENTS) -> list[Entry]:
    return [entry(f"http://{host}/{i}.file", queue) for i in range(number)]


def kinds(leases: list[Lease]) -> Counter[int]:
    """Number of URLs by the queue of their type; those of pages are 0."""
    return Counter(lease.entry.queue if lease.entry.queue >= DOCUMENTS else 0 for lease in leases)


async def fetched(frontier: Frontier, number: int, now_ms: int = T0) -> list[Lease]:
    """Claim and settle so many URLs, one after the other."""
    leases = []
    for _ in range(number):
        leases.append((await claim(frontier, 1, now_ms=now_ms))[0])
        await crawl(frontier, leases[-1], now_ms=now_ms)
    return leases


def tuning(budgets: TypeBudgets) -> Tuning:
    return Tuning(type_budgets=budgets)


# --- shares --------------------------------------------------------------------------------------


async def test_pages_of_a_host_are_fetched_beside_very_many_documents(frontier: Frontier) -> None:
    # More than a front queue may have of one host.
    await frontier.add(files(3000))
    await frontier.add(entries(100, BIG, queue=3))
    # 20% for documents, of what media leave.
    found = kinds(await fetched(frontier, 115))
    assert 85 <= found[0] <= 95
    assert found[0] + found[DOCUMENTS] == 115
    # When the pages are done, nothing but documents is left.
    assert kinds(await fetched(frontier, 40))[DOCUMENTS] >= 25


async def test_each_type_has_its_share_and_pages_share_theirs_by_weight(place: Place) -> None:
    frontier = await place.instance()
    for queue in (1, 2, DOCUMENTS, MEDIA):
        await frontier.add([entry(f"http://{BIG}/{queue}/{i}", queue) for i in range(150)])
    found = Counter(lease.entry.queue for lease in await fetched(frontier, 143))
    assert found[DOCUMENTS] / 143 == pytest.approx(0.2, abs=0.02)
    assert found[MEDIA] / 143 == pytest.approx(0.1, abs=0.02)
    # Weights of 40 and 30, and the turns of those that are empty.
    assert 1.1 < found[1] / found[2] < 1.6


async def test_other_hosts_are_not_held_up_by_documents(frontier: Frontier) -> None:
    await frontier.add(files(5000))
    others = [entry(f"http://h{i}.test/", 5) for i in range(50)]
    await frontier.add(others)
    found = await claim(frontier, 60)
    assert {lease.entry.host for lease in found} == {BIG, *(each.host for each in others)}


async def test_a_type_without_a_share_comes_when_there_are_no_pages(place: Place) -> None:
    frontier = await place.instance(tuning=tuning(TypeBudgets(document=TypeBudget(0.0))))
    await frontier.add([*files(5), *entries(5, BIG)])
    assert kinds(await fetched(frontier, 5)) == {0: 5}
    assert kinds(await fetched(frontier, 5)) == {DOCUMENTS: 5}


async def test_the_shares_may_change_while_a_crawl_runs(frontier: Frontier) -> None:
    await frontier.add([*files(60), *entries(60, BIG)])
    half = TypeBudgets(document=TypeBudget(0.5), medium=TypeBudget(0.0))
    frontier.set_queues((1, 1, 1, 1, 1), (1, 1, 1, 1, 1), 100_000, half)
    assert kinds(await fetched(frontier, 40)) == {0: 20, DOCUMENTS: 20}


# --- budgets -------------------------------------------------------------------------------------


async def test_over_its_budget_no_file_of_a_host_is_taken(place: Place) -> None:
    frontier = await place.instance(tuning=tuning(TypeBudgets(TypeBudget(0.2, max_per_host=3))))
    some = files(5)
    assert (await frontier.add(some)).answers == "11133"
    # Also when they are found again, and when the first ones are done.
    await fetched(frontier, 3)
    again = await frontier.add(some)
    assert (again.answers, again.over_budget, again.refused) == ("00033", 2, 0)
    assert (await frontier.add(entries(5, BIG))).new == 5
    assert (await frontier.add(files(5, "other.test"))).new == 3
    assert (await frontier.add(files(2, queue=MEDIA)[:1])).answers == "0"
    assert (await frontier.add([entry(f"http://{BIG}/a.png", MEDIA)])).answers == "1"
    # They are not marked as seen, so that a larger budget takes them.
    frontier.set_queues(
        *(frontier.tuning.weights, frontier.tuning.load_weights, 100_000),
        TypeBudgets(TypeBudget(0.2, max_per_host=4)),
    )
    assert (await frontier.add(some)).answers == "00013"


async def test_a_budget_of_all_hosts_counts_those_of_all_shards(place: Place) -> None:
    budgets = TypeBudgets(TypeBudget(0.2, max_per_host=0, max=4 * place.shards))
    frontier = await place.instance(tuning=tuning(budgets))
    some = [each for i in range(10 * place.shards) for each in files(1, f"h{i}.test")]
    await frontier.add(some[:1])
    for each in some:
        await frontier.add([each])
    found = (await frontier.sizes()).front[DOCUMENTS - 1]
    # On a cluster each shard has a part of it, and some get fewer hosts than that.
    assert found == budgets.document.max or (place.shards == 12 and 30 <= found < 48)


async def test_seeds_and_repeated_adds_are_not_refused_but_counted(place: Place) -> None:
    frontier = await place.instance(tuning=tuning(TypeBudgets(TypeBudget(0.2, max_per_host=1))))
    some = files(4)
    assert (await frontier.add(some[:2], mode="all")).answers == "11"
    assert (await frontier.add(some[1:3], mode="all")).answers == "01"
    assert (await frontier.add(some)).answers == "0003"


# --- each keeps its queue ------------------------------------------------------------------------


async def queues(frontier: Frontier) -> tuple[int, ...]:
    return (await frontier.sizes()).front


async def test_a_document_comes_back_to_its_queue(frontier: Frontier, place: Place) -> None:
    (document,) = files(1)
    await frontier.add([document])
    alone = (0, 0, 0, 0, 0, 1, 0)
    assert await queues(frontier) == alone
    lease = await one(frontier)
    # Handed back, it waits beside pages of its host, and takes turns with them.
    await frontier.hand_back([(lease, 0)], now_ms=T0)
    await frontier.add(entries(3, BIG))
    assert kinds(await fetched(frontier, 4)) == {0: 3, DOCUMENTS: 1}
    for now_ms, kind in ((T0 + 10_000, "r"), (T0 + 20_000, PAGE_AGAIN)):
        await frontier.add([document], mode="force")
        lease = await one(frontier, now_ms=now_ms)
        again = lease.entry.retried() if kind == "r" else lease.entry
        await frontier.release([(lease, 0)], now_ms=now_ms)
        await frontier.retry([(lease, 1000, again)], kind=kind, now_ms=now_ms)
        await frontier.promote(now_ms=now_ms + 2000)
        assert await queues(frontier) == alone
        lease = await one(frontier, now_ms=now_ms + 2000)
        await frontier.bury([(lease, "gone")], now_ms=now_ms + 2000)
        await (await place.control()).requeue()
        assert await queues(frontier) == alone
        await fetched(frontier, 1, now_ms=now_ms + 4000)
    await frontier.add([document], mode="force")
    await one(frontier, now_ms=T0 + 30_000)
    other = await place.instance(now_ms=T0 + 90_000)
    await other.reclaim(silence_ms=30_000, delay_ms=0, now_ms=T0 + 90_000)
    assert await queues(other) == alone


async def test_lifts_and_orders_for_hosts_leave_documents_in_their_queue(
    frontier: Frontier, place: Place
) -> None:
    control = await place.control()
    await control.host("ordered.test", queue=1)
    await frontier.add([entry("http://busy.test/first")])
    busy = await one(frontier)
    some = [*files(3, "busy.test"), *files(3, "ordered.test"), *entries(3, "ordered.test", 5)]
    await frontier.add(some)
    await frontier.lift((each.id, each.host, 1) for each in some)
    sweeper = Sweeper(place.redis, frontier, pause_s=0)
    await sweeper.sweep_all()
    assert (await queues(frontier))[DOCUMENTS - 1] == 6
    lease = await one(frontier)
    # Now they are in back queues.
    await frontier.lift((each.id, each.host, 1) for each in some)
    await sweeper.sweep_all()
    for host in ("busy.test", "ordered.test"):
        taken = int(lease.entry.host == host and lease.entry.queue == DOCUMENTS)
        key = place.key(host, f"back:{host}:{DOCUMENTS}")
        assert await place.redis.llen(key) == 3 - taken
    await frontier.hand_back([(busy, 0), (lease, 0)], now_ms=T0)
    assert len(await fetched(frontier, 10)) == 10


async def test_a_purge_drops_documents_and_those_that_come_later_stay(
    frontier: Frontier, place: Place
) -> None:
    await frontier.add(files(3))
    await frontier.add(files(2, queue=MEDIA))
    control = await place.control()
    await control.host(BIG, purge=1)
    later = entry(f"http://{BIG}/later.pdf", DOCUMENTS)
    await frontier.add([later])
    assert urls(await claim(frontier)) == [later.url]
    assert (await frontier.sizes()).dropped_purged == 3


async def test_a_host_that_an_earlier_release_purged_has_documents(
    frontier: Frontier, place: Place
) -> None:
    control = await place.control()
    await control.host(BIG, purge=1)
    await place.redis.hset(place.key(BIG, f"host:{BIG}"), "cut", "0 0 0 0 0")
    await frontier.add(files(2))
    assert kinds(await fetched(frontier, 2)) == {DOCUMENTS: 2}


async def test_a_document_is_found_where_it_waits(frontier: Frontier, place: Place) -> None:
    (document,) = files(1)
    await frontier.add([document])
    found = await (await place.control()).status(document.url)
    assert found.state == "waiting"
    assert found.entry is not None
    assert found.entry.queue == DOCUMENTS
