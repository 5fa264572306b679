"""CrawlControl: what people do to hosts, URLs, dead letters and the whole crawl while it runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import crawler.frontier.control
from crawler.errors import CrawlerError
from crawler.frontier import CrawlControl, Entry, Frontier, Letter, UrlStatus, keys
from crawler.frontier.entry import encode
from crawler.urls import SITEMAP, fingerprint
from tests.integration.frontier.fleet import (
    CRAWL,
    T0,
    Place,
    beat,
    claim,
    crawl,
    entries,
    entry,
    hosts,
    one,
    urls,
)

HOUR_MS = 3_600_000


# --- block ---------------------------------------------------------------------------------------


async def test_a_blocked_host_is_not_contacted(frontier: Frontier, control: CrawlControl) -> None:
    await frontier.add(entries(2))
    state = await control.host("a.test", block=T0 + 5000)
    assert (state.blocked_until_ms, state.clock_ms) == (T0 + 5000, T0 + 5000)
    assert await claim(frontier, now_ms=T0 + 4999) == []
    assert len(await claim(frontier, now_ms=T0 + 5000)) == 1


async def test_a_block_reaches_a_host_that_waits_already(
    frontier: Frontier, control: CrawlControl
) -> None:
    await frontier.add(entries(2))
    await crawl(frontier, await one(frontier))
    await control.host("a.test", block=T0 + 5000)
    assert await claim(frontier, now_ms=T0 + 4999) == []


async def test_a_lifted_block_leaves_the_hosts_own_delay(
    frontier: Frontier, control: CrawlControl
) -> None:
    await frontier.add(entries(3))
    await crawl(frontier, await one(frontier), rest_ms=700)
    await control.host("a.test", block=T0 + 50_000)
    state = await control.host("a.test", block=0)
    assert (state.blocked_until_ms, state.clock_ms) == (0, T0 + 700)
    assert await claim(frontier, now_ms=T0 + 699) == []
    assert len(await claim(frontier, now_ms=T0 + 700)) == 1


async def test_lifting_a_block_that_is_none_changes_no_clock(
    frontier: Frontier, control: CrawlControl
) -> None:
    await frontier.add(entries(2))
    await crawl(frontier, await one(frontier), rest_ms=9000)
    assert (await control.host("a.test", block=0)).clock_ms == T0 + 9000


# --- what is kept of a host ----------------------------------------------------------------------


async def test_reading_a_host_changes_nothing(
    frontier: Frontier, control: CrawlControl, place: Place
) -> None:
    await frontier.add([entry("http://a.test/")])
    await crawl(frontier, await one(frontier), rest_ms=1000)
    key = place.key("a.test", "host:a.test")
    before = await place.redis.pttl(key)
    state = await control.host("a.test")
    assert (state.delay_ms, state.pages, state.in_flight, state.budget) == (1000, 1, 0, None)
    assert 0 < await place.redis.pttl(key) <= before


async def test_an_unknown_host_is_not_made_by_reading_it(
    control: CrawlControl, place: Place
) -> None:
    state = await control.host("never.test")
    assert (state.waiting, state.clock_ms, state.excluded) == (0, 0, False)
    assert not await place.redis.exists(place.key("never.test", "host:never.test"))


async def test_a_block_on_an_idle_host_expires_an_hour_after_it(
    frontier: Frontier, control: CrawlControl, place: Place
) -> None:
    await frontier.add([entry("http://a.test/")])
    await crawl(frontier, await one(frontier))
    await control.host("a.test", block=T0 + 5000)
    key = place.key("a.test", "host:a.test")
    seconds, _ = await place.redis.time()
    left = T0 + 5000 + HOUR_MS - seconds * 1000
    assert left - 60_000 < await place.redis.pttl(key) <= left


async def test_what_people_said_of_a_host_never_expires(
    frontier: Frontier, control: CrawlControl, place: Place
) -> None:
    await control.host("a.test", budget=3)
    await frontier.add([entry("http://a.test/")])
    await crawl(frontier, await one(frontier))
    assert await place.redis.pttl(place.key("a.test", "host:a.test")) == -1


@pytest.mark.parametrize(
    "orders",
    [
        {"colour": 1}, {"queue": 6}, {"queue": None}, {"budget": 0}, {"parallelism": 0},
        {"block": -1}, {"purge": False}, {"budget": "7"},
    ],
)  # fmt: skip
async def test_a_wrong_order_changes_nothing(control: CrawlControl, orders: dict[str, Any]) -> None:
    with pytest.raises(CrawlerError, match="host"):
        await control.host("a.test", **{"exclude": True, **orders})
    assert not (await control.host("a.test")).excluded


# --- exclude, purge, queue, budget ---------------------------------------------------------------


async def test_an_excluded_hosts_urls_are_dropped_wherever_they_wait(
    frontier: Frontier, control: CrawlControl
) -> None:
    await frontier.add(entries(5))
    await crawl(frontier, await one(frontier))
    await frontier.add([entry("http://a.test/front"), entry("http://b.test/")])
    assert (await control.host("a.test", exclude=True)).waiting == 0
    assert urls(await claim(frontier)) == ["http://b.test/"]
    sizes = await frontier.sizes()
    assert (sizes.dropped_excluded, sizes.unfinished) == (5, 1)


async def test_a_host_may_be_taken_in_again(frontier: Frontier, control: CrawlControl) -> None:
    await control.host("a.test", exclude=True)
    assert not (await control.host("a.test", exclude=False)).excluded
    await frontier.add(entries(1))
    assert len(await claim(frontier)) == 1


async def test_a_purge_drops_what_waits_and_nothing_that_comes_later(
    frontier: Frontier, control: CrawlControl
) -> None:
    await frontier.add(entries(5))
    await crawl(frontier, await one(frontier))
    await frontier.add([entry(f"http://a.test/front{q}", q) for q in range(1, 6)])
    await control.host("a.test", purge=True)
    later = [f"http://a.test/later{q}" for q in range(1, 6)]
    await frontier.add([entry(url, q) for q, url in enumerate(later, 1)])
    fetched = []
    for i in range(5):
        lease = await one(frontier, now_ms=T0 + i)
        fetched.append(lease.entry.url)
        await crawl(frontier, lease, now_ms=T0 + i)
    assert sorted(fetched) == later
    sizes = await frontier.sizes()
    assert (sizes.dropped_purged, sizes.unfinished) == (9, 0)


async def test_a_purge_spares_other_hosts(frontier: Frontier, control: CrawlControl) -> None:
    await frontier.add([*entries(3), *hosts(20)])
    await control.host("a.test", purge=True)
    assert len(await claim(frontier)) == 20


async def test_a_purge_is_not_confused_by_leases_that_came_back(
    frontier: Frontier, control: CrawlControl, place: Place
) -> None:
    dead = await place.instance()
    await frontier.add(hosts(8))
    assert len(await claim(dead)) == 8
    await beat(frontier, (), now_ms=T0 + 30_000)
    await frontier.reclaim(silence_ms=30_000, delay_ms=0, now_ms=T0 + 30_000)
    await frontier.add(entries(2))
    await control.host("a.test", purge=True)
    await frontier.add([entry("http://a.test/later")])
    found = urls(await claim(frontier, now_ms=T0 + 30_000))
    assert len(found) == 9
    assert "http://a.test/later" in found


async def test_a_hosts_urls_may_be_given_another_queue(
    frontier: Frontier, control: CrawlControl, place: Place
) -> None:
    assert (await control.host("a.test", queue=5)).queue == 5
    await frontier.add(entries(3))
    await claim(frontier)
    assert await place.redis.llen(place.key("a.test", "back:a.test:5")) == 2
    assert (await control.host("a.test", queue=0)).queue == 0


async def test_a_host_may_have_a_budget_of_its_own(
    frontier: Frontier, control: CrawlControl
) -> None:
    assert (await control.host("a.test", budget=2)).budget == 2
    await frontier.add(entries(6))
    fetched = 0
    for i in range(6):
        for lease in await claim(frontier, now_ms=T0 + i, host_pages=4):
            fetched += 1
            await crawl(frontier, lease, now_ms=T0 + i)
    assert fetched == 2
    assert (await control.host("a.test", budget=None)).budget is None


async def test_a_budget_counts_what_was_in_flight_when_it_was_set(
    frontier: Frontier, control: CrawlControl
) -> None:
    await frontier.add(entries(6))
    flight = await one(frontier)
    await control.host("a.test", budget=1)
    await frontier.release([(flight, 0)], now_ms=T0)
    assert not await claim(frontier, now_ms=T0 + 1)
    await frontier.done([(flight, True)])
    assert not await claim(frontier, now_ms=T0 + 1000)
    assert (await frontier.sizes()).unfinished == 0


async def test_a_budget_counts_what_was_claimed_before_it_was_changed(
    frontier: Frontier, control: CrawlControl
) -> None:
    await frontier.add(entries(6))
    await control.host("a.test", budget=5)
    await crawl(frontier, await one(frontier))
    await control.host("a.test", budget=None)
    flight = await one(frontier, now_ms=T0 + 1000)
    await control.host("a.test", budget=2)
    await frontier.release([(flight, 0)], now_ms=T0 + 2000)
    assert not await claim(frontier, now_ms=T0 + 3000)
    await frontier.done([(flight, True)])
    assert not await claim(frontier, now_ms=T0 + 4000)
    assert (await frontier.sizes()).unfinished == 0


# --- hosts, status -------------------------------------------------------------------------------


async def test_hosts_are_listed_by_pages_the_next_due_first(
    frontier: Frontier, control: CrawlControl
) -> None:
    names = [e.host for e in hosts(9)]
    await frontier.add([entry(f"http://{name}/{i}") for name in names for i in range(2)])
    for lease in await claim(frontier):
        rest_ms = 1000 * (names.index(lease.entry.host) + 1)
        await crawl(frontier, lease, rest_ms=rest_ms)
    pages = [await control.hosts(offset=offset, limit=4) for offset in (0, 4, 8, 12)]
    assert [len(page.hosts) for page in pages] == [4, 4, 1, 0]
    assert {(page.total, page.complete) for page in pages} == {(9, True)}
    listed = [state for page in pages for state in page.hosts]
    assert [state.host for state in listed] == names
    assert [state.clock_ms - T0 for state in listed] == [1000 * (i + 1) for i in range(9)]
    assert {(state.waiting, state.pages, state.state) for state in listed} == {(1, 1, "resting")}


async def test_hosts_are_found_by_name_and_state_and_sorted(
    frontier: Frontier, control: CrawlControl
) -> None:
    await frontier.add([entry(f"http://big.test/{i}") for i in range(5)])
    await frontier.add([entry(f"http://small.test/{i}") for i in range(3)])
    await crawl(frontier, (await claim(frontier))[0], rest_ms=1000)
    await control.host("shut.test", exclude=True)
    await control.host("later.test", block=T0 + 50_000)
    await frontier.add([entry("http://later.test/")])
    await claim(frontier)
    found = await control.hosts(sort="waiting")
    assert [state.host for state in found.hosts][:2] == ["big.test", "small.test"]
    assert {state.host: state.state for state in found.hosts}["shut.test"] == "excluded"
    assert [state.host for state in (await control.hosts(text="all.t")).hosts] == ["small.test"]
    assert [one.host for one in (await control.hosts(state="blocked")).hosts] == ["later.test"]
    in_flight = await control.hosts(state="in_flight", sort="host", offset=0, limit=1)
    assert (len(in_flight.hosts), in_flight.total, in_flight.complete) == (1, 1, True)
    assert (await control.hosts(text="*", sort="host")).hosts == []
    for wrong in ({"sort": "colour"}, {"state": "tired"}):
        with pytest.raises(CrawlerError, match="use "):
            await control.hosts(**wrong)


async def test_a_list_of_hosts_looks_at_a_bounded_part(
    frontier: Frontier, control: CrawlControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crawler.frontier.control, "READ_MAX", 20)
    await frontier.add([entry(f"http://h{i}.test/{j}") for i in range(60) for j in range(2)])
    await claim(frontier, 60)
    found = await control.hosts(sort="host")
    assert (len(found.hosts), found.complete) == (20, False)


# --- status --------------------------------------------------------------------------------------


async def test_the_status_of_a_url_follows_it(frontier: Frontier, control: CrawlControl) -> None:
    page = entry("http://a.test/")
    assert await control.status(page.url) == UrlStatus("unseen")
    await frontier.add([page])
    assert await control.status(page.url) == UrlStatus("waiting", entry=page)
    lease = await one(frontier)
    assert await control.status(page.url) == UrlStatus("leased", owner=frontier.owner, entry=page)
    await frontier.hand_back([(lease, 0)], now_ms=T0)
    assert await control.status(page.url) == UrlStatus("waiting", entry=page)
    lease = await one(frontier)
    again = page.retried("timeout", now_s=1.0)
    await frontier.release([(lease, 0)], now_ms=T0)
    await frontier.retry([(lease, 5000, again)], now_ms=T0)
    assert await control.status(page.url) == UrlStatus(
        "delayed", reason="retry", at_ms=T0 + 5000, entry=again
    )
    await frontier.promote(now_ms=T0 + 5000)
    lease = await one(frontier, now_ms=T0 + 5000)
    await frontier.bury([(lease, "gone")], now_ms=T0 + 6000)
    assert await control.status(page.url) == UrlStatus(
        "dead", reason="gone", at_ms=T0 + 6000, entry=again
    )
    assert await control.requeue() == 1
    await crawl(frontier, await one(frontier, now_ms=T0 + 6000), now_ms=T0 + 6000)
    assert await control.status(page.url) == UrlStatus("known")


async def test_a_url_far_back_in_a_queue_is_known(
    frontier: Frontier, control: CrawlControl
) -> None:
    many = entries(1020)
    await frontier.add(many)
    assert (await control.status(many[900].url)).state == "waiting"
    assert (await control.status(many[1010].url)).state == "known"


# --- forget --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["r", "c", "v"])
async def test_a_url_that_is_forgotten_while_it_is_put_off_does_not_come_twice(
    frontier: Frontier, control: CrawlControl, kind: str
) -> None:
    await frontier.add(hosts(30))
    leases = await claim(frontier)
    for wait_ms in (1000, 90_000):
        some, leases = leases[:15], leases[15:]
        await frontier.release([(lease, 0) for lease in some], now_ms=T0)
        await frontier.retry(
            [(lease, wait_ms, lease.entry) for lease in some], kind=kind, now_ms=T0
        )
    page = some[7].entry
    assert await control.forget(page.url)
    assert await control.status(page.url) == UrlStatus("unseen")
    assert (await frontier.add([page])).new == 1
    sizes = await frontier.sizes()
    assert (sizes.retries + sizes.recrawls, sizes.waiting) == (29, 1)
    await frontier.promote(now_ms=T0 + 90_000)
    found = urls(await claim(frontier, now_ms=T0 + 90_000))
    assert sorted(found) == sorted(e.url for e in hosts(30))


async def test_forgetting_looks_through_the_delay_queue_in_small_steps(
    frontier: Frontier, control: CrawlControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crawler.frontier.control, "_SEARCH_MAX", 3)
    await frontier.add(hosts(20))
    leases = await claim(frontier)
    await frontier.release([(lease, 0) for lease in leases], now_ms=T0)
    waits = [1000 * (number % 3 + 1) for number in range(20)]
    await frontier.retry(
        [(lease, wait, lease.entry) for lease, wait in zip(leases, waits, strict=True)], now_ms=T0
    )
    for number in (0, 19, 10):
        assert await control.forget(leases[number].entry.url)
    sizes = await frontier.sizes()
    assert (sizes.retries, await frontier.promote(now_ms=T0 + 5000)) == (17, 17)


async def test_a_url_that_is_being_fetched_is_not_forgotten(
    frontier: Frontier, control: CrawlControl
) -> None:
    await frontier.add(hosts(1))
    lease = await one(frontier)
    with pytest.raises(CrawlerError, match="is being fetched"):
        await control.forget(lease.entry.url)
    await crawl(frontier, lease)
    assert await control.forget(lease.entry.url)


async def test_a_sitemap_is_found_and_forgotten_by_its_url_beside_the_page_there(
    frontier: Frontier, control: CrawlControl
) -> None:
    (page,) = hosts(1)
    sitemap = replace(page, id=fingerprint(page.url, SITEMAP))
    await frontier.add([sitemap])
    assert (await control.status(page.url)).state == "waiting"
    assert (await frontier.add([page])).new == 1
    for _ in range(2):
        await crawl(frontier, await one(frontier))
    assert (await control.status(page.url)).state == "known"
    assert await control.forget(page.url)
    assert await control.status(page.url) == UrlStatus("unseen")
    assert not await control.forget(page.url)
    assert (await frontier.add([page, sitemap])).new == 2


async def test_a_page_is_forgotten_though_the_sitemap_at_its_url_is_being_fetched(
    frontier: Frontier, control: CrawlControl, place: Place
) -> None:
    (page,) = hosts(1)
    await frontier.add([page])
    await crawl(frontier, await one(frontier))
    await frontier.add([replace(page, id=fingerprint(page.url, SITEMAP))])
    await one(frontier)
    with pytest.raises(CrawlerError, match="is being fetched"):
        await control.forget(page.url)
    assert (await frontier.add([page])).new == 1
    # Running processes hear of it.
    assert await place.redis.hget(keys.options(CRAWL), "forgotten") == b"1"


# --- dead letters --------------------------------------------------------------------------------


async def bury(frontier: Frontier, found: list[Entry], reason: str) -> None:
    await frontier.add(found)
    for lease in await claim(frontier):
        await frontier.release([(lease, 0)], now_ms=T0)
        await frontier.bury([(lease, reason)], now_ms=T0)


async def test_dead_letters_are_chosen_by_reason_and_host(
    frontier: Frontier, control: CrawlControl
) -> None:
    await bury(frontier, [*hosts(3), entry("http://a.test/1")], "timeout")
    await bury(frontier, [entry("http://a.test/2")], "http_410")
    assert len(await control.dead()) == 5
    assert len(await control.dead(limit=2)) == 2
    assert len(await control.dead(reason="timeout")) == 4
    assert len(await control.dead(host="a.test")) == 2
    [letter] = await control.dead(host="a.test", reason="timeout")
    assert letter.entry is not None
    assert letter.entry.url == "http://a.test/1"


async def test_dead_letters_are_read_by_pages_the_newest_first(
    frontier: Frontier, control: CrawlControl
) -> None:
    for number in range(4):
        await bury(frontier, [entry(f"http://h{i}.test/{number}") for i in range(8)], f"r{number}")
    found: list[Letter] = []
    while page := await control.dead(limit=5, before=found[-1].cursor if found else ""):
        found += page
    assert [letter.reason for letter in found] == [f"r{n}" for n in (3, 2, 1, 0) for _ in range(8)]
    assert len({letter.data for letter in found}) == 32
    with pytest.raises(CrawlerError, match="no place in the dead letters"):
        await control.dead(before="yesterday")


async def test_a_requeued_url_starts_with_a_clean_record(
    frontier: Frontier, control: CrawlControl
) -> None:
    await bury(frontier, [entry("http://a.test/", 3, attempts=5, reclaims=2)], "timeout")
    assert await control.requeue(reason="other") == 0
    assert await control.requeue(reason="timeout", host="a.test") == 1
    assert (await one(frontier)).entry == entry("http://a.test/", 3)
    assert (await frontier.sizes()).dead == 0


async def test_more_letters_than_one_batch_are_requeued(
    frontier: Frontier, control: CrawlControl
) -> None:
    await bury(frontier, hosts(1000), "timeout")
    await bury(frontier, entries(1), "http_410")
    assert await control.requeue(reason="timeout") == 1000
    sizes = await frontier.sizes()
    assert (sizes.dead, sizes.waiting) == (1, 1000)


async def test_bytes_that_are_no_entry_survive_a_requeue(
    frontier: Frontier, control: CrawlControl, place: Place
) -> None:
    await place.redis.rpush(place.key("a.test", "front:1"), b"damaged")
    await claim(frontier)
    assert await control.requeue() == 0
    assert [letter.data for letter in await control.dead()] == [b"damaged"]
    assert (await frontier.sizes()).dead == 1


async def test_what_is_no_url_becomes_a_letter_that_is_never_requeued(
    frontier: Frontier, control: CrawlControl
) -> None:
    # It has all that the scripts look for in an entry, but for its first bytes.
    letters = [b'{"text": "' + b"x" * 200 + b'http://a.test/"}', b"{}"]
    await frontier.reject(letters, "bad_message")
    assert await control.requeue() == 0
    found = await control.dead(reason="bad_message")
    assert sorted(letter.data.strip() for letter in found) == sorted(letters)
    assert {letter.entry for letter in found} == {None}
    assert (await frontier.sizes()).dead == 2


# --- the crawl -----------------------------------------------------------------------------------


async def test_a_pause_is_seen_in_the_sizes(frontier: Frontier, control: CrawlControl) -> None:
    await control.pause()
    assert (await control.frontier.sizes()).paused == frontier.shards
    await control.resume()
    assert (await control.frontier.sizes()).paused == 0


async def test_options_are_shared_and_removed_by_none(control: CrawlControl) -> None:
    await control.set_options({"max_pages": 10, "scope": "host"})
    assert await control.options() == {"max_pages": 10, "scope": "host"}
    await control.set_options({"max_pages": None})
    assert await control.options() == {"scope": "host"}


async def test_a_crawl_at_work_is_not_deleted(frontier: Frontier, control: CrawlControl) -> None:
    with pytest.raises(CrawlerError, match="stop its processes first"):
        _ = [gone async for gone in control.delete()]
    assert (await frontier.sizes()).owners == 1


async def test_a_crawl_whose_processes_were_killed_long_ago_is_deleted(
    frontier: Frontier, control: CrawlControl, place: Place
) -> None:
    for number in range(place.shards):
        tag = control._tags[number]
        await place.redis.zadd(f"{tag}:owners", {frontier.owner: 1000})
    assert [gone async for gone in control.delete()][-1] > 0
    # What lets it begin anew beside its pages.
    left = [key async for key in place.redis.scan_iter("*")]
    assert left == [b"{test}:deleted"]
    assert await place.redis.ttl(left[0]) > 0


async def test_a_crawl_is_deleted_in_batches_and_its_neighbours_are_not(
    frontier: Frontier, control: CrawlControl, place: Place
) -> None:
    await frontier.add(hosts(700))
    await crawl(frontier, (await claim(frontier))[0])
    await control.set_options({"max_pages": 1})
    for name in ("{test2:0}:stats", "{tes:0}:stats", "{test}x", "test:start_urls"):
        await place.redis.set(name, 1)
    leases = (await beat(frontier, (), now_ms=T0))[1]
    await frontier.hand_back([(lease, 0) for lease in leases], now_ms=T0)
    await frontier.leave()
    gone = [number async for number in control.delete()]
    assert gone == sorted(gone)
    assert len(gone) > 1
    left = {key async for key in place.redis.scan_iter("*")}
    neighbours = {b"{test2:0}:stats", b"{tes:0}:stats", b"{test}x", b"test:start_urls"}
    assert left == {*neighbours, b"{test}:deleted"}
    with pytest.raises(CrawlerError, match="no crawl 'test'"):
        await CrawlControl.open(place.redis, CRAWL)


async def test_memory_without_a_limit_is_never_full(control: CrawlControl) -> None:
    assert await control.memory_share() == 0.0


async def test_a_letter_of_a_url_with_a_tail_is_read(
    frontier: Frontier, control: CrawlControl, place: Place
) -> None:
    posted = entry("http://a.test/", tail={"method": "POST", "body": b"\xff"})
    await bury(frontier, [posted], "x")
    [letter] = await control.dead()
    assert letter.entry == posted
    assert letter.data == encode(posted)
