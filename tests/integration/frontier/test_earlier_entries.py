"""Entries of version 1, which crawls of earlier releases have: every verb serves them."""

from dataclasses import replace

from crawler.frontier import CrawlControl, Entry, Frontier
from crawler.frontier.records import PAGE_AGAIN
from tests.integration.frontier.fleet import (
    CRAWL,
    T0,
    Place,
    beat,
    claim,
    crawl,
    entry,
    one,
    urls,
)

URL = "http://a.test/p"
# As the release before made it; queue 2, depth 3.
DATA = (
    b"\x10\x03@\x00\x00T\xd7\x85\x12w\x98\xbb\xa2\x00\x00\x00\x00\x00\x00\x00\x07"  # header
    b"a.test/p"
)
# Of the same release: "www." is outside the politeness group, and a written form and a tail follow.
GROUPED_URL = "https://www.b.test/q?a&b"
GROUPED = (
    b"\x13\x00\x20\x00\x04\xaeV\xe0\x06\xa4\x11\xea\x9f\x00\x00\x00\x00\x00\x00\x00\x00"
    b'www.b.test/q?a&b\n?b&a\n\x81\xa4etag\xa3"1"'
)
NOW_S = 1_800_000_000
MINUTE_MS = 60_000


def entry_of_version_1() -> Entry:
    return entry(URL, queue=2, depth=3, parent=7)


async def test_both_versions_are_claimed_and_settled_side_by_side(
    frontier: Frontier, place: Place
) -> None:
    new = [entry(f"http://{host}/new", discovered_s=NOW_S) for host in ("a.test", "b.test")]
    assert (await frontier.add([DATA, GROUPED, *new])).answers == "1111"
    # Known by their ids, whatever the version.
    assert (await frontier.add([entry_of_version_1()])).answers == "0"
    found, now_ms = {}, T0
    while leases := await claim(frontier, now_ms=now_ms):
        assert len({lease.entry.host for lease in leases}) == len(leases)
        for lease in leases:
            found[lease.entry.url] = lease.entry
            await crawl(frontier, lease, now_ms=now_ms)
        now_ms += MINUTE_MS
    assert found.keys() == {URL, GROUPED_URL, *(each.url for each in new)}
    assert found[URL] == entry_of_version_1()
    assert found[GROUPED_URL].host == "b.test"
    assert found[GROUPED_URL].written_url == "https://www.b.test/q?b&a"
    assert [found[each.url].discovered_s for each in new] == [NOW_S, NOW_S]
    sizes = await frontier.sizes()
    assert (sizes.done, sizes.unfinished) == (4, 0)
    assert await place.dead() == {}


async def test_those_that_are_retried_recrawled_or_handed_back_come_back(
    frontier: Frontier,
) -> None:
    await frontier.add([DATA])
    lease = await one(frontier)
    await frontier.release([(lease, 0)], now_ms=T0)
    await frontier.retry([(lease, 1000, lease.entry.retried("timeout", now_s=1))], now_ms=T0)
    assert await frontier.promote(now_ms=T0 + MINUTE_MS) == 1
    lease = await one(frontier, now_ms=T0 + MINUTE_MS)
    assert (lease.entry.attempts, lease.entry.discovered_s) == (1, 0)
    await frontier.hand_back([(lease, 0)], now_ms=T0 + MINUTE_MS)
    lease = await one(frontier, now_ms=T0 + 2 * MINUTE_MS)
    await frontier.release([(lease, 0)], now_ms=T0 + 2 * MINUTE_MS)
    again = replace(lease.entry, attempts=0, tail={})
    await frontier.retry([(lease, 1000, again)], kind=PAGE_AGAIN, now_ms=T0 + 2 * MINUTE_MS)
    assert await frontier.promote(now_ms=T0 + 3 * MINUTE_MS) == 1
    assert (await one(frontier, now_ms=T0 + 3 * MINUTE_MS)).entry == entry_of_version_1()


async def test_a_new_entry_keeps_its_time_through_retries(frontier: Frontier) -> None:
    await frontier.add([entry(URL, discovered_s=NOW_S)])
    lease = await one(frontier)
    await frontier.release([(lease, 0)], now_ms=T0)
    await frontier.retry([(lease, 1000, lease.entry.retried("timeout", now_s=1))], now_ms=T0)
    await frontier.promote(now_ms=T0 + MINUTE_MS)
    assert (await one(frontier, now_ms=T0 + MINUTE_MS)).entry.discovered_s == NOW_S


async def test_lua_puts_them_back_as_they_are(frontier: Frontier, control: CrawlControl) -> None:
    await frontier.add([DATA])
    await frontier.hand_back([(await one(frontier), 0)], now_ms=T0)
    await frontier.bury([(await one(frontier), "gone")], now_ms=T0)
    assert [letter.data for letter in await control.dead(limit=10)] == [DATA]
    assert (await control.status(URL)).state == "dead"
    assert await control.requeue() == 1
    await one(frontier)
    # Its owner dies.
    survivor = Frontier(frontier._redis, CRAWL, shards=frontier.shards)
    await survivor.open()
    late_ms = T0 + 10 * MINUTE_MS
    await beat(survivor, now_ms=late_ms)
    assert await survivor.reclaim(silence_ms=MINUTE_MS, delay_ms=0, now_ms=late_ms) == 1
    lease = await one(survivor, now_ms=late_ms + MINUTE_MS)
    assert replace(lease.entry, reclaims=0) == entry_of_version_1()


async def test_damaged_ones_are_buried_and_stop_nothing(frontier: Frontier, place: Place) -> None:
    # Version 1 is whole with 25 bytes, version 2 has no host yet.
    cut = b"\x20" + DATA[1:25]
    await place.redis.rpush(place.key("a.test", "front:2"), cut, DATA[:22], b"", DATA)
    assert urls(await claim(frontier)) == [URL]
    assert len(await place.dead()) == 3
