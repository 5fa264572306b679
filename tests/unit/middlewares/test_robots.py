"""robots.txt: fetched once, obeyed always, and never taken for a yes when it is missing."""

from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from scrapy import Request
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadTimeoutError,
    IgnoreRequest,
)
from scrapy.http import Response

from crawler.middlewares.adaptive_delay import CRAWL_DELAY
from crawler.middlewares.robots import Robots
from crawler.requests import LEASE
from crawler.robots_cache import RobotsCache
from tests.unit.schedulers import WritingScheduler, crawler_with, lease_of

ALLOWED, FORBIDDEN = "http://h.test/a", "http://h.test/private"
RULES = b"User-agent: crawler\nDisallow: /private\nCrawl-delay: 7\n"


class Memory:
    """As much of a Redis as the cache of rules needs; `away` makes every call fail."""

    def __init__(self) -> None:
        self.away = False
        self._values: dict[str, tuple[bytes, int]] = {}

    def pipeline(self, transaction: bool) -> "Memory":
        self._asked = ""
        return self

    def get(self, key: str) -> None:
        self._asked = key

    def pttl(self, key: str) -> None: ...

    async def execute(self) -> tuple[bytes | None, int]:
        if self.away:
            raise RedisConnectionError("away")
        return self._values.get(self._asked, (None, -2))

    async def set(self, key: str, value: bytes, px: int) -> None:
        if self.away:
            raise RedisConnectionError("away")
        self._values[key] = (value, px)


class World:
    """The middleware, with a host that answers for its robots.txt as it is told."""

    def __init__(self, answer: Response | Exception, **settings: Any) -> None:
        self.scheduler = WritingScheduler()
        self.redis = Memory()
        self.answer = answer
        self.asked: list[Request] = []
        crawler = crawler_with(self.scheduler, DELAY_FACTOR=0, DELAY_MIN=1, **settings)
        crawler.engine.download_async = self._download  # type: ignore[union-attr]
        self.stats = crawler.stats
        self.robots = Robots.from_crawler(crawler)
        self.robots._cache = RobotsCache(
            self.redis,  # type: ignore[arg-type]
            "crawler",
            ttl_s=1000,
            error_ttl_s=100,
            size=10,
        )

    async def _download(self, request: Request) -> Response:
        self.asked.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def meets(self, url: str, **meta: Any) -> Request | None:
        request = Request(url, meta={LEASE: lease_of(url), **meta})
        found = await self.robots.process_request(request)
        if found is None:
            assert request.meta[CRAWL_DELAY] >= 0
        return found


def answer(status: int = 200, body: bytes = RULES, **headers: Any) -> Response:
    return Response("http://h.test/robots.txt", status=status, body=body, headers=headers)


async def test_unknown_rules_are_fetched_and_the_url_handed_back() -> None:
    world = World(answer())
    assert isinstance(await world.meets(ALLOWED), Request)
    assert [request.url for request in world.asked] == ["http://h.test/robots.txt"]
    assert LEASE not in world.asked[0].meta
    # The robots.txt was a contact: the host rests as long as it asks for.
    assert world.scheduler.calls == [("hand_back", ALLOWED, 7_000)]


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


async def test_the_crawl_delay_travels_with_the_request_and_is_cut_to_the_maximum() -> None:
    for most, delay_s in ((300, 7.0), (2, 2.0)):
        world = World(answer(), CRAWL_DELAY_MAX=most)
        await world.meets(ALLOWED)
        request = Request(ALLOWED, meta={LEASE: lease_of(ALLOWED)})
        assert await world.robots.process_request(request) is None
        assert request.meta[CRAWL_DELAY] == delay_s


@pytest.mark.parametrize("status", [404, 403, 401, 410])
async def test_a_host_without_rules_is_open(status: int) -> None:
    world = World(answer(status))
    await world.meets(FORBIDDEN)
    assert await world.meets(FORBIDDEN) is None


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
    for verb, url, rest_ms in world.scheduler.calls:
        assert (verb, url) == ("hand_back", ALLOWED)
        assert 89_000 <= rest_ms <= 110_001


async def test_a_host_in_trouble_may_ask_for_a_longer_wait() -> None:
    world = World(answer(503, **{"Retry-After": "5000"}))
    await world.meets(ALLOWED)
    assert world.scheduler.calls == [("hand_back", ALLOWED, 5_000_001)]


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
    for meta in ({"dont_obey_robotstxt": True}, {LEASE: None}):
        request = Request(FORBIDDEN, meta={LEASE: lease_of(FORBIDDEN), **meta})
        assert await world.robots.process_request(request) is None
    assert world.asked == []


async def test_a_process_that_may_have_lost_its_lease_fetches_no_rules() -> None:
    world = World(answer())
    world.scheduler.sure = False
    assert isinstance(await world.meets(ALLOWED), Request)
    assert world.scheduler.calls == [("hand_back", ALLOWED, 0)]
    assert world.asked == []
