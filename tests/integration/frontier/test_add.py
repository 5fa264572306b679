"""add: unseen URLs go into their front queues, once."""

from __future__ import annotations

import struct

import pytest
from redis.exceptions import ResponseError

from crawler.frontier import ADD_MAX, Frontier, Tuning
from crawler.frontier.entry import encode
from crawler.frontier.frontier import shard_of
from tests.integration.frontier.fleet import Place, claim, entries, entry, hosts, one, urls


async def test_a_new_url_is_added_and_a_known_one_is_not(frontier: Frontier) -> None:
    assert (await frontier.add([entry("http://a.test/")])).answers == "1"
    assert (await frontier.add([entry("http://a.test/")])).answers == "0"
    sizes = await frontier.sizes()
    assert (sizes.added, sizes.waiting) == (1, 1)


async def test_answers_stand_in_the_order_of_the_urls(frontier: Frontier) -> None:
    known = hosts(20)[::2]
    await frontier.add(known)
    assert (await frontier.add(hosts(20))).answers == "01" * 10


async def test_a_url_twice_in_one_batch_is_added_once(frontier: Frontier) -> None:
    added = await frontier.add([entry("http://a.test/"), entry("http://a.test/")])
    assert added.answers == "10"
    assert (await frontier.sizes()).waiting == 1


async def test_force_adds_a_known_url_again(frontier: Frontier) -> None:
    await frontier.add([entry("http://a.test/")])
    assert (await frontier.add([entry("http://a.test/")], mode="force")).answers == "1"
    assert (await frontier.sizes()).waiting == 2


async def test_a_forced_add_that_is_repeated_adds_nothing_twice(frontier: Frontier) -> None:
    many = [*entries(ADD_MAX + 10), *hosts(20)]
    for _ in range(3):
        added = await frontier.add(many, mode="force", request_id="lost")
        assert added.answers == "1" * len(many)
    assert (await frontier.sizes()).waiting == len(many)
    await frontier.add(many[:5], mode="force", request_id="another")
    assert (await frontier.sizes()).waiting == len(many) + 5
    # Nor is an earlier one, as all of the last moments are after a restart of the server.
    await frontier.add(many, mode="force", request_id="lost")
    assert (await frontier.sizes()).waiting == len(many) + 5


async def test_force_marks_a_url_as_seen(frontier: Frontier) -> None:
    await frontier.add([entry("http://a.test/")], mode="force")
    assert (await frontier.add([entry("http://a.test/")])).answers == "0"


async def test_a_batch_may_be_larger_than_one_call_takes(frontier: Frontier) -> None:
    many = entries(2 * ADD_MAX + 1)
    added = await frontier.add(many)
    assert (added.new, len(added.answers)) == (len(many), len(many))
    assert (await frontier.sizes()).waiting == len(many)


async def test_no_urls_are_no_work(frontier: Frontier) -> None:
    assert (await frontier.add([])).answers == ""


async def test_urls_leave_their_queue_in_the_order_they_came(frontier: Frontier) -> None:
    await frontier.add(entries(5))
    first = await one(frontier)
    assert first.entry.url == "http://a.test/0"


async def test_a_full_frontier_refuses_low_priorities_only(place: Place) -> None:
    frontier = await place.instance(tuning=Tuning(full_at=2))
    await frontier.add(entries(2))
    low = [entry(f"http://a.test/q{queue}", queue) for queue in (1, 3, 4, 5)]
    added = await frontier.add(low)
    assert added.answers == "1122"
    assert [added.is_refused(i) for i in range(4)] == [False, False, True, True]
    assert (await frontier.sizes()).refused == 2


async def test_a_refused_url_is_not_seen_and_may_come_again(place: Place) -> None:
    frontier = await place.instance(tuning=Tuning(full_at=1))
    await frontier.add(entries(1))
    late = entry("http://a.test/late", 5)
    assert (await frontier.add([late])).answers == "2"
    assert (await (await place.control()).status(late.url)).state == "unseen"
    assert (await frontier.add([late], mode="all")).answers == "1"
    assert (await frontier.add([late])).answers == "0"


async def test_seeds_are_never_refused(place: Place) -> None:
    frontier = await place.instance(tuning=Tuning(full_at=1))
    await frontier.add(entries(1))
    assert (await frontier.add([entry("http://a.test/seed", 5)], mode="all")).answers == "1"
    assert (await frontier.add([entry("http://a.test/seed", 5)], mode="all")).answers == "0"


async def test_urls_in_back_queues_count_towards_a_full_frontier(place: Place) -> None:
    frontier = await place.instance(tuning=Tuning(full_at=3))
    await frontier.add(entries(4))
    assert len(await claim(frontier)) == 1
    assert (await frontier.sizes()).front == (0,) * 7
    assert (await frontier.add([entry("http://a.test/low", 5)])).answers == "2"


async def test_while_memory_is_short_low_priorities_are_refused(frontier: Frontier) -> None:
    await frontier.add(entries(1))
    frontier.nearly_full = True
    assert (await frontier.add([entry("http://a.test/low", 4)])).answers == "2"
    assert (await frontier.add([entry("http://a.test/high", 3)])).answers == "1"


async def test_a_batch_with_a_queue_that_is_none_changes_nothing(frontier: Frontier) -> None:
    batch = [entry("http://a.test/good"), entry("http://a.test/bad", 0)]
    with pytest.raises(ResponseError, match="front queue"):
        await frontier.add(batch)
    assert (await frontier.sizes()).waiting == 0
    assert (await frontier.add([entry("http://a.test/good")])).answers == "1"


@pytest.mark.parametrize("length", [21, 22, 2**32 - 1])
async def test_a_batch_with_a_wrong_length_changes_nothing(
    frontier: Frontier, place: Place, length: int
) -> None:
    good = encode(entry("http://a.test/good"))
    lengths = struct.pack(">2I", len(good), length)
    args = (good + good, lengths, "new", 0, "0 0 0 0", "", "", 0, 512)
    with pytest.raises(ResponseError, match=r"damaged|too short|lengths"):
        await frontier.scripts.run("add", shard_of("a.test", place.shards), *args)
    assert (await frontier.add([entry("http://a.test/good")])).answers == "1"


async def test_urls_of_other_alphabets_and_with_tails_come_back_as_they_were(
    frontier: Frontier,
) -> None:
    odd = entry(
        "https://xn--bcher-kva.test:8443/%C3%BC?q=\u00fc", 2, depth=3, parent=7,
        tail={"method": "POST", "body": b"\x00\n\xff"},
    )  # fmt: skip
    await frontier.add([odd])
    lease = await one(frontier)
    assert lease.entry == odd
    assert encode(lease.entry) == encode(odd)


async def test_all_urls_of_many_hosts_come_out_once(frontier: Frontier) -> None:
    many = hosts(300)
    await frontier.add(many)
    assert sorted(urls(await claim(frontier))) == sorted(e.url for e in many)


async def test_a_frontier_is_full_when_the_urls_of_all_shards_reach_the_limit(place: Place) -> None:
    frontier = await place.instance(tuning=Tuning(full_at=1))
    limit = 1 if frontier.has_one_server else place.shards
    assert not await frontier.is_full()
    await frontier.add(hosts(limit - 1))
    assert not await frontier.is_full()
    await frontier.add([entry("http://last.test/")])
    assert await frontier.is_full()
