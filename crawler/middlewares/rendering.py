"""Render pages that need a browser, while the slot of their host is held. Downloader middleware.

A page is fetched as always, and then its browser begins with this response. So its document is
requested once, and all that decides about a fetch has decided before. The parts of the page go
through our own client too (rendering/parts.py). The host is released when the page is rendered, and
its delay counts from then. A page that wants to go to another document gives a redirect to it,
which goes through the frontier like any other.

What a browser does not survive costs the page an attempt. The last attempt keeps the page as it was
fetched, with the flag `unrendered` and the reason.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from dataclasses import dataclass
from inspect import isawaitable
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from scrapy import signals
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.downloadermiddlewares.redirect import RedirectMiddleware
from scrapy.http import Headers, HtmlResponse, Response
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import load_object

from crawler import config
from crawler.config.components import path_of
from crawler.download.direct import DirectDownloads
from crawler.download.errors import NotRendered, RenderingFull
from crawler.download.handler import DownloadHandler
from crawler.download.receiver import DATALOSS, TYPE_NOT_ACCEPTED
from crawler.errors import ConfigurationError
from crawler.frontier import Kind
from crawler.items import Rendering
from crawler.middlewares.conditional import HEADERS
from crawler.middlewares.robots import Robots
from crawler.parsing.sniff import HTML, XHTML, sniff
from crawler.politeness.host_delays import Fetch, retry_after_s
from crawler.rendering.browsers import BrowserLimits, Browsers, find_browser
from crawler.rendering.hosts import RenderedHosts
from crawler.rendering.messages import BrowserConfig, Rendered, RenderFailed, RenderJob
from crawler.rendering.needs import (
    Content,
    Standing,
    Wish,
    content_of,
    has_gained,
    may_want_rendering,
    wish_of,
)
from crawler.rendering.parts import (
    OwnHost,
    PageParts,
    PartCache,
    PartLimits,
    Rules,
    Services,
    Visit,
    passed_headers,
)
from crawler.robots.gate import Allowed, Denied
from crawler.scheduler import Scheduler
from crawler.scheduling.engine import Engine
from crawler.scheduling.page_maker import PageMaker
from crawler.servers.connections import Servers
from crawler.urls import Rejected, written_url
from crawler.util.extras import missing
from crawler.util.recent import RecentDict, text_bytes
from crawler.util.request_meta import FETCH, FETCH_STARTED, FINISH, LEASE, MAY_FETCH, RENDERING

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from crawler.frontier import Lease
    from crawler.servers.redis.connection import Client

logger = logging.getLogger(__name__)

NEVER, AUTO, ALWAYS = "never", "auto", "always"
# Larger pages are not rendered, and those that are larger than the second looked at in a thread.
_MAX_BYTES, _INLINE_BYTES = 5_000_000, 100_000
# Pages that wait for a browser, for each of them, from which on no others are fetched that surely
# need one. Those of hosts about which nothing is known wait too, up to the second number.
_WAITING, _WAITING_MAX = 2, 32
# Failures of browsers that are logged; the others are only counted.
_LOGGED_MAX = 10
# Seconds after which a page that was put off is tried again, and what a page takes at first.
_DELAY_MIN_S, _DELAY_MAX_S, _USUAL_S = 0.5, 30.0, 1.5
# Between two looks whether the crawl ends.
_LOOK_S = 1.0
_REDIRECT = 302
_WANTING_BYTES = 1_000_000
# Headers of the document that the rendered page does not have.
_VALIDATORS = ("ETag", "Last-Modified")
_OF_DOCUMENT = ("Content-Encoding", "Content-Length", "Content-MD5", *_VALIDATORS)


class RenderingMiddleware:
    """Middleware that has pages rendered; `process_request` decides whether they may be."""

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        assert crawler.stats is not None
        self._crawler = crawler
        self._mode: str = config.value(settings, "RENDER")
        self._scroll: int = config.value(settings, "RENDER_SCROLL")
        self._timeout_s: float = config.value(settings, "RENDER_TIMEOUT")
        self._screenshots = "screenshot" in config.value(settings, "PAGE_FIELDS")
        self._cache = PartCache(config.value(settings, "RENDER_CACHE_BYTES"))
        self._part_limits = config.fill(
            PartLimits, settings, trackers=_domains(config.value(settings, "RENDER_BLOCKED"))
        )
        self._count = crawler.stats.inc_value
        # Made when the first page needs them.
        self._browsers: Browsers | None = None
        self._advice: str | None = None
        self._hosts: RenderedHosts
        self._services: Services
        # Hosts of pages for which there was no room.
        self._wanting = RecentDict[str, bool](_WANTING_BYTES, text_bytes)
        self._foreign = _foreign_handlers(settings)
        self._is_warned = False
        self._queue = _Queue()
        self._failures_logged = 0

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        middleware = cls(crawler)
        if middleware._mode != NEVER and (advice := advice_about_browsers(crawler.settings)):
            raise ConfigurationError(advice)
        if middleware._mode != NEVER and middleware._foreign:
            middleware._warn()
        if middleware._mode == NEVER and middleware._scroll:
            logger.warning(
                "-a scroll (RENDER_SCROLL) is for rendered pages, and RENDER is never: only "
                "requests with the meta key `render` are scrolled. Give -a render=auto as well"
            )
        crawler.signals.connect(middleware._closed, signals.spider_closed)
        return middleware

    async def _closed(self) -> None:
        if self._browsers is not None:
            await self._browsers.close()

    # --- before the fetch ----------------------------------------------------------------------

    async def process_request(self, request: Request) -> Request | None:
        """Have the response finished by a browser if it may need one; put off what cannot be."""
        lease: Lease | None = request.meta.get(LEASE)
        mode = self._mode_of(request)
        if mode == NEVER or lease is None or request.method != "GET":
            return None
        if lease.entry.kind is not Kind.PAGE:
            return None
        if urlparse_cached(request).scheme in self._foreign:
            self._warn()
            return None
        if not await self._is_open():
            return None
        browsers = self._browsers
        assert browsers is not None
        await self._fetch_whole(request, lease, mode)
        if browsers.is_full and await self._surely_needs(lease.entry.host, mode):
            self._count("render/put_off")
            delay_s = self._queue.delay_s(monotonic(), browsers=browsers.limits.count)
            return Scheduler.of(self._crawler).leases.put_off(request, round(delay_s * 1000))
        request.meta[FINISH] = self._finish
        return None

    def _warn(self) -> None:
        """Say once that another download handler renders nothing."""
        if not self._is_warned:
            self._is_warned = True
            logger.warning(
                "DOWNLOAD_HANDLERS has %s: pages that it fetches are not rendered, whatever RENDER "
                "and the meta key `render` are. Remove it, or leave these pages to it",
                " and ".join(f"{path} for {each}" for each, path in self._foreign.items()),
            )

    async def _fetch_whole(self, request: Request, lease: Lease, mode: str) -> None:
        """Ask for a page even if its document did not change: what it shows may have changed."""
        # Not those that users give.
        known = {name: lease.entry.tail.get(key) for key, name in HEADERS.items()}
        given = [
            name
            for name, value in known.items()
            if value and request.headers.get(name) == value.encode()
        ]
        if not given:
            return
        if mode == ALWAYS or await self._standing_of(lease.entry.host) is Standing.NEEDS:
            for name in given:
                request.headers.pop(name, None)

    def _mode_of(self, request: Request) -> str:
        """Return how a request is rendered: as RENDER says, if its own meta does not."""
        given = request.meta.get("render")
        if given is None:
            return self._mode
        return given if given in (NEVER, AUTO, ALWAYS) else ALWAYS if given else NEVER

    async def _surely_needs(self, host: str, mode: str) -> bool:
        if mode == ALWAYS:
            return True
        standing = await self._standing_of(host)
        if standing is Standing.PLAIN:
            return False
        return standing is Standing.NEEDS or host in self._wanting

    async def _standing_of(self, host: str) -> Standing:
        return (await self._hosts.trials_of(host)).standing

    async def _is_open(self) -> bool:
        """Make what rendering needs; False if there is no browser, which is logged once."""
        if self._browsers is not None:
            return True
        redis = await Servers.of(self._crawler).redis()
        # Another request may have been faster.
        if self._browsers is None and self._advice is None:
            self._advice = advice_about_browsers(self._crawler.settings)
            if self._advice:
                logger.error("Pages are not rendered: %s", self._advice)
            else:
                self._open(self._crawler.settings, redis)
        return self._browsers is not None

    def _open(self, settings: BaseSettings, redis: Client) -> None:
        self._hosts = RenderedHosts(redis)
        program = find_browser(config.value(settings, "RENDER_BROWSER"))
        assert program is not None
        is_root = os.geteuid() == 0
        count = config.value(settings, "RENDER_BROWSERS")
        if is_root:
            logger.warning(
                "Browsers run without Chromium's sandbox, since this process is root. Run the "
                "crawl as another user, above all if it visits hosts that nobody knows"
            )
        scheduler = Scheduler.of(self._crawler)
        gate = _gate_of(self._crawler)
        self._services = Services(
            download=DirectDownloads(self._crawler).download,
            rules=gate.rules,
            fetch_rules=gate.fetch_rules,
            visit=lambda host, within_s: scheduler.visits.at(host, within_s=within_s),
            archive=self._archive,
            urls=scheduler.urls,
            excludes=self._excludes,
            count=self._count,
        )
        self._browsers = Browsers(
            BrowserLimits(
                BrowserConfig(
                    program=program,
                    user_agent=str(settings["USER_AGENT"]),
                    kinds=tuple(config.value(settings, "RENDER_KINDS")),
                    nice=config.value(settings, "RENDER_NICE"),
                    sandbox=not is_root,
                ),
                count=count,
                memory_bytes=config.value(settings, "RENDER_MEMORY"),
                waiting=_WAITING * count,
            ),
            count=self._count,
        )

    def _excludes(self, url: str) -> bool:
        # Options may change during the crawl.
        return Scheduler.of(self._crawler).options_watcher.scope.excludes(url)

    def _archive(self, response: Response) -> asyncio.Future[None] | None:
        archive = Scheduler.of(self._crawler).archive
        return None if archive is None else archive(PageMaker.of(self._crawler).page_of(response))

    # --- after the fetch -----------------------------------------------------------------------

    async def _finish(self, request: Request, response: Response) -> Response:
        """Return the rendered page, or the response as it is."""
        duration_s = monotonic() - request.meta[FETCH_STARTED]
        if not _may_be_rendered(response):
            return response
        lease: Lease = request.meta[LEASE]
        mode = self._mode_of(request)
        known = None
        if mode == AUTO:
            known = await self._hosts.trials_of(lease.entry.host)
            if not may_want_rendering(known, lease.entry.id):
                return response
        document = await self._unpacked(request, response)
        if document is None:
            return response
        browsers = self._browsers
        assert browsers is not None
        before = None
        if known is not None and known.standing is not Standing.NEEDS:
            before = await _content(document)
            wish = wish_of(known, before, lease.entry.id)
            if wish is Wish.NONE or (wish is Wish.SAMPLE and browsers.is_busy):
                return response
        request.meta[FETCH] = Fetch(
            duration_s, response.status, retry_after_s(response.headers.get("Retry-After"))
        )
        if browsers.waiting >= _WAITING_MAX:
            self._wanting[lease.entry.host] = True
            self._count("render/put_off")
            raise RenderingFull(f"{request.url} waits for a browser")
        with Engine.not_fetching(self._crawler):
            rendered = await self._render(request, document, browsers)
            if isinstance(rendered, str):
                return _unrendered(response, rendered)
            found, rendering, is_whole = rendered
            if mode == AUTO:
                before = before or await _content(document)
                if not await self._has_gained(lease, document.url, before, found, is_whole):
                    return response
        if found.redirect and self._is_followed(request, lease, found.redirect):
            self._count("render/redirects")
            return _redirect(document, found.redirect)
        request.meta[RENDERING] = rendering
        return _rendered(document, found)

    def _is_followed(self, request: Request, lease: Lease, target: str) -> bool:
        """Tell whether the crawl follows a redirect to a new URL; else the page is kept."""
        meta = request.meta
        given = getattr(self._crawler.spider, "handle_httpstatus_list", ())
        kept = meta.get("dont_redirect") or meta.get("handle_httpstatus_all")
        if kept or _REDIRECT in (*given, *meta.get("handle_httpstatus_list", ())):
            return False
        redirects = self._crawler.get_downloader_middleware(RedirectMiddleware)
        if redirects is None:
            return False
        most = redirects.max_redirect_times
        if meta.get("redirect_times", 0) >= most or not meta.get("redirect_ttl", most):
            return False
        urls = Scheduler.of(self._crawler).urls
        spelling = urls.spelling(target)
        if isinstance(spelling, Rejected) or target in meta.get("redirect_urls", ()):
            return False
        is_same = urls.fingerprint(spelling[0]) == lease.entry.id
        return not is_same or written_url(*spelling) != lease.entry.written_url

    async def _unpacked(self, request: Request, response: Response) -> Response | None:
        """Return a response with its body unpacked; None if it is no HTML."""
        unpacker = self._crawler.get_downloader_middleware(HttpCompressionMiddleware)
        if unpacker is not None and response.headers.get("Content-Encoding"):
            unpacked: Any = unpacker.process_response(
                request, response.replace(headers=Headers(response.headers))
            )
            response = await unpacked if isawaitable(unpacked) else unpacked
        content_type = _content_type(response)
        is_html = sniff(response.body, content_type, response.url) in (HTML, XHTML)
        return response if is_html and 0 < len(response.body) <= _MAX_BYTES else None

    async def _render(
        self, request: Request, document: Response, browsers: Browsers
    ) -> tuple[Rendered, Rendering, bool] | str:
        """Render a page, and tell whether it had all parts; a text says why it stays as it was."""
        lease: Lease = request.meta[LEASE]
        meta = request.meta
        own = OwnHost(lease.entry.host, meta[MAY_FETCH])
        parts = PageParts(
            *(self._services, self._part_limits, self._cache, own),
            meta={name: meta[name] for name in ("proxy", "bindaddress") if name in meta},
        )
        job = RenderJob(
            url=document.url,
            status=document.status,
            headers=passed_headers(document.headers),
            body=document.body,
            scroll=int(meta.get("render_scroll", self._scroll)),
            deadline_s=self._timeout_s,
            screenshot=self._screenshots,
        )
        started = monotonic()
        try:
            found = await self._until_the_end(browsers.render(job, parts.answer))
        except RenderFailed as failed:
            self._count(f"render/failed/{failed.reason}")
            if failed.reason == "start":
                # It is not this page's fault: its URL waits until there is a browser.
                raise RenderingFull(f"{document.url}: {failed}") from failed
            self._log_failure(document, failed)
            if Scheduler.of(self._crawler).failures.is_last(lease):
                return failed.reason
            raise NotRendered(f"{document.url}: {failed}") from failed
        finally:
            fetch: Fetch = meta[FETCH]
            # The slowest answer tells how fast a host is, that of a part too.
            fetch.duration_s = max(fetch.duration_s, own.slowest_s)
            meta[FETCH] = own.overload or fetch
            await parts.close()
        if own.is_lost:
            raise RenderingFull(f"{document.url} lacks parts: its lease may be lost")
        took_s = monotonic() - started
        self._queue.took(took_s)
        if parts.lacks_some and not Scheduler.of(self._crawler).failures.is_last(lease):
            shown = await _content_of(found.html, "text/html; charset=utf-8", found.url)
            if shown.looks_empty and not found.redirect:
                self._count("render/failed/parts")
                raise NotRendered(f"{document.url} lacks parts: {dict(parts.refused)}")
        self._count("render/pages")
        self._count("render/ms", round(took_s * 1000))
        if not found.settled:
            self._count("render/unsettled")
        for reason, number in found.left_out.items():
            self._count(f"render/parts/refused/{reason}", number)
        rendering = Rendering(
            ms=round(took_s * 1000),
            settled=found.settled,
            parts=parts.fetched,
            parts_cached=parts.cached,
            # Some reasons are given by both.
            parts_left_out=parts.refused + Counter(found.left_out),
            console_errors=found.console_errors,
            routes=found.routes,
            screenshot=found.screenshot,
        )
        return found, rendering, not parts.lacks_some

    def _log_failure(self, document: Response, failed: RenderFailed) -> None:
        """Log the first failures; all are counted."""
        self._failures_logged += 1
        if self._failures_logged <= _LOGGED_MAX:
            logger.warning("The browser of %s failed (%s): %s", document.url, failed.reason, failed)

    async def _until_the_end(self, rendering: Coroutine[Any, Any, Rendered]) -> Rendered:
        """Wait for a page; if the crawl ends, not much longer than for one that has its browser."""
        task = asyncio.ensure_future(rendering)
        try:
            while not task.done() and not Engine.is_closing(self._crawler):
                await asyncio.wait({task}, timeout=_LOOK_S)
            await asyncio.wait({task}, timeout=self._timeout_s)
            if not task.done():
                raise RenderingFull("the crawl ends")
            return task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _has_gained(
        self, lease: Lease, url: str, before: Content, found: Rendered, is_whole: bool
    ) -> bool:
        """Tell whether rendering a page gained something; the fleet learns from it.

        A page without all of its parts shows no more than that it gained.
        """
        after = await _content_of(found.html, "text/html; charset=utf-8", found.url)
        gained = bool(found.redirect or found.routes) or has_gained(before, after, url)
        self._count("render/gained" if gained else "render/in_vain")
        if gained or is_whole:
            await self._hosts.note(lease.entry.host, gained=gained)
        return gained


class _Queue:
    """Pages that are put off: each comes back when a browser may be free for it."""

    def __init__(self) -> None:
        self._usual_s = _USUAL_S
        self._due_s = 0.0

    def took(self, seconds: float) -> None:
        """Note how long a page took."""
        self._usual_s += 0.1 * (seconds - self._usual_s)

    def delay_s(self, now_s: float, *, browsers: int) -> float:
        """Return the delay of the next page."""
        self._due_s = max(self._due_s, now_s) + self._usual_s / browsers
        return min(max(self._due_s - now_s, _DELAY_MIN_S), _DELAY_MAX_S)


@dataclass(frozen=True, slots=True)
class _NoGate:
    """Rules of a crawl that has no middleware for robots.txt."""

    async def rules(self, _url: str) -> Rules:
        return Rules(allowed=True)

    async def fetch_rules(self, _url: str, _visit: Visit, _proxy: str) -> float | None:
        return 0.0


@dataclass(frozen=True, slots=True)
class _Gate:
    """Rules for parts, by the middleware for robots.txt."""

    robots: Robots

    async def rules(self, url: str) -> Rules:
        match await self.robots.gate.check_part(url):
            case Allowed(crawl_delay_s=delay_s):
                return Rules(allowed=True, crawl_delay_s=delay_s)
            case Denied():
                return Rules(allowed=False)
        return Rules(allowed=None)

    async def fetch_rules(self, url: str, visit: Visit, proxy: str) -> float | None:
        return await self.robots.gate.fetch_rules(url, visit, proxy)


def _gate_of(crawler: Crawler) -> _Gate | _NoGate:
    robots = crawler.get_downloader_middleware(Robots)
    return _NoGate() if robots is None else _Gate(robots)


def advice_about_browsers(settings: BaseSettings) -> str:
    """Return what to do if pages cannot be rendered here; else nothing."""
    if advice := missing("playwright", extra="render", what="Rendering pages"):
        return advice
    given = config.value(settings, "RENDER_BROWSER")
    if find_browser(given) is not None:
        return ""
    if given:
        return f"RENDER_BROWSER is {given!r}, which is no program; give the path of a Chromium."
    return (
        "Rendering pages needs a browser, and there is none on PATH: install Chromium (Debian and "
        "Ubuntu: apt-get install chromium), or set RENDER_BROWSER to the path of one."
    )


def _domains(given: str | Sequence[str] | None) -> frozenset[str] | None:
    if given is None:
        return None
    names = given.replace(",", " ").split() if isinstance(given, str) else given
    return frozenset(name.strip().lower().lstrip(".") for name in names)


def _may_be_rendered(response: Response) -> bool:
    if not 200 <= response.status < 300 or not response.body:
        return False
    return not {DATALOSS, TYPE_NOT_ACCEPTED} & set(response.flags)


def _content_type(response: Response) -> str:
    return (response.headers.get("Content-Type") or b"").decode("latin-1")


async def _content(document: Response) -> Content:
    return await _content_of(document.body, _content_type(document), document.url)


async def _content_of(body: bytes, content_type: str, url: str) -> Content:
    if len(body) <= _INLINE_BYTES:
        return content_of(body, content_type, url)
    return await asyncio.to_thread(content_of, body, content_type, url)


def _foreign_handlers(settings: BaseSettings) -> dict[str, str]:
    """Return download handlers that finish no responses, by scheme."""
    given = settings.getwithbase("DOWNLOAD_HANDLERS")
    handlers = {scheme: given.get(scheme) for scheme in ("http", "https")}
    return {
        scheme: path_of(handler)
        for scheme, handler in handlers.items()
        if handler is not None and not issubclass(load_object(handler), DownloadHandler)
    }


def _unrendered(response: Response, reason: str) -> Response:
    """Return the page as it was fetched; the next visit fetches it whole, to be rendered."""
    headers = Headers(response.headers)
    for name in _VALIDATORS:
        headers.pop(name, None)
    flags = [*response.flags, f"unrendered:{reason}"]
    unrendered: Response = response.replace(headers=headers, flags=flags)
    return unrendered


def _redirect(document: Response, target: str) -> Response:
    """Return the response that leads to where a page wants to go."""
    headers = _headers(document)
    headers["Location"] = target
    flags = [*document.flags, "client_redirect"]
    return Response(document.url, status=_REDIRECT, headers=headers, flags=flags)


def _rendered(document: Response, found: Rendered) -> Response:
    """Return the response of a rendered page."""
    headers = _headers(document)
    headers["Content-Type"] = "text/html; charset=utf-8"
    response: Response = document.replace(
        cls=HtmlResponse,
        url=found.url.partition("#")[0],
        headers=headers,
        body=found.html,
        encoding="utf-8",
    )
    return response


def _headers(document: Response) -> Headers:
    headers = Headers(document.headers)
    for name in _OF_DOCUMENT:
        headers.pop(name, None)
    return headers
