"""URLs of a store that come into the frontier as crawled, as when it is made anew."""

from __future__ import annotations

from crawler.frontier import Entry
from tests.integration.frontier.fleet import T0, Place, beat, claim, entries, entry, hosts, urls

DAY_MS = 86_400_000


def crawled(found: list[Entry], wait_ms: int | None = None) -> list[tuple[Entry, bool, int | None]]:
    return [(each, True, wait_ms) for each in found]


async def test_crawled_urls_are_known_and_counted(place: Place) -> None:
    frontier = await place.instance()
    known = hosts(700)
    failed = entry("http://failed.test/")
    assert all(await frontier.restore([*crawled(known), (failed, False, None)], now_ms=T0))
    assert (await frontier.add([*known, failed, entry("http://new.test/")])).new == 1
    sizes = await frontier.sizes()
    assert (sizes.added, sizes.done, sizes.pages, sizes.waiting) == (702, 701, 700, 1)
    host = await (await place.control()).host("h0.test")
    assert host.pages == 1


async def test_a_repeated_restore_changes_nothing(place: Place) -> None:
    frontier = await place.instance()
    await frontier.add(entries(1, "waits.test"))
    found = [*crawled([*hosts(5), *entries(1, "waits.test")], DAY_MS)]
    assert await frontier.restore(found, now_ms=T0) == [True] * 5 + [False]
    before = await frontier.sizes()
    assert await frontier.restore(found, now_ms=T0) == [False] * 6
    assert await frontier.sizes() == before
    assert (before.recrawls, before.done, before.waiting) == (5, 5, 1)


async def test_recrawls_come_back_when_they_are_due(place: Place) -> None:
    frontier = await place.instance()
    soon, late = entry("http://soon.test/", tail={"visit": [1]}), entry("http://late.test/")
    await frontier.restore([(soon, True, 1000), (late, True, DAY_MS)], now_ms=T0)
    assert await claim(frontier) == []
    await frontier.promote(now_ms=T0 + 2000)
    await beat(frontier, now_ms=T0 + 2000)
    [lease] = await claim(frontier, now_ms=T0 + 2000)
    assert urls([lease]) == ["http://soon.test/"]
    assert lease.entry.tail == {"visit": [1]}
    await frontier.promote(now_ms=T0 + DAY_MS + 3_600_000)
    assert (await frontier.sizes()).recrawls == 0


async def test_documents_count_for_their_budgets(place: Place) -> None:
    frontier = await place.instance()
    await frontier.restore(crawled(entries(3, "docs.test", queue=6)), now_ms=T0)
    assert int(await place.redis.hget(place.key("docs.test", "accepted:6"), "docs.test")) == 3
