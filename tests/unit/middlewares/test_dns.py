"""Names before the fetch: no such host fails, no answer waits, and an outage makes nothing fail."""

import logging
from typing import Any

import pytest
from scrapy import Request

from crawler.dns.lookup import DnsFailed, NoSuchHost
from crawler.dns.resolver import Resolver
from crawler.middlewares.dns import Dns
from crawler.util.request_meta import LEASE
from tests.support.schedulers import WritingScheduler, crawler_with, lease_of

URL = "http://h.test/a"


class Cache:
    """Says of every name what it is told to say."""

    def __init__(self) -> None:
        self.says: Exception | None = None
        self.is_slow = False
        self.answers = 0
        self.asked: list[str] = []

    async def get(self, host: str) -> tuple[str, ...]:
        self.asked.append(host)
        if self.says is not None:
            raise self.says
        return ("192.0.2.1",)

    async def get_within(self, host: str, wait_s: float) -> bool:
        assert 0 < wait_s < 1
        await self.get(host)
        return not self.is_slow


class World:
    def __init__(self, **settings: Any) -> None:
        self.scheduler = WritingScheduler()
        self.crawler = crawler_with(self.scheduler, DNS_RETRY_WAIT=10, **settings)
        self.cache = Cache()
        Resolver.of(self.crawler).cache = self.cache  # type: ignore[assignment]
        self.dns = Dns.from_crawler(self.crawler)

    async def meets(self, url: str = URL, **meta: Any) -> Request | None:
        return await self.dns.process_request(Request(url, meta={LEASE: lease_of(url), **meta}))


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def test_a_known_host_passes() -> None:
    world = World()
    assert await world.meets("http://H.test:81/a") is None
    assert world.cache.asked == ["h.test"]
    assert world.scheduler.calls == []


async def test_no_such_host_fails() -> None:
    world = World()
    world.cache.says = NoSuchHost("none")
    with pytest.raises(NoSuchHost):
        await world.meets()
    assert world.scheduler.calls == []


async def test_without_an_answer_the_url_is_handed_back_and_waits() -> None:
    world = World()
    world.cache.says = DnsFailed("no answer")
    assert isinstance(await world.meets(), Request)
    ((verb, url, rest_ms),) = world.scheduler.calls
    assert (verb, url) == ("hand_back", URL)
    assert 10_000 <= rest_ms <= 20_000
    assert world.crawler.stats.get_value("dns/deferred") == 1


async def test_a_slow_lookup_holds_no_fetch_up() -> None:
    world = World()
    world.cache.is_slow = True
    assert isinstance(await world.meets(), Request)
    assert world.scheduler.calls == [("hand_back", URL, 1_000)]
    # A request without a lease waits for its answer.
    assert await world.dns.process_request(Request(URL)) is None
    world.cache.is_slow = False
    assert await world.meets() is None


async def test_an_outage_makes_nothing_fail_however_long_it_is() -> None:
    world = World()
    world.cache.says = DnsFailed("no answer")
    for _ in range(100):
        assert isinstance(await world.meets(), Request)
    # Nobody had an answer meanwhile, so the waits do not grow either.
    assert all(rest_ms <= 20_000 for _, _, rest_ms in world.scheduler.calls)


async def test_a_name_that_stays_without_an_answer_while_others_have_one_fails() -> None:
    world = World()
    world.cache.says = DnsFailed("no answer")
    waits = []
    for _ in range(5):
        world.cache.answers += 1
        assert isinstance(await world.meets(), Request)
        waits.append(world.scheduler.calls[-1][2])
    assert 160_000 <= waits[-1] <= 320_000
    world.cache.answers += 1
    with pytest.raises(DnsFailed):
        await world.meets()
    # The other names are not troubled by it.
    assert isinstance(await world.meets("http://other.test/"), Request)


async def test_an_answer_ends_the_trouble() -> None:
    world = World()
    for _ in range(20):
        world.cache.says = DnsFailed("no answer")
        world.cache.answers += 1
        assert isinstance(await world.meets(), Request)
        world.cache.says = None
        assert await world.meets() is None


async def test_what_has_no_lease_fails_at_once() -> None:
    world = World()
    world.cache.says = DnsFailed("no answer")
    with pytest.raises(DnsFailed):
        await world.dns.process_request(Request("http://h.test/robots.txt"))
    assert world.scheduler.calls == []


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost", "over.test"])
async def test_addresses_and_overrides_are_not_looked_up(host: str) -> None:
    world = World(DNS_OVERRIDES={"over.test": "127.0.0.1"})
    assert await world.meets(f"http://{host}/") is None
    assert world.cache.asked == []


async def test_behind_a_proxy_names_are_the_proxys_business(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.test:3128")
    monkeypatch.setenv("no_proxy", "inside.test")
    world = World()
    assert await world.meets() is None
    assert await world.meets("http://inside.test/") is None
    assert await world.meets("https://secure.test/") is None
    assert await world.meets("https://meta.test/", proxy="http://proxy.test:3128") is None
    assert await world.meets("http://direct.test/", proxy=None) is None
    assert world.cache.asked == ["inside.test", "secure.test", "direct.test"]
    assert World(HTTPPROXY_ENABLED=False).dns._proxied == frozenset()


async def test_another_handler_is_told_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    theirs = "scrapy.core.downloader.handlers.http2.H2DownloadHandler"
    handlers = {"http": "crawler.download.DownloadHandler", "https": theirs}
    world = World(DOWNLOAD_HANDLERS=handlers)
    world.dns._warn_of_other_handlers()
    (line,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert line.startswith(f"https is fetched by {theirs}: it does not keep out of private")
