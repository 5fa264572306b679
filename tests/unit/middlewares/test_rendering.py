"""Pages that are rendered: what becomes of them, with browsers that answer as they are told."""

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import HtmlResponse, Response
from twisted.internet.defer import Deferred

from crawler import settings as ours
from crawler.download.errors import NotRendered, RenderingFull
from crawler.frontier import Lease
from crawler.middlewares.conditional import Conditional
from crawler.middlewares.redirects import Redirects
from crawler.middlewares.rendering import RenderingMiddleware
from crawler.rendering.messages import Part, Rendered, RenderFailed, RenderJob
from crawler.rendering.needs import Trials
from crawler.urls import Urls
from crawler.util.request_meta import FETCH, FETCH_STARTED, FINISH, LEASE, MAY_FETCH, RENDERING
from tests.support.schedulers import WritingScheduler, crawler_with, lease_of

URL = "http://h.test/a"
SHELL = b"<html><body><div id=app></div><script src=/app.js></script></body></html>"
FOREIGN = "scrapy.core.downloader.handlers.http11.HTTP11DownloadHandler"


class FakeBrowsers:
    """Browsers that give the same answer for each page, after asking for its parts."""

    def __init__(self, answer: Rendered | Exception | None) -> None:
        self.answer = answer
        self.parts: list[Part] = []
        self.waiting = 0
        self.is_full = False
        self.is_busy = False
        self.limits = SimpleNamespace(count=1)

    async def render(self, _job: RenderJob, fetch_part: Callable[[Part], Any]) -> Rendered:
        for part in self.parts:
            await fetch_part(part)
        if self.answer is None:
            await asyncio.Event().wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        assert self.answer is not None
        return self.answer


class World:
    """The middleware, between a fake scheduler and fake browsers."""

    def __init__(self, answer: Rendered | Exception | None = None, **settings: Any) -> None:
        self.scheduler = WritingScheduler(retry_times=1)
        self.scheduler.urls = Urls()
        crawler = crawler_with(self.scheduler, **settings)
        assert crawler.engine is not None
        self.crawler = crawler
        self.slot: Any = SimpleNamespace(closing=None, nextcall=SimpleNamespace(schedule=int))
        self.redirects = Redirects.from_crawler(crawler)
        self.downloader = SimpleNamespace(
            total_concurrency=1, middleware=SimpleNamespace(middlewares=(self.redirects,))
        )
        crawler.engine.downloader = self.downloader  # type: ignore[assignment]
        crawler.engine._slot = self.slot
        self.middleware = RenderingMiddleware(crawler)
        self.browsers = FakeBrowsers(answer)
        self.middleware._browsers = self.browsers  # type: ignore[assignment]
        self.middleware._services = SimpleNamespace(  # type: ignore[assignment]
            urls=Urls(),
            rules=self._rules,
            excludes=lambda _url: False,
            count=crawler.stats.inc_value,
        )

    async def _rules(self, _url: str) -> Any:
        return SimpleNamespace(allowed=True, crawl_delay_s=0.0)

    async def finish(self, request: Request, **fields: Any) -> Response:
        request.meta[FETCH_STARTED] = 0.0
        request.meta.setdefault(MAY_FETCH, lambda: True)
        assert await self.middleware.process_request(request) is None
        headers = {"Content-Type": "text/html", **fields.pop("headers", {})}
        response = HtmlResponse(URL, body=SHELL, headers=headers, **fields)
        found: Response = await request.meta[FINISH](request, response)
        return found


def shown(**fields: Any) -> Rendered:
    return Rendered(**{"url": URL, "html": b"<p>shown", **fields})


def request_for(lease: Lease | None = None, **meta: Any) -> Request:
    return Request(URL, meta={LEASE: lease or lease_of(URL), "render": True, **meta})


async def test_a_page_is_what_its_browser_shows() -> None:
    world, request = World(shown(url=f"{URL}?page=2#x")), request_for()
    found = await world.finish(request, headers={"ETag": '"1"', "X-Kept": "1"})
    assert isinstance(found, HtmlResponse)
    assert (found.url, found.text) == (f"{URL}?page=2", "<p>shown")
    assert "ETag" not in found.headers
    assert found.headers["X-Kept"] == b"1"
    assert request.meta[RENDERING].settled
    assert world.downloader.total_concurrency == 1


async def test_another_document_is_a_redirect() -> None:
    request = request_for()
    found = await World(shown(redirect="http://other.test/b")).finish(request)
    assert (found.status, found.headers["Location"]) == (302, b"http://other.test/b")
    assert RENDERING not in request.meta


@pytest.mark.parametrize(
    ("target", "meta"),
    [
        ("http://h.test/b", {"dont_redirect": True}),
        ("http://h.test/b", {"handle_httpstatus_list": [302]}),
        ("http://h.test/b", {"handle_httpstatus_all": True}),
        ("http://h.test/b", {"redirect_urls": ["http://h.test/b"], "redirect_times": 1}),
        ("http://h.test/b", {"redirect_times": 20}),
        ("http://h.test/b", {"redirect_ttl": 0}),
        ("http://H.test:80/a", {}),
        ("http://h.test:99999/", {}),
    ],
    ids=["not", "302", "all", "loop", "too many", "used up", "the same", "no URL"],
)
async def test_a_page_that_goes_where_the_crawl_does_not_follow_is_kept(
    target: str, meta: dict[str, Any]
) -> None:
    found = await World(shown(redirect=target)).finish(request_for(**meta))
    assert (found.status, found.body) == (200, b"<p>shown")


async def test_a_page_is_kept_where_no_redirects_are_followed() -> None:
    world = World(shown(redirect="http://h.test/b"))
    world.downloader.middleware.middlewares = ()
    assert (await world.finish(request_for())).body == b"<p>shown"


async def test_a_browser_that_fails_costs_an_attempt() -> None:
    world, request = World(RenderFailed("crashed")), request_for()
    with pytest.raises(NotRendered):
        await world.finish(request)
    assert FETCH in request.meta
    assert world.downloader.total_concurrency == 1


async def test_after_the_last_attempt_the_page_stays_as_it_was_fetched() -> None:
    request = request_for(lease_of(URL, attempts=1))
    found = await World(RenderFailed("crashed")).finish(request, headers={"ETag": '"1"'})
    assert (found.body, found.flags) == (SHELL, ["unrendered:crashed"])
    # The next visit must not be told that nothing changed.
    assert "ETag" not in found.headers
    assert RENDERING not in request.meta


@pytest.mark.parametrize(("render", "is_whole"), [(True, True), (False, False)])
async def test_a_page_that_is_rendered_is_fetched_whole(render: bool, is_whole: bool) -> None:
    lease = lease_of(URL, tail={"etag": '"1"'})
    request = request_for(lease, render=render)
    Conditional().process_request(request)
    await World().middleware.process_request(request)
    assert ("If-None-Match" not in request.headers) is is_whole


async def test_a_header_of_the_users_own_stays() -> None:
    request = request_for(lease_of(URL, tail={"etag": '"1"'}))
    request.headers["If-None-Match"] = '"mine"'
    await World().middleware.process_request(request)
    assert request.headers["If-None-Match"] == b'"mine"'


@pytest.mark.parametrize(
    ("trials", "is_put_off"),
    [(Trials(3, 3), True), (Trials(1, 0), True), (Trials(9, 0), False)],
    ids=["needs", "untried", "plain"],
)
async def test_when_many_pages_wait_only_those_are_put_off_that_may_need_a_browser(
    trials: Trials, is_put_off: bool
) -> None:
    world = World(shown(html=b"<p>" + b"more " * 99), RENDER="auto")

    async def nothing_known(_host: str) -> Trials:
        return Trials()

    async def known(_host: str) -> Trials:
        return trials

    world.middleware._hosts = SimpleNamespace(trials_of=nothing_known)  # type: ignore[assignment]
    world.browsers.waiting = 100
    with pytest.raises(RenderingFull):
        await world.finish(request_for(render=None))
    world.browsers.is_full = True
    world.middleware._hosts = SimpleNamespace(trials_of=known)  # type: ignore[assignment]
    request = request_for(render=None)
    found = await world.middleware.process_request(request)
    assert (found is request) is is_put_off


@pytest.mark.parametrize("is_busy", [True, False])
async def test_a_sample_of_a_plain_host_is_rendered_only_if_a_browser_is_free(
    is_busy: bool,
) -> None:
    world = World(shown(html=b"<p>" + b"more " * 99), RENDER="auto")
    noted = []

    async def plain(_host: str) -> Trials:
        return Trials(2)

    async def note(host: str, *, gained: bool) -> None:
        noted.append((host, gained))

    hosts = SimpleNamespace(trials_of=plain, note=note)
    world.middleware._hosts = hosts  # type: ignore[assignment]
    world.browsers.is_busy = is_busy
    lease = next(found for n in range(1000) if (found := lease_of(f"{URL}{n}")).entry.id % 10 == 0)
    response = await world.finish(request_for(lease, render=None))
    assert (response.body == SHELL) is is_busy
    assert len(noted) == (not is_busy)


async def test_a_page_whose_parts_are_missing_since_its_lease_may_be_lost_is_fetched_later() -> (
    None
):
    world = World(shown())
    world.browsers.parts = [Part("http://h.test/app.js", "GET", "script")]
    with pytest.raises(RenderingFull):
        await world.finish(request_for(**{MAY_FETCH: lambda: False}))
    assert world.downloader.total_concurrency == 1


async def test_a_page_that_still_waits_when_the_crawl_ends_is_fetched_later() -> None:
    world = World(RENDER_TIMEOUT=1)
    world.slot.closing = Deferred()
    with pytest.raises(RenderingFull, match="the crawl ends"):
        await world.finish(request_for())
    assert world.downloader.total_concurrency == 1


async def test_a_page_that_has_its_browser_when_the_crawl_ends_is_rendered() -> None:
    world = World(shown())
    world.slot.closing = Deferred()
    assert (await world.finish(request_for())).body == b"<p>shown"


async def test_handlers_that_render_nothing_are_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(DOWNLOAD_HANDLERS={**ours.DOWNLOAD_HANDLERS, "http": FOREIGN})
    requests = [request_for(), request_for()]
    with caplog.at_level(logging.WARNING):
        for request in requests:
            assert await world.middleware.process_request(request) is None
    assert not any(FINISH in request.meta for request in requests)
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"DOWNLOAD_HANDLERS has {FOREIGN} for http: pages that it fetches")
    secure = Request("https://h.test/a", meta=requests[0].meta)
    await world.middleware.process_request(secure)
    assert FINISH in secure.meta


async def test_pages_wait_while_no_browser_can_be_started() -> None:
    with pytest.raises(RenderingFull):
        await World(RenderFailed("start")).finish(request_for(lease_of(URL, attempts=1)))


@pytest.mark.parametrize("attempts", [0, 1], ids=["first", "last"])
async def test_a_page_that_looks_empty_for_want_of_parts_is_tried_again(attempts: int) -> None:
    world = World(shown(html=SHELL))
    world.middleware._services.download = _overloaded  # type: ignore[misc]
    world.middleware._services.archive = lambda _response: None  # type: ignore[misc]
    world.browsers.parts = [Part("http://h.test/data", "GET", "fetch")]
    request = request_for(lease_of(URL, attempts=attempts))
    if attempts == 0:
        with pytest.raises(NotRendered, match="lacks parts"):
            await world.finish(request)
    else:
        assert (await world.finish(request)).status == 200
    assert request.meta[FETCH].status == 503


async def _overloaded(request: Request) -> Response:
    return Response(request.url, status=503)


@pytest.mark.parametrize(
    ("given", "is_rendered"), [("always", True), ("never", False), (1, True), (0, False)]
)
async def test_the_meta_of_a_request_takes_words_too(given: object, is_rendered: bool) -> None:
    request = request_for(render=given)
    await World().middleware.process_request(request)
    assert (FINISH in request.meta) is is_rendered


@pytest.mark.parametrize(("mode", "lines"), [("never", 1), ("auto", 0)])
def test_scrolling_without_rendering_is_warned_of(
    caplog: pytest.LogCaptureFixture, mode: str, lines: int
) -> None:
    with caplog.at_level(logging.WARNING):
        RenderingMiddleware.from_crawler(World(RENDER=mode, RENDER_SCROLL=3).crawler)
    assert len([record for record in caplog.records if "scroll" in record.getMessage()]) == lines


async def test_the_first_failures_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    world = World(RenderFailed("memory", "it took more than RENDER_MEMORY"))
    for _ in range(20):
        with pytest.raises(NotRendered):
            await world.finish(request_for())
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "The browser of http://h.test/a failed (memory): it took more than RENDER_MEMORY"
    ] * len(lines)
    assert len(lines) == 10
