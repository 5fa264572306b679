"""Parts of pages: which are fetched, whose slot they need, and which are kept."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from scrapy import Request
from scrapy.exceptions import DownloadTimeoutError
from scrapy.http import Response

from crawler.politeness.host_delays import Fetch
from crawler.rendering.messages import Part, PartAnswer
from crawler.rendering.parts import (
    OwnHost,
    PageParts,
    PartCache,
    PartLimits,
    Rules,
    Services,
    Visit,
)
from crawler.urls import Urls

HOST = "page.test"


class FakeVisit:
    """Slot of another host."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.fetches: list[Fetch] = []
        self.is_over = False
        self._lock = asyncio.Lock()

    def turn(self) -> asyncio.Lock:
        return self._lock

    def may_fetch(self) -> bool:
        return True

    def fetched(
        self, fetch: Fetch, crawl_delay_s: float = 0.0, answered: bool | None = None
    ) -> None:
        self.fetches.append(fetch)


class FakeWeb:
    """Answers to requests, rules and visits, in the place of a crawl."""

    def __init__(self) -> None:
        self.answers: dict[str, Response | Exception] = {}
        self.rules: dict[str, Rules] = {}
        self.busy: set[str] = set()
        self.visits: list[FakeVisit] = []
        self.requests: list[Request] = []
        self.rules_fetched: list[str] = []
        self.proxies: list[str] = []
        self.at_once: Counter[str] = Counter()
        self.most_at_once: Counter[str] = Counter()
        self.stats: Counter[str] = Counter()

    def services(self) -> Services:
        return Services(
            download=self.download,
            rules=self.rules_of,
            fetch_rules=self.fetch_rules,
            visit=self.visit,
            archive=lambda _response: None,
            urls=Urls(),
            excludes=lambda url: "excluded.test" in url,
            count=lambda name, by: self.stats.update({name: by}),
        )

    async def download(self, request: Request) -> Response:
        self.requests.append(request)
        host = request.url.split("/")[2]
        self.at_once[host] += 1
        self.most_at_once[host] = max(self.most_at_once[host], self.at_once[host])
        for _ in range(3):
            await asyncio.sleep(0)
        self.at_once[host] -= 1
        answer = self.answers.get(request.url, Response(request.url, body=b"found"))
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def rules_of(self, url: str) -> Rules:
        return self.rules.get(url.split("/")[2], Rules(allowed=True))

    async def fetch_rules(self, url: str, visit: Visit, proxy: str) -> float | None:
        host = url.split("/")[2]
        self.proxies.append(proxy)
        assert visit.host == host
        self.rules_fetched.append(host)
        self.rules[host] = Rules(allowed=True)
        return 0.0

    @asynccontextmanager
    async def visit(self, host: str, within_s: float) -> AsyncIterator[FakeVisit | None]:
        assert within_s == 2.0
        if host in self.busy:
            yield None
            return
        visit = FakeVisit(host)
        self.visits.append(visit)
        yield visit
        visit.is_over = True


def parts_of(web: FakeWeb, **limits: object) -> PageParts:
    return PageParts(
        *(web.services(), PartLimits(**limits), PartCache(1_000_000)),  # type: ignore[arg-type]
        own=OwnHost(HOST, lambda: True),
    )


def part(url: str, kind: str = "fetch", method: str = "GET", **headers: str) -> Part:
    return Part(url, method, kind, headers)


def reply(url: str, status: int = 200, body: bytes = b"x", **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(url, status=status, headers=named, body=body)


@pytest.fixture
def web() -> FakeWeb:
    return FakeWeb()


async def test_a_part_of_the_pages_own_host_needs_no_visit(web: FakeWeb) -> None:
    parts = parts_of(web)
    answer = await parts.answer(part("http://page.test/app.js", "script"))
    assert isinstance(answer, PartAnswer)
    assert (answer.status, answer.body) == (200, b"found")
    assert not web.visits
    await parts.close()


async def test_a_host_gets_one_request_at_a_time(web: FakeWeb) -> None:
    parts = parts_of(web)
    urls = [f"http://{host}/{n}" for host in (HOST, "cdn.test") for n in range(5)]
    await asyncio.gather(*(parts.answer(part(url)) for url in urls))
    assert web.most_at_once == {HOST: 1, "cdn.test": 1}
    assert parts.fetched == 10
    await parts.close()


async def test_the_slot_of_another_host_is_taken_once_and_left_at_the_end(web: FakeWeb) -> None:
    parts = parts_of(web)
    await asyncio.gather(*(parts.answer(part(f"http://cdn.test/{n}")) for n in range(3)))
    (visit,) = web.visits
    assert len(visit.fetches) == 3
    assert not visit.is_over
    await parts.close()
    assert visit.is_over


async def test_a_part_of_a_busy_host_is_left_out(web: FakeWeb) -> None:
    web.busy.add("cdn.test")
    parts = parts_of(web)
    assert await parts.answer(part("http://cdn.test/a")) == "host_busy"
    assert parts.refused == {"host_busy": 1}
    assert web.stats["render/parts/refused/host_busy"] == 1
    assert not web.requests
    await parts.close()


@pytest.mark.parametrize(
    ("url", "lacks_some"),
    [("http://cdn.test/a", True), ("http://google-analytics.com/a", False)],
    ids=["a busy host", "a tracker"],
)
async def test_a_page_may_be_whole_at_another_time(
    web: FakeWeb, url: str, lacks_some: bool
) -> None:
    web.busy.add("cdn.test")
    parts = parts_of(web)
    await parts.answer(part(url))
    assert parts.lacks_some is lacks_some
    await parts.close()


async def test_a_host_that_does_not_answer_gets_no_more_requests(web: FakeWeb) -> None:
    web.answers["http://page.test/a"] = DownloadTimeoutError("late")
    parts = parts_of(web)
    assert await parts.answer(part("http://page.test/a")) == "timeout"
    assert await parts.answer(part("http://page.test/b")) == "host_lost"
    assert len(web.requests) == 1


async def test_robots_txt_applies_to_parts(web: FakeWeb) -> None:
    web.rules[HOST] = Rules(allowed=False)
    assert await parts_of(web).answer(part("http://page.test/api")) == "robots"
    assert not web.requests


async def test_rules_that_are_unknown_are_fetched_first(web: FakeWeb) -> None:
    web.rules["cdn.test"] = Rules(allowed=None)
    parts = parts_of(web)
    assert isinstance(await parts.answer(part("http://cdn.test/a")), PartAnswer)
    assert web.rules_fetched == ["cdn.test"]
    await parts.close()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (part("http://www.google-analytics.com/collect"), "tracker"),
        (part("http://excluded.test/a.js"), "excluded"),
        (part("http://page.test/a", method="DELETE"), "method"),
        (part("ftp://page.test/a"), "url"),
        (part("http://" + "a" * 3000), "url"),
    ],
    ids=["tracker", "excluded", "method", "scheme", "long"],
)
async def test_a_part_is_refused(web: FakeWeb, given: Part, reason: str) -> None:
    assert await parts_of(web).answer(given) == reason
    assert not web.requests


async def test_own_domains_can_be_blocked_instead_of_trackers(web: FakeWeb) -> None:
    parts = parts_of(web, trackers=frozenset({"page.test"}))
    assert await parts.answer(part("http://page.test/a")) == "tracker"
    assert isinstance(await parts.answer(part("http://google-analytics.com/a")), PartAnswer)
    await parts.close()


async def test_a_page_has_a_budget_of_parts(web: FakeWeb) -> None:
    parts = parts_of(web, per_page=3)
    answers = await asyncio.gather(*(parts.answer(part(f"http://page.test/{n}")) for n in range(9)))
    assert sum(isinstance(answer, PartAnswer) for answer in answers) == 3
    assert parts.refused == {"budget": 6}
    assert len(web.requests) == 3


async def test_redirects_are_followed_with_the_slot_of_each_host(web: FakeWeb) -> None:
    web.answers["http://page.test/a"] = reply(
        "http://page.test/a", 302, Location="http://cdn.test/b"
    )
    parts = parts_of(web)
    answer = await parts.answer(part("http://page.test/a"))
    assert isinstance(answer, PartAnswer)
    assert answer.body == b"found"
    assert [visit.host for visit in web.visits] == ["cdn.test"]
    await parts.close()


async def test_a_post_becomes_a_get_by_a_redirect(web: FakeWeb) -> None:
    web.answers["http://page.test/a"] = reply("http://page.test/a", 303, Location="/b")
    await parts_of(web).answer(Part("http://page.test/a", "POST", "fetch", {}, b"data"))
    assert [(each.method, each.body) for each in web.requests] == [("POST", b"data"), ("GET", b"")]


@pytest.mark.parametrize(
    ("target", "is_sent"),
    [
        ("http://page.test/there", True),
        ("http://cdn.test/there", False),
        ("https://page.test/there", False),
    ],
)
async def test_a_redirect_takes_credentials_to_no_other_origin(
    web: FakeWeb, target: str, is_sent: bool
) -> None:
    url = "http://page.test/here"
    web.answers[url] = reply(url, 302, Location=target)
    parts = parts_of(web)
    await parts.answer(part(url, authorization="Bearer x", accept="*/*"))
    first, second = web.requests
    assert first.headers["Authorization"] == b"Bearer x"
    assert second.url == target
    assert second.headers["Accept"] == b"*/*"
    assert ("Authorization" in second.headers) is is_sent
    await parts.close()


async def test_the_proxy_of_a_page_is_for_the_rules_of_its_parts_too(web: FakeWeb) -> None:
    web.rules["cdn.test"] = Rules(allowed=None)
    parts = parts_of(web)
    parts.meta = {"proxy": "http://proxy.test:8080"}
    await parts.answer(part("http://cdn.test/app.js", "script"))
    assert web.proxies == ["http://proxy.test:8080"]
    assert web.requests[0].meta["proxy"] == "http://proxy.test:8080"
    await parts.close()


async def test_parts_do_not_wait_for_the_place_of_their_page_in_scrapys_downloader(
    web: FakeWeb,
) -> None:
    parts = parts_of(web)
    await parts.answer(part("http://page.test/app.js", "script"))
    assert web.requests[0].meta["download_slot"] == "page.test parts"
    await parts.close()


async def test_a_loop_of_redirects_ends(web: FakeWeb) -> None:
    web.answers["http://page.test/a"] = reply("http://page.test/a", 302, Location="/a")
    assert await parts_of(web).answer(part("http://page.test/a")) == "redirects"


async def test_a_failed_part_has_the_reason_of_its_failure(web: FakeWeb) -> None:
    web.answers["http://cdn.test/a"] = DownloadTimeoutError("late")
    parts = parts_of(web)
    assert await parts.answer(part("http://cdn.test/a")) == "timeout"
    (visit,) = web.visits
    assert [fetch.status for fetch in visit.fetches] == [None]
    await parts.close()


async def test_a_host_that_is_overloaded_gets_no_more_requests(web: FakeWeb) -> None:
    web.answers["http://page.test/a"] = reply("http://page.test/a", 429, Retry_After="60")
    parts = parts_of(web)
    answer = await parts.answer(part("http://page.test/a"))
    assert isinstance(answer, PartAnswer)
    assert answer.status == 429
    assert await parts.answer(part("http://page.test/b")) == "overload"
    assert parts.own.overload is not None
    assert parts.own.overload.retry_after_s == 60


async def test_nothing_is_fetched_when_the_lease_may_be_lost(web: FakeWeb) -> None:
    parts = parts_of(web)
    parts.own = OwnHost(HOST, lambda: False)
    assert await parts.answer(part("http://page.test/a")) == "host_lost"
    assert not web.requests


async def test_the_browsers_headers_are_sent_without_those_of_the_connection(web: FakeWeb) -> None:
    await parts_of(web).answer(
        part("http://page.test/a", accept="*/*", cookie="a=1", host="evil.test", connection="x")
    )
    headers = web.requests[0].headers
    assert headers["Accept"] == b"*/*"
    assert headers["Cookie"] == b"a=1"
    assert "Host" not in headers
    assert "Connection" not in headers


async def test_headers_come_back_without_those_of_the_transfer(web: FakeWeb) -> None:
    web.answers["http://page.test/a"] = reply(
        "http://page.test/a", Content_Type="text/x", Content_Encoding="gzip", Content_Length="9"
    )
    answer = await parts_of(web).answer(part("http://page.test/a"))
    assert isinstance(answer, PartAnswer)
    assert answer.headers == [("content-type", "text/x")]


# --- the cache ------------------------------------------------------------------------------------

SCRIPT = part("http://page.test/app.js", "script")


def kept_for(given: Part = SCRIPT, *, status: int = 200, control: str = "") -> float:
    """For how many seconds a part is kept."""
    cache = PartCache(1_000_000)
    headers = [("cache-control", control)] if control else []
    cache.put(given, PartAnswer(status, headers, b"body"), now_s=0)
    return max((s for s in (1, 599, 3599, 9999) if cache.get(given, now_s=s)), default=0)


@pytest.mark.parametrize(
    ("control", "seconds"),
    [
        ("", 599),
        ("public, max-age=86400, immutable", 3599),
        ("max-age=2", 1),
        ("max-age=0", 0),
        ("no-store", 0),
        ("No-Cache", 0),
        ("private, max-age=60", 0),
    ],
)
def test_static_parts_are_kept_as_their_server_allows(control: str, seconds: float) -> None:
    assert kept_for(control=control) == seconds


def test_data_and_errors_are_not_kept() -> None:
    assert not kept_for(part("http://page.test/api", "fetch"))
    assert not kept_for(part("http://page.test/app.js", "script", "POST"))
    assert not kept_for(status=404)


def test_what_is_kept_is_for_pages_of_one_origin() -> None:
    cache = PartCache(1_000_000)
    mine = part("http://cdn.test/a.js", "script", origin="http://a.test")
    cache.put(mine, PartAnswer(200, [], b"body"), now_s=0)
    assert cache.get(mine, now_s=1)
    assert not cache.get(part("http://cdn.test/a.js", "script", origin="http://b.test"), now_s=1)


@pytest.mark.parametrize(
    ("given", "headers", "is_kept"),
    [
        ({}, {"vary": "Accept-Encoding, Origin"}, True),
        ({}, {"vary": "Accept-Encoding, Cookie"}, False),
        ({}, {"vary": "*"}, False),
        ({}, {"vary": "Referer"}, False),
        ({}, {"set-cookie": "visitor=1"}, False),
        ({"authorization": "Bearer x"}, {}, False),
        ({"cookie": "a=b"}, {}, False),
    ],
)
def test_what_is_for_one_page_is_not_kept_for_others(
    given: dict[str, str], headers: dict[str, str], is_kept: bool
) -> None:
    cache = PartCache(1_000_000)
    asked = part("http://cdn.test/a.js", "script", **given)
    cache.put(asked, PartAnswer(200, list(headers.items()), b"body"), now_s=0)
    assert (cache.get(asked, now_s=1) is not None) is is_kept


def test_the_cache_is_bounded_by_headers_too() -> None:
    cache = PartCache(100_000)
    urls = [f"http://page.test/{number}.js" for number in range(100)]
    for url in urls:
        answer = PartAnswer(200, [("x-filler", "x" * 10_000)], b"")
        cache.put(part(url, "script"), answer, now_s=0)
    assert sum(cache.get(part(url, "script"), now_s=1) is not None for url in urls) <= 10


def test_the_cache_is_bounded() -> None:
    cache = PartCache(100_000)
    for number in range(100):
        given = part(f"http://page.test/{number}.js", "script")
        cache.put(given, PartAnswer(200, [], bytes(10_000)), now_s=0)
    kept = [n for n in range(100) if cache.get(part(f"http://page.test/{n}.js", "script"), now_s=1)]
    assert 0 < len(kept) <= 10


async def test_a_kept_part_is_no_request(web: FakeWeb) -> None:
    shared = PartCache(1_000_000)
    for _ in range(2):
        parts = parts_of(web)
        parts.cache = shared
        await parts.answer(part("http://page.test/app.js", "script"))
    assert (parts.fetched, parts.cached) == (0, 1)
    assert len(web.requests) == 1
