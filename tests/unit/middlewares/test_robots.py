"""robots.txt: fetched once, obeyed always, and never taken for a yes when it is missing."""

import asyncio
from itertools import pairwise
from time import monotonic
from typing import Any

import msgpack
import pytest
from scrapy import Request, Spider, signals
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadTimeoutError,
    IgnoreRequest,
)
from scrapy.http import Response

from crawler.download.errors import Forbidden
from crawler.errors import ConfigurationError
from crawler.frontier import Entry, Lease
from crawler.robots.rules import Unreachable
from crawler.scheduling.request_codec import to_entry
from crawler.util.request_meta import CRAWL_DELAY, LEASE
from tests.support.schedulers import lease_of
from tests.unit.middlewares.robots_worlds import ALLOWED, FORBIDDEN, RULES, Answer, World, answer


def assert_handed_back(world: World, delay_ms: int) -> None:
    """Check the only call; the test itself may have taken a little of the delay."""
    ((verb, url, found_ms),) = world.scheduler.calls
    assert (verb, url) == ("hand_back", ALLOWED)
    assert 0.9 * delay_ms <= found_ms <= delay_ms


async def test_unknown_rules_are_fetched_and_the_url_handed_back() -> None:
    world = World(answer())
    assert isinstance(await world.meets(ALLOWED), Request)
    assert [request.url for request in world.asked] == ["http://h.test/robots.txt"]
    assert LEASE not in world.asked[0].meta
    # The robots.txt was a contact: the host rests as long as it asks for.
    assert world.scheduler.calls == [("hand_back", ALLOWED, 7_000)]


async def test_rules_come_by_the_proxy_of_the_page_that_needs_them() -> None:
    world = World(answer())
    proxy = "http://user:secret@proxy.test:3128"
    lease = lease_of(ALLOWED, tail={"meta": {"proxy": proxy}})
    await world.meets(ALLOWED, **{LEASE: lease, "proxy": proxy})
    assert world.asked[0].meta["proxy"] == proxy
    other = World(answer())
    await other.meets(ALLOWED)
    assert "proxy" not in other.asked[0].meta


async def test_where_hosts_need_no_rest_the_page_comes_next() -> None:
    world = World(answer(body=b"User-agent: *\nDisallow: /private\n"), DELAY_MIN=0)
    heard = hearing(world)
    assert await world.meets(ALLOWED) is None
    assert world.scheduler.calls == []
    assert len(world.asked) == len(heard) == 1
    # As any other, by the rules that were fetched.
    with pytest.raises(IgnoreRequest):
        await World(answer(body=b"User-agent: *\nDisallow: /\n"), DELAY_MIN=0).meets(FORBIDDEN)


async def test_where_hosts_need_no_rest_one_may_still_ask_for_it() -> None:
    for trouble, asked_ms in ((answer(), 7_000), (answer(503, **{"Retry-After": "900"}), 900_001)):
        world = World(trouble, DELAY_MIN=0)
        assert isinstance(await world.meets(ALLOWED), Request)
        assert_handed_back(world, asked_ms)


async def test_known_rules_let_pass_or_forbid() -> None:
    world = World(answer())
    await world.meets(ALLOWED)
    world.scheduler.calls.clear()
    assert await world.meets(ALLOWED) is None
    assert world.scheduler.calls == []
    with pytest.raises(IgnoreRequest, match=r"robots\.txt forbids"):
        await world.meets(FORBIDDEN)
    # The host was not contacted, so it need not rest.
    assert world.scheduler.calls == [("release", FORBIDDEN, 0)]
    assert len(world.asked) == 1
    assert world.stats.get_value("robots/denied") == 1


async def test_rules_are_for_the_url_that_is_fetched() -> None:
    world = World(answer(body=b"User-agent: *\nDisallow: /*utm_\n"), DELAY_MIN=0)
    fetched = f"{ALLOWED}?utm_id=1"
    lease = lease_of(ALLOWED, written="?utm_id=1")
    with pytest.raises(IgnoreRequest, match="utm_id=1"):
        await world.meets(fetched, **{LEASE: lease})
    assert await world.meets(ALLOWED) is None


QUERIES = b"""User-agent: *
Disallow: /*?sort=
Disallow: /search?q=
Disallow: /shop
Allow: /shop?view=all&page=
"""


@pytest.mark.parametrize(
    ("written", "is_allowed"),
    [
        ("/list?sort=price&page=2", False),
        ("/list?page=2&sort=price", True),
        ("/search?q=x&lang=en", False),
        ("/shop?view=all&page=2", True),
        ("/shop?page=2&view=all", False),
        ("/shop?view=all&page=2&utm_source=x", True),
    ],
)
async def test_links_are_judged_as_they_are_written(written: str, is_allowed: bool) -> None:
    world = World(answer(body=QUERIES), DELAY_MIN=0)
    request = Request(f"http://h.test{written}")
    entry = to_entry(request, Spider("s"), [80, 60, 40, 20], now_s=0)
    assert isinstance(entry, Entry)
    lease = Lease(shard=0, token=b"1", entry=entry)
    # With a lease, and as direct requests.
    for judged in (request.replace(meta={LEASE: lease}), request):
        if is_allowed:
            assert await world.robots.process_request(judged) is None
        else:
            with pytest.raises(IgnoreRequest, match=r"robots\.txt forbids"):
                await world.robots.process_request(judged)


async def test_a_dot_segment_hides_nothing_from_the_rules() -> None:
    world = World(answer(), DELAY_MIN=0)
    assert await world.robots.process_request(Request(ALLOWED)) is None
    for dots in ("..", "%2e%2E", "..;jsessionid=12345678901234567890123456789012"):
        with pytest.raises(IgnoreRequest, match=r"robots\.txt forbids"):
            await world.robots.process_request(Request(f"{ALLOWED}/{dots}/private"))


async def test_the_crawl_delay_travels_with_the_request() -> None:
    world = World(answer())
    await world.meets(ALLOWED)
    request = Request(ALLOWED, meta={LEASE: lease_of(ALLOWED)})
    assert await world.robots.process_request(request) is None
    assert request.meta[CRAWL_DELAY] == 7.0


async def test_the_urls_of_a_host_that_asks_for_too_long_a_delay_wait_for_other_rules() -> None:
    world = World(answer(), CRAWL_DELAY_MAX=2)
    await world.meets(ALLOWED)
    world.scheduler.calls.clear()
    assert isinstance(await world.meets(ALLOWED), Request)
    ((verb, url, delay_ms),) = world.scheduler.calls
    assert (verb, url) == ("hand_back", ALLOWED)
    assert 890_000 <= delay_ms <= 1_100_001
    assert world.stats.get_value("robots/crawl_delay_too_long") == 1


@pytest.mark.parametrize("status", [404, 403, 401, 410])
async def test_a_host_without_rules_is_open(status: int) -> None:
    world = World(answer(status))
    await world.meets(FORBIDDEN)
    assert await world.meets(FORBIDDEN) is None


@pytest.mark.parametrize("status", [401, 403])
async def test_a_forbidden_robots_txt_may_be_taken_for_a_closed_door(status: int) -> None:
    world = World(answer(status), ROBOTS_FORBIDDEN_IS="deny")
    await world.meets(ALLOWED)
    with pytest.raises(IgnoreRequest):
        await world.meets(ALLOWED)


@pytest.mark.parametrize("status", [401, 403])
async def test_a_crawl_on_the_same_redis_with_another_meaning_of_forbidden_keeps_to_its_own(
    status: int,
) -> None:
    other, world = World(answer(status)), World(answer(status), ROBOTS_FORBIDDEN_IS="deny")
    await other.meets(ALLOWED)
    world.redis._values = other.redis._values
    with pytest.raises(IgnoreRequest):
        await world.meets(ALLOWED)
    assert world.asked == []


def test_another_meaning_of_forbidden_is_a_mistake() -> None:
    with pytest.raises(ConfigurationError, match="ROBOTS_FORBIDDEN_IS is 'ask'; use one of allow"):
        World(answer(), ROBOTS_FORBIDDEN_IS="ask")


@pytest.mark.parametrize(
    "trouble",
    [
        answer(500),
        answer(503),
        answer(429),
        DownloadTimeoutError(),
        CannotResolveHostError(),
        IgnoreRequest(),
        ValueError("whatever"),
    ],
    ids=str,
)
async def test_a_host_in_trouble_is_left_alone_and_its_urls_wait(
    trouble: Response | Exception,
) -> None:
    world = World(trouble)
    for _ in range(2):
        assert isinstance(await world.meets(ALLOWED), Request)
    assert len(world.asked) == 1
    for verb, url, delay_ms in world.scheduler.calls:
        assert (verb, url) == ("hand_back", ALLOWED)
        assert 89_000 <= delay_ms <= 110_001


async def test_a_host_in_trouble_may_ask_for_a_longer_wait() -> None:
    world = World(answer(503, **{"Retry-After": "5000"}))
    await world.meets(ALLOWED)
    assert_handed_back(world, 5_000_001)


async def test_an_address_that_is_never_connected_to_ends_the_url() -> None:
    world = World(DownloadCancelledError("private"))
    with pytest.raises(DownloadCancelledError):
        await world.meets(ALLOWED)
    assert world.scheduler.calls == [("release", ALLOWED, 0)]


async def test_while_redis_is_away_nothing_is_fetched_and_nothing_is_lost() -> None:
    world = World(answer())
    world.redis.away = True
    assert isinstance(await world.meets(ALLOWED), Request)
    assert world.scheduler.calls == [("hand_back", ALLOWED, 2_000)]
    assert world.asked == []


async def test_rules_that_redis_did_not_take_are_used_by_this_process() -> None:
    world = World(answer())
    fetch = world._download

    async def redis_goes_away(request: Request) -> Response:
        world.redis.away = True
        return await fetch(request)

    world.robots._crawler.engine.download_async = redis_goes_away  # type: ignore[union-attr]
    await world.meets(FORBIDDEN)
    with pytest.raises(IgnoreRequest):
        await world.meets(FORBIDDEN)
    assert len(world.asked) == 1


async def test_a_request_may_be_exempt() -> None:
    world = World(answer())
    for lease in (lease_of(FORBIDDEN), None):
        request = Request(FORBIDDEN, meta={LEASE: lease, "dont_obey_robotstxt": True})
        assert await world.robots.process_request(request) is None
    assert world.asked == []


# --- direct requests (no lease), as those of media pipelines --------------------------------------


async def test_direct_requests_are_judged_by_one_fetch_of_the_rules() -> None:
    world = World(answer())
    requests = [Request(url) for url in (ALLOWED, FORBIDDEN, ALLOWED + "?x", "data:,x")]
    found = await asyncio.gather(
        *map(world.robots.process_request, requests), return_exceptions=True
    )
    assert [type(each) for each in found] == [type(None), Forbidden, type(None), type(None)]
    assert [request.url for request in world.asked] == ["http://h.test/robots.txt"]
    assert world.asked[0].meta["dont_obey_robotstxt"]
    # There is no lease to settle. A page of that host finds the rules.
    assert world.scheduler.calls == []
    with pytest.raises(Forbidden):
        await world.meets(FORBIDDEN)
    assert len(world.asked) == 1


async def test_passwords_hide_no_url_from_the_rules() -> None:
    world = World(answer())
    with pytest.raises(Forbidden, match=r"robots\.txt forbids"):
        await world.robots.process_request(Request("http://me:secret@h.test/private"))


async def test_without_rules_direct_requests_are_refused() -> None:
    with pytest.raises(Forbidden, match=r"No robots\.txt rules from http://h.test \(status 503\)"):
        await World(answer(503)).robots.process_request(Request(ALLOWED))
    world = World(answer())
    world.redis.away = True
    with pytest.raises(IgnoreRequest, match="cannot be looked up"):
        await world.robots.process_request(Request(ALLOWED))


async def test_direct_requests_wait_for_a_fetch_of_another_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("crawler.robots.gate._POLL_S", 0)
    world, other = World(answer()), World(answer())
    world.redis = other.redis
    world.cache._commands = other.cache._commands
    async with other.cache.locked("http://h.test") as lock:
        waiting = asyncio.create_task(world.robots.process_request(Request(ALLOWED)))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not waiting.done()
        await other.cache.put("http://h.test", RULES, lock=lock)
    assert await waiting is None
    assert world.asked == []


async def test_a_process_that_may_have_lost_its_lease_fetches_no_rules() -> None:
    world = World(answer())
    world.scheduler.leases.sure = False
    assert isinstance(await world.meets(ALLOWED), Request)
    assert world.scheduler.calls == [("hand_back", ALLOWED, 0)]
    assert world.asked == []


# --- redirects (RFC 9309, 2.3.1.2) --------------------------------------------------------------

ROBOTS = "http://h.test/robots.txt"


def chain(hops: int, end: Answer) -> dict[str, Answer]:
    """So many redirects across hosts, and what is at their end."""
    urls = [ROBOTS, *(f"http://h{number}.test/rules" for number in range(1, hops + 1))]
    answers: dict[str, Answer] = {
        url: Response(url, status=302, headers={"Location": target})
        for url, target in pairwise(urls)
    }
    return {**answers, urls[-1]: end}


@pytest.mark.parametrize("hops", [1, 5])
async def test_redirects_are_followed_and_the_rules_are_those_of_the_first_host(hops: int) -> None:
    world = World(chain(hops, answer()))
    await world.meets(ALLOWED)
    assert len(world.asked) == hops + 1
    assert all(request.meta["download_slot"] == "h.test" for request in world.asked)
    assert await world.meets(ALLOWED) is None
    with pytest.raises(IgnoreRequest):
        await world.meets(FORBIDDEN)


async def test_too_many_redirects_are_no_rules() -> None:
    world = World(chain(6, answer()))
    await world.meets(FORBIDDEN)
    assert len(world.asked) == 6
    assert await world.meets(FORBIDDEN) is None


@pytest.mark.parametrize(
    "location",
    ["/robots.txt", "ftp://h.test/robots.txt", "", "http://[h.test/", "http://h.test:x/"],
)
async def test_a_redirect_to_itself_or_to_nowhere_is_no_rules(location: str) -> None:
    world = World(Response(ROBOTS, status=301, headers={"Location": location}))
    await world.meets(FORBIDDEN)
    # It was contacted, and rests.
    assert world.scheduler.calls == [("hand_back", FORBIDDEN, 1_000)]
    assert await world.meets(FORBIDDEN) is None


@pytest.mark.parametrize("end", [DownloadTimeoutError(), DownloadCancelledError(), answer(500)])
async def test_a_redirect_into_trouble_makes_the_urls_wait(end: Answer) -> None:
    world = World(chain(1, end))
    for _ in range(2):
        assert isinstance(await world.meets(ALLOWED), Request)
    assert len(world.asked) == 2


# --- the fleet, and the time --------------------------------------------------------------------


async def test_while_another_fetches_the_rules_nobody_else_does() -> None:
    world = World(answer())
    async with world.cache.locked("http://h.test"):
        assert isinstance(await world.meets(ALLOWED), Request)
    assert world.asked == []
    assert world.scheduler.calls == [("hand_back", ALLOWED, 1_000)]


async def test_rules_in_redis_are_taken_while_another_only_looks_at_them() -> None:
    other, world = World(answer()), World(answer())
    await other.meets(ALLOWED)
    world.redis._values = other.redis._values
    async with other.cache.locked("http://h.test"):
        assert await world.meets(ALLOWED) is None
    assert world.asked == []
    assert world.scheduler.calls == []


async def test_rules_of_others_that_end_soon_hold_if_there_are_no_new_ones() -> None:
    other, world = World(answer()), World(answer(503))
    await other.meets(ALLOWED)
    key = "robots:http://h.test"
    world.redis._values[key] = (other.redis._values[key][0], 10_000)
    assert isinstance(await world.meets(ALLOWED), Request)
    assert len(world.asked) == 1
    assert await world.meets(ALLOWED) is None


async def test_rules_that_end_soon_are_fetched_ahead_of_time_and_hold_meanwhile() -> None:
    world = World(answer())
    await world.meets(ALLOWED)
    known = world.cache.recent("http://h.test")
    assert known is not None
    assert monotonic() < known.refresh_from
    known.refresh_from = 0.0
    # Redis has the same: nothing newer was fetched by another process.
    key = "robots:http://h.test"
    world.redis._values[key] = (world.redis._values[key][0], 10_000)
    world.answer = answer(503)
    assert isinstance(await world.meets(ALLOWED), Request)
    assert len(world.asked) == 2
    # The fetch failed: the old rules hold to their end, and it is not tried again at once.
    assert await world.meets(ALLOWED) is None
    with pytest.raises(IgnoreRequest):
        await world.meets(FORBIDDEN)
    assert len(world.asked) == 2


async def test_old_rules_that_hold_on_ask_for_their_delay_too() -> None:
    world = World(answer(), DELAY_MIN=0)
    await world.meets(ALLOWED)
    known = world.cache.recent("http://h.test")
    assert known is not None
    known.refresh_from = 0.0
    key = "robots:http://h.test"
    world.redis._values[key] = (world.redis._values[key][0], 10_000)
    world.answer = DownloadTimeoutError()
    world.scheduler.calls.clear()
    # Its robots.txt was asked for a moment ago: the page does not follow at once.
    assert isinstance(await world.meets(ALLOWED), Request)
    assert len(world.asked) == 2
    assert world.scheduler.calls == [("hand_back", ALLOWED, 7_000)]


async def test_rules_that_another_process_fetched_ahead_of_time_are_taken_over() -> None:
    world = World(answer())
    await world.meets(ALLOWED)
    known = world.cache.recent("http://h.test")
    assert known is not None
    known.refresh_from = 0.0
    assert await world.meets(ALLOWED) is None
    assert len(world.asked) == 1


def hearing(world: World) -> list[list[str]]:
    heard: list[list[str]] = []

    async def hear(robotparser: Any, request: Request) -> None:
        heard.append(robotparser.sitemaps)
        # The lease is not settled: if this process dies here, another hears of them with its URL.
        assert world.scheduler.calls == []

    world.robots._crawler.signals.connect(hear, signals.robots_parsed, weak=False)
    return heard


async def test_whoever_follows_sitemaps_hears_of_the_rules_once() -> None:
    world = World(answer(body=RULES + b"Sitemap: http://h.test/map.xml\n"))
    heard = hearing(world)
    await world.meets(ALLOWED)
    world.scheduler.calls.clear()
    await world.meets(ALLOWED)
    await world.meets(ALLOWED)
    assert heard == [["http://h.test/map.xml"]]


async def test_rules_that_another_process_fetched_tell_of_sitemaps_too() -> None:
    other, world = World(answer(body=b"Sitemap: http://h.test/map.xml\n")), World(answer())
    await other.meets(ALLOWED)
    world.redis._values = other.redis._values
    heard = hearing(world)
    await world.meets(ALLOWED)
    assert world.asked == []
    assert heard == [["http://h.test/map.xml"]]


async def test_a_file_stays_locked_while_redirects_are_followed() -> None:
    locked_ms: list[int] = []
    first = answer(302, Location="http://h.test/other.txt")
    world = World({"http://h.test/robots.txt": first, "http://h.test/other.txt": answer()})
    download = world._download

    async def look(request: Request) -> Response:
        locked_ms.append(world.redis._values["robots:lock:http://h.test"][1])
        return await download(request)

    world.robots._crawler.engine.download_async = look  # type: ignore[method-assign]
    await world.meets(ALLOWED)
    # Once more for each redirect.
    assert locked_ms == [20_000, 40_000]
    assert "robots:lock:http://h.test" not in world.redis._values


async def test_large_files_are_obeyed_too() -> None:
    world = World(answer(body=RULES + b"Disallow: /%d\n" * 4000 % tuple(range(4000))))
    await world.meets(ALLOWED)
    assert await world.meets(ALLOWED) is None
    for url in (FORBIDDEN, "http://h.test/3999"):
        with pytest.raises(Forbidden):
            await world.meets(url)


# --- addresses that hosts share (IP_DELAY) ------------------------------------------------------


class Turns:
    """A clock of addresses that says these waits, one after the other."""

    def __init__(self, *waits_ms: int) -> None:
        self._waits_ms = iter(waits_ms)

    async def wait_ms(self, host: str, group: str) -> int:
        assert host == group == "h.test"
        return next(self._waits_ms)


async def test_a_robots_txt_waits_for_its_address_and_so_does_its_url() -> None:
    world = World(answer())
    world.robots.gate.ip_clock = Turns(400, 0)  # type: ignore[assignment]
    assert isinstance(await world.meets(ALLOWED), Request)
    assert world.scheduler.calls == [("hand_back", ALLOWED, 400)]
    assert world.asked == []
    # Nobody is locked out meanwhile.
    assert isinstance(await world.meets(ALLOWED), Request)
    assert len(world.asked) == 1


async def test_rules_that_hold_are_used_while_their_address_rests() -> None:
    world = World(answer())
    world.robots.gate.ip_clock = Turns(0, 400)  # type: ignore[assignment]
    await world.meets(ALLOWED)
    known = world.cache.recent("http://h.test")
    assert known is not None
    known.refresh_from = 0
    assert await world.meets(ALLOWED) is None
    assert len(world.asked) == 1


def forget(world: World) -> None:
    """Set the mark of a forgotten file, as another process does."""
    world.redis._values["robots:http://h.test"] = (msgpack.packb("f" * 32), 120_000)


@pytest.mark.parametrize(
    "waited_for", [answer(503), answer(body=b"User-agent: *\nCrawl-delay: 9999\n")]
)
async def test_urls_that_wait_for_a_forgotten_file_do_so_no_longer(waited_for: Answer) -> None:
    world = World(waited_for, DELAY_MIN=0)
    assert isinstance(await world.meets(ALLOWED), Request)
    world.answer = answer(body=b"")
    assert isinstance(await world.meets(ALLOWED), Request)
    assert len(world.asked) == 1
    # This process has not read that it was forgotten.
    forget(world)
    assert await world.meets(ALLOWED) is None
    assert len(world.asked) == 2


async def test_a_file_that_was_forgotten_during_its_fetch_is_fetched_again() -> None:
    world = World(answer())
    download = world._download

    async def forgotten_meanwhile(request: Request) -> Response:
        forget(world)
        return await download(request)

    engine = world.robots._crawler.engine
    engine.download_async = forgotten_meanwhile  # type: ignore[union-attr,method-assign]
    assert isinstance(await world.meets(ALLOWED), Request)
    # It was a contact, but the Crawl-delay may be that of the old file.
    assert world.scheduler.calls == [("hand_back", ALLOWED, 1_000)]
    assert world.cache.recent("http://h.test") is None
    engine.download_async = download  # type: ignore[union-attr,method-assign]
    assert isinstance(await world.meets(ALLOWED), Request)
    assert await world.meets(ALLOWED) is None
    assert len(world.asked) == 2


async def test_rules_that_are_forgotten_while_they_are_refreshed_hold_no_longer() -> None:
    world = World(answer(), DELAY_MIN=0)
    await world.meets(ALLOWED)
    known = world.cache.recent("http://h.test")
    assert known is not None
    known.refresh_from = 0.0
    key = "robots:http://h.test"
    world.redis._values[key] = (world.redis._values[key][0], 10_000)

    async def forgotten_meanwhile(_request: Request) -> Response:
        world.cache.forget("http://h.test")
        return answer(503)

    engine = world.robots._crawler.engine
    engine.download_async = forgotten_meanwhile  # type: ignore[union-attr,method-assign]
    assert isinstance(await world.meets(ALLOWED), Request)
    assert world.cache.recent("http://h.test").rules == Unreachable("status 503")  # type: ignore[union-attr]
