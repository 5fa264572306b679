"""The decisions of the gate; tests/unit/middlewares/test_robots.py has what follows from them."""

from dataclasses import dataclass, field
from typing import Any

import msgpack
import pytest
from scrapy.exceptions import DownloadCancelledError, DownloadTimeoutError
from scrapy.http import Response

from crawler.politeness.host_delays import Fetch
from crawler.robots.gate import Allowed, Denied, PutOff
from crawler.util.request_meta import MAY_FETCH
from tests.support.schedulers import lease_of
from tests.unit.middlewares.robots_worlds import ALLOWED, FORBIDDEN, Answer, World, answer


async def test_a_url_with_a_lease_is_put_off_until_the_rules_are_known() -> None:
    gate = World(answer()).robots.gate
    assert await gate.check(ALLOWED, lease_of(ALLOWED)) == PutOff(7_000)
    allowed = await gate.check(ALLOWED, lease_of(ALLOWED))
    assert isinstance(allowed, Allowed)
    assert allowed.crawl_delay_s == 7.0
    denied = await gate.check(FORBIDDEN, lease_of(FORBIDDEN))
    assert isinstance(denied, Denied)
    assert (denied.text, denied.cached) == (f"robots.txt forbids {FORBIDDEN}", allowed.cached)


async def test_a_direct_request_waits_for_the_rules_and_is_never_put_off() -> None:
    gate = World(answer()).robots.gate
    assert isinstance(await gate.check(ALLOWED, None), Allowed)
    assert isinstance(await gate.check(FORBIDDEN, None), Denied)


async def test_without_an_answer_a_lease_is_put_off_and_a_direct_request_is_denied() -> None:
    gate = World(answer(503)).robots.gate
    assert isinstance(await gate.check(ALLOWED, lease_of(ALLOWED)), PutOff)
    denied = await gate.check(ALLOWED, None)
    assert denied == Denied("No robots.txt rules from http://h.test (status 503)")


async def test_a_url_that_no_host_serves_has_no_rules() -> None:
    world = World(answer())
    allowed = await world.robots.gate.check("data:,x", None)
    assert allowed == Allowed(cached=None)
    assert allowed.crawl_delay_s == 0.0
    assert world.asked == []


# --- parts of pages ------------------------------------------------------------------------------


@dataclass
class Visitor:
    """Page that has the slot of a host, and notes its contacts."""

    host: str = "h.test"
    is_alive: bool = True
    contacts: list[tuple[int | None, float | None, float, bool | None]] = field(
        default_factory=list
    )

    def may_fetch(self) -> bool:
        return self.is_alive

    def fetched(
        self, fetch: Fetch, crawl_delay_s: float = 0.0, answered: bool | None = None
    ) -> None:
        assert fetch.duration_s >= 0
        self.contacts.append((fetch.status, fetch.retry_after_s, crawl_delay_s, answered))


async def test_a_part_is_decided_about_without_a_contact() -> None:
    world = World(answer())
    gate = world.robots.gate
    assert await gate.check_part(ALLOWED) is None
    assert world.asked == []
    await gate.check(ALLOWED, lease_of(ALLOWED))
    allowed = await gate.check_part(ALLOWED)
    assert isinstance(allowed, Allowed)
    assert allowed.crawl_delay_s == 7.0
    denied = await gate.check_part(FORBIDDEN)
    assert isinstance(denied, Denied)
    assert denied.text == f"robots.txt forbids {FORBIDDEN}"
    assert isinstance(await gate.check_part(ALLOWED + "/../private"), Denied)
    assert len(world.asked) == 1
    # Figures are about URLs of the crawl.
    assert world.stats.get_value("robots/denied") is None


async def test_a_part_is_decided_about_by_rules_that_another_process_fetched() -> None:
    other, world = World(answer()), World(answer())
    await other.meets(ALLOWED)
    world.redis._values = other.redis._values
    gate = world.robots.gate
    # Another one only looks at them, and looking at them locks nobody out.
    async with other.cache.locked("http://h.test"):
        assert isinstance(await gate.check_part(ALLOWED), Allowed)
        assert isinstance(await gate.check_part(FORBIDDEN), Denied)
    assert world.asked == []


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        (answer(503), "No robots.txt rules from http://h.test (status 503)"),
        (
            answer(body=b"User-agent: *\nCrawl-delay: 9999\n"),
            "robots.txt of http://h.test asks for a delay of 9999 s, longer than CRAWL_DELAY_MAX",
        ),
    ],
)
async def test_a_part_is_denied_where_pages_wait(trouble: Response, why: str) -> None:
    gate = World(trouble).robots.gate
    await gate.check(ALLOWED, lease_of(ALLOWED))
    denied = await gate.check_part(ALLOWED)
    assert isinstance(denied, Denied)
    assert denied.text == why


@pytest.mark.parametrize(
    "url",
    ["data:,x", "", "http://[h.test/", "//h.test/", "http://me:secret@h.test/", "x" * 100_000],
)
async def test_a_part_is_denied_whose_url_is_none_of_the_web(url: str) -> None:
    world, visitor = World(answer()), Visitor()
    gate = world.robots.gate
    denied = await gate.check_part(url)
    assert isinstance(denied, Denied)
    assert len(denied.text) < 300
    assert await gate.fetch_rules(url, visitor) is None
    assert (world.asked, visitor.contacts) == ([], [])


async def test_while_redis_is_away_a_part_is_denied() -> None:
    world, visitor = World(answer()), Visitor()
    world.redis.away = True
    denied = await world.robots.gate.check_part(ALLOWED)
    assert isinstance(denied, Denied)
    assert "cannot be looked up" in denied.text
    assert await world.robots.gate.fetch_rules(ALLOWED, visitor) is None
    assert (world.asked, visitor.contacts) == ([], [])


async def test_a_visitor_fetches_rules_by_the_proxy_of_its_page() -> None:
    world = World(answer())
    proxy = "http://user:secret@proxy.test:3128"
    await world.robots.gate.fetch_rules(ALLOWED, Visitor("h.test"), proxy)
    assert world.asked[0].meta["proxy"] == proxy


async def test_a_visitor_fetches_unknown_rules_and_waits_as_the_host_asks() -> None:
    world, visitor = World(answer()), Visitor("www.h.test")
    gate = world.robots.gate
    assert await gate.fetch_rules(ALLOWED, visitor) == 7.0
    assert isinstance(await gate.check_part(ALLOWED), Allowed)
    assert isinstance(await gate.check_part(FORBIDDEN), Denied)
    [request] = world.asked
    assert request.url == "http://h.test/robots.txt"
    assert request.meta["download_slot"] == "www.h.test"
    assert request.meta[MAY_FETCH] == visitor.may_fetch
    assert visitor.contacts == [(200, None, 7.0, True)]
    # Now they are known, and nothing is fetched ahead of time for a part.
    known = world.cache.recent("http://h.test")
    assert known is not None
    known.refresh_from = 0.0
    assert await gate.fetch_rules(ALLOWED, visitor) == 0.0
    assert len(world.asked) == len(visitor.contacts) == 1
    assert "robots:lock:http://h.test" not in world.redis._values


@pytest.mark.parametrize(
    ("trouble", "contact"),
    [
        (answer(503, **{"Retry-After": "900"}), (503, 900.0, 0.0, True)),
        (answer(500), (500, None, 0.0, True)),
        (DownloadTimeoutError(), (None, None, 0.0, None)),
    ],
    ids=str,
)
async def test_a_visitor_that_gets_no_rules_has_contacted_the_host_all_the_same(
    trouble: Answer, contact: tuple[Any, ...]
) -> None:
    world, visitor = World(trouble), Visitor()
    gate = world.robots.gate
    for _ in range(2):
        assert await gate.fetch_rules(ALLOWED, visitor) is None
    assert visitor.contacts == [contact]
    assert len(world.asked) == 1
    assert isinstance(await gate.check_part(ALLOWED), Denied)


async def test_a_visitor_that_may_contact_the_host_no_more_fetches_no_rules() -> None:
    world, visitor = World(answer()), Visitor(is_alive=False)
    assert await world.robots.gate.fetch_rules(ALLOWED, visitor) is None
    assert (world.asked, visitor.contacts) == ([], [])


async def test_a_visitor_fetches_no_rules_while_their_address_is_left_alone() -> None:
    class Clock:
        async def wait_ms(self, host: str, group: str) -> int:
            assert (host, group) == ("h.test", "www.h.test")
            return 400

    world, visitor = World(answer()), Visitor("www.h.test")
    world.robots.gate.ip_clock = Clock()  # type: ignore[assignment]
    assert await world.robots.gate.fetch_rules(ALLOWED, visitor) is None
    assert (world.asked, visitor.contacts) == ([], [])


async def test_a_visitor_does_not_wait_for_rules_that_another_fetches() -> None:
    world, visitor = World(answer()), Visitor()
    async with world.cache.locked("http://h.test"):
        assert await world.robots.gate.fetch_rules(ALLOWED, visitor) is None
    assert (world.asked, visitor.contacts) == ([], [])
    # It was not put off: it has no lease.
    assert world.stats.get_value("robots/deferred") is None


async def test_a_visitor_is_told_that_its_host_is_never_connected_to() -> None:
    world, visitor = World(DownloadCancelledError("private")), Visitor()
    with pytest.raises(DownloadCancelledError):
        await world.robots.gate.fetch_rules(ALLOWED, visitor)
    assert visitor.contacts == []


async def test_rules_that_redis_did_not_take_are_enough_for_a_visitor() -> None:
    world, visitor = World(answer()), Visitor()

    async def redis_goes_away(_request: Any) -> Response:
        world.redis.away = True
        return answer()

    world.robots._crawler.engine.download_async = redis_goes_away  # type: ignore[union-attr]
    assert await world.robots.gate.fetch_rules(ALLOWED, visitor) == 7.0
    assert visitor.contacts == [(200, None, 7.0, True)]
    assert isinstance(await world.robots.gate.check_part(ALLOWED), Allowed)


async def test_a_file_that_was_forgotten_while_a_visitor_fetched_it_counts_as_a_contact() -> None:
    world, visitor = World(answer()), Visitor()

    async def forgotten_meanwhile(_request: Any) -> Response:
        mark = msgpack.packb("f" * 32)
        world.redis._values["robots:http://h.test"] = (mark, 120_000)
        return answer()

    world.robots._crawler.engine.download_async = forgotten_meanwhile  # type: ignore[union-attr]
    assert await world.robots.gate.fetch_rules(ALLOWED, visitor) is None
    assert visitor.contacts == [(200, None, 0.0, True)]
    assert await world.robots.gate.check_part(ALLOWED) is None
