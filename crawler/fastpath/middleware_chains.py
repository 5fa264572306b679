"""Call middlewares and pipelines directly, without Scrapy's wrappers around each call.

For each method Scrapy looks up its name for a warning and makes a coroutine of its result. It
passes the output of a callback through four generators for each spider middleware. The arguments of
the methods, their order and the meaning of their results are the same here as in Scrapy.

Scrapy's middlewares for default headers and timeouts add the same values to every plain request.
These values are found once, with a request that is never sent. Requests that have headers of their
own still go through the middlewares. Its middleware for stats writes each request out to count its
bytes; here the lengths are added.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.core.spidermw import SpiderMiddlewareManager
from scrapy.downloadermiddlewares.defaultheaders import DefaultHeadersMiddleware
from scrapy.downloadermiddlewares.downloadtimeout import DownloadTimeoutMiddleware
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.downloadermiddlewares.stats import DownloaderStats, get_status_size
from scrapy.downloadermiddlewares.useragent import UserAgentMiddleware
from scrapy.exceptions import _InvalidOutput
from scrapy.http import Headers, Response
from scrapy.pipelines import ItemPipelineManager
from scrapy.spidermiddlewares.depth import DepthMiddleware
from scrapy.spidermiddlewares.httperror import HttpErrorMiddleware
from scrapy.spidermiddlewares.start import StartSpiderMiddleware
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.python import global_object_name
from scrapy.utils.request import request_httprepr

from crawler.fastpath.decompression import Decompression
from crawler.fastpath.turns import Turns
from crawler.middlewares.leases import Leases
from crawler.urls.canonical import hostname_of
from crawler.util.tasks import is_ended

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from scrapy.crawler import Crawler


class QuickDownloaderMiddlewares(DownloaderMiddlewareManager):
    """Downloader middlewares of a crawl, called without wrappers."""

    async def _process_request(
        self, request: Request, download_func: Callable[[Request], Coroutine[Any, Any, Response]]
    ) -> Response | Request:
        with_spider = self._mw_methods_requiring_spider
        for method in self.methods["process_request"]:
            assert method is not None
            if method in with_spider:
                answer = method(request=request, spider=self._spider)
            else:
                answer = method(request=request)
            if isinstance(answer, CoroutineType):
                answer = await answer
            elif answer is not None:
                answer = await _slowly(answer, method)
            if answer is None:
                continue
            if not isinstance(answer, (Response, Request)):
                raise _wrong(method, answer, "None, a Response or a Request")
            if answer:
                return answer
        return await download_func(request)

    async def _process_response(
        self, response: Response | Request, request: Request
    ) -> Response | Request:
        if isinstance(response, Request):
            return response
        with_spider = self._mw_methods_requiring_spider
        for method in self.methods["process_response"]:
            assert method is not None
            if method in with_spider:
                answer = method(request=request, response=response, spider=self._spider)
            else:
                answer = method(request=request, response=response)
            if isinstance(answer, CoroutineType):
                answer = await answer
            elif answer is not response:
                answer = await _slowly(answer, method)
            if answer is response:
                continue
            if not isinstance(answer, (Response, Request)):
                raise _wrong(method, answer, "a Response or a Request")
            if isinstance(answer, Request):
                return answer
            response = answer
        return response


class QuickItemPipelines(ItemPipelineManager):
    """Item pipelines of a crawl, called without wrappers."""

    turns: Turns

    @classmethod
    def take_over(cls, itemproc: ItemPipelineManager, turns: Turns) -> None:
        """Change the class of these pipelines, unless they are a project's own."""
        if type(itemproc) is ItemPipelineManager:
            itemproc.__class__ = cls
            assert isinstance(itemproc, cls)
            itemproc.turns = turns

    async def process_item_async(self, item: Any) -> Any:
        with_spider, turns = self._mw_methods_requiring_spider, self.turns
        for method in self.methods["process_item"]:
            assert method is not None
            if turns.are_over():
                await turns.next()
            answer = method(item, self._spider) if method in with_spider else method(item)
            try:
                if isinstance(answer, CoroutineType):
                    item = await answer
                elif answer is not item:
                    item = await _slowly(answer, method)
            except asyncio.CancelledError as error:
                if is_ended():
                    raise
                # Scrapy would never end the crawl.
                name = global_object_name(method)
                raise RuntimeError(f"{name} awaited something that was cancelled") from error
        return item


class QuickSpiderMiddlewares(SpiderMiddlewareManager):
    """Spider middlewares of a crawl in which only Scrapy's own and ours handle output.

    Of Scrapy's own, DepthMiddleware handles requests, and StartSpiderMiddleware lets output pass.
    """

    leases: Leases
    depth: DepthMiddleware | None

    @classmethod
    def take_over(cls, spidermw: SpiderMiddlewareManager) -> None:
        """Change the class of these middlewares, unless others handle output or exceptions."""
        *others, last = _owners(spidermw.methods["process_spider_output"]) or [None]
        depths = [other for other in others if type(other) is DepthMiddleware]
        # The output of other exception handlers may follow the output of the callback.
        catchers = {type(owner) for owner in _owners(spidermw.methods["process_spider_exception"])}
        if (
            type(spidermw) is SpiderMiddlewareManager
            and isinstance(last, Leases)
            and {type(other) for other in others} <= {DepthMiddleware, StartSpiderMiddleware}
            and len(depths) <= 1
            and catchers <= {HttpErrorMiddleware, Leases}
        ):
            spidermw.__class__ = cls
            assert isinstance(spidermw, cls)
            spidermw.leases = last
            spidermw.depth = depths[0] if depths else None

    async def _process_callback_output(  # type: ignore[override]
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        return self.leases.process_spider_output(response, self._outputs(response, result))

    async def _outputs(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield the callback's output with the depth of its requests, and handle its exception."""
        depth = self.depth
        if depth is not None:
            depth._init_depth(response)  # noqa: SLF001
        try:
            async for output in result:
                kept = output
                if depth is not None and isinstance(output, Request):
                    kept = depth.get_processed_request(output, response)
                if kept is not None:
                    yield kept
        except Exception as error:
            if getattr(error, "_spidermw_unhandled", False):
                raise
            self._process_spider_exception(response, error)


def _owners(methods: Iterable[Any]) -> list[Any]:
    return [getattr(method, "__self__", None) for method in methods if method is not None]


async def _slowly(answer: Any, method: Callable[..., Any]) -> Any:
    """Await a result of any kind as Scrapy does, with its warning for a Deferred."""
    return await ensure_awaitable(answer, _warn=global_object_name(method))


def _wrong(method: Callable[..., Any], answer: Any, right: str) -> Exception:
    return _InvalidOutput(
        f"{method.__qualname__} of a downloader middleware returned {answer!r}; return {right}."
    )


def take_over(crawler: Crawler) -> None:
    """Make this crawl call its middlewares and pipelines by these classes.

    Managers of a project's own stay as they are.
    """
    engine: Any = crawler.engine
    QuickSpiderMiddlewares.take_over(engine.scraper.spidermw)
    QuickItemPipelines.take_over(engine.scraper.itemproc, Turns.of(crawler))
    middleware = getattr(engine.downloader, "middleware", None)
    if type(middleware) is DownloaderMiddlewareManager:
        middleware.__class__ = QuickDownloaderMiddlewares
        methods = middleware.methods
        methods["process_request"] = merged(map(counted, methods["process_request"]))
        methods["process_response"] = deque(map(counted, methods["process_response"]))


Method = Callable[..., Any]

_DEFAULT_SETTERS = (
    Decompression,
    DefaultHeadersMiddleware,
    DownloadTimeoutMiddleware,
    HttpCompressionMiddleware,
    UserAgentMiddleware,
)


class RequestDefaults:
    """Headers and meta that some consecutive middlewares add to every plain request."""

    def __init__(self, methods: Sequence[Method]) -> None:
        self._methods = methods
        tried = Request("http://plain.invalid/")
        for method in methods:
            method(request=tried)
        self._headers: list[tuple[bytes, list[bytes]]] = list(dict.items(tried.headers))
        self._meta = tried.meta

    def process_request(self, request: Request) -> None:
        headers, meta = request.headers, request.meta
        if headers or not meta.keys().isdisjoint(self._meta):
            for method in self._methods:
                method(request=request)
            return
        # The headers are normalised already. Each request gets lists of its own.
        dict.update(headers, [(name, [*values]) for name, values in self._headers])
        meta.update(self._meta)


def merged(methods: Iterable[Method | None]) -> deque[Method | None]:
    """Replace each run of methods that set defaults by one method."""
    found: deque[Method | None] = deque()
    for sets_defaults, group in groupby(methods, _sets_defaults):
        together = list(group)
        if sets_defaults:
            found.append(RequestDefaults([method for method in together if method]).process_request)
        else:
            found += together
    return found


def _sets_defaults(method: Method | None) -> bool:
    # A subclass does not count: it may do anything.
    return type(getattr(method, "__self__", None)) in _DEFAULT_SETTERS


class TrafficCounts:
    """Counts of requests, responses and their bytes, the same as those of DownloaderStats."""

    def __init__(self, count: Callable[..., None]) -> None:
        self._count = count

    def process_request(self, request: Request) -> None:
        count = self._count
        count("downloader/request_count")
        count(f"downloader/request_method_count/{request.method}")
        count("downloader/request_bytes", _request_bytes(request))

    def process_response(self, request: Request, response: Response) -> Response:
        count, status = self._count, response.status
        count("downloader/response_count")
        count(f"downloader/response_status_count/{status}")
        # The line of the status, the headers, an empty line and the body.
        headers = response.headers
        size = _headers_bytes(headers) + 2 * (len(headers) - 1)
        count("downloader/response_bytes", len(response.body) + size + _status_bytes(status) + 4)
        return response


def counted(method: Method | None) -> Method | None:
    """Return our method that replaces one of DownloaderStats, or the method itself."""
    owner = getattr(method, "__self__", None)
    if type(owner) is not DownloaderStats:
        return method
    quick: Method = getattr(TrafficCounts(owner.stats.inc_value), method.__name__)  # type: ignore[union-attr]
    return quick


# Scrapy looks them up in a module of Twisted that warns of old names.
_status_bytes = lru_cache(maxsize=1000)(get_status_size)


def _request_bytes(request: Request) -> int:
    """Return the length of a request as Scrapy's request_httprepr() writes it."""
    url, headers = request.url, request.headers
    path_at = url.find("/", 8)
    if (
        path_at < 0
        or not url.startswith("http")
        or url.startswith("//", path_at)
        or url.endswith("?")
        or url.find("?", 0, path_at) > 0
        or "#" in url
        or ";" in url
    ):
        # It does not write all of these URLs as they are.
        return len(request_httprepr(request))
    size = len(request.method) + len(url) - path_at + len(hostname_of(url)) + len(request.body)
    if headers:
        lines = sum(map(len, dict.values(headers)))
        size += _headers_bytes(headers) + 2 * max(1, lines)
    # " ", " HTTP/1.1", "Host: ", and the ends of two lines and of the head.
    return size + 22


def _headers_bytes(headers: Headers) -> int:
    """Return the length of the lines of headers, without their ends."""
    return sum(
        len(name) + len(value) + 2 for name, values in dict.items(headers) for value in values
    )
