"""Call middlewares and pipelines directly: nothing is wrapped that need not be.

Scrapy looks up the name of each method for a warning, makes a coroutine of each answer, and passes
the output of a callback through four generators for each spider middleware. What the methods get,
in which order, and what their answers mean is as in Scrapy.

Scrapy's middlewares for default headers and time-outs add the same to every plain request, in four
calls: what that is, is found out once by a request that nobody sends. Requests with headers of
their own go to the middlewares.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.core.spidermw import SpiderMiddlewareManager
from scrapy.downloadermiddlewares.defaultheaders import DefaultHeadersMiddleware
from scrapy.downloadermiddlewares.downloadtimeout import DownloadTimeoutMiddleware
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.downloadermiddlewares.useragent import UserAgentMiddleware
from scrapy.exceptions import _InvalidOutput
from scrapy.http import Response
from scrapy.pipelines import ItemPipelineManager
from scrapy.spidermiddlewares.depth import DepthMiddleware
from scrapy.spidermiddlewares.httperror import HttpErrorMiddleware
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.python import MutableAsyncChain, global_object_name

from crawler.middlewares.decompression import Decompression
from crawler.middlewares.leases import Leases
from crawler.util.tasks import is_ended

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from scrapy.crawler import Crawler


_ANSWERS = (Response, Request)


class QuickDownloaderMiddlewares(DownloaderMiddlewareManager):
    """The downloader middlewares of a crawl."""

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
            if not isinstance(answer, _ANSWERS):
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
            if not isinstance(answer, _ANSWERS):
                raise _wrong(method, answer, "a Response or a Request")
            if isinstance(answer, Request):
                return answer
            response = answer
        return response


class QuickItemPipelines(ItemPipelineManager):
    """The item pipelines of a crawl."""

    async def process_item_async(self, item: Any) -> Any:
        with_spider = self._mw_methods_requiring_spider
        for method in self.methods["process_item"]:
            assert method is not None
            answer = method(item, self._spider) if method in with_spider else method(item)
            try:
                if isinstance(answer, CoroutineType):
                    item = await answer
                elif answer is not item:
                    item = await _slowly(answer, method)
            except asyncio.CancelledError as error:
                if is_ended():
                    raise
                # In Scrapy the crawl would never end.
                name = global_object_name(method)
                raise RuntimeError(f"{name} waited for what was cancelled") from error
        return item


class QuickSpiderMiddlewares(SpiderMiddlewareManager):
    """The spider middlewares of a crawl that has no others for output than Scrapy's depth and ours.

    Ours then minds the depth of requests too.
    """

    leases: Leases

    @classmethod
    def take_over(cls, spidermw: SpiderMiddlewareManager) -> None:
        """Make this the way of output through these middlewares, if they are no others."""
        *others, last = _owners(spidermw.methods["process_spider_output"]) or [None]
        is_depth = [type(other) for other in others] in ([], [DepthMiddleware])
        # Where others handle exceptions, output of theirs may follow the callback's.
        catchers = {type(owner) for owner in _owners(spidermw.methods["process_spider_exception"])}
        if (
            type(spidermw) is SpiderMiddlewareManager
            and isinstance(last, Leases)
            and is_depth
            and catchers <= {HttpErrorMiddleware, Leases}
        ):
            last.depth = others[0] if others else None
            spidermw.__class__ = cls
            assert isinstance(spidermw, cls)
            spidermw.leases = last

    async def _process_callback_output(  # type: ignore[override]
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        caught = self._evaluate_iterable(response, result, 0, MutableAsyncChain())
        return self.leases.process_spider_output(response, caught)


def _owners(methods: Iterable[Any]) -> list[Any]:
    return [getattr(method, "__self__", None) for method in methods if method is not None]


async def _slowly(answer: Any, method: Callable[..., Any]) -> Any:
    """What Scrapy makes of an answer of any kind; it warns of a Deferred."""
    return await ensure_awaitable(answer, _warn=global_object_name(method))


def _wrong(method: Callable[..., Any], answer: Any, right: str) -> Exception:
    return _InvalidOutput(
        f"{method.__qualname__} of a downloader middleware returned {answer!r}; return {right}."
    )


def take_over(crawler: Crawler) -> None:
    """Make this the way in which this crawl calls them; a project's own managers stay."""
    engine: Any = crawler.engine
    QuickSpiderMiddlewares.take_over(engine.scraper.spidermw)
    if type(engine.scraper.itemproc) is ItemPipelineManager:
        engine.scraper.itemproc.__class__ = QuickItemPipelines
    middleware = getattr(engine.downloader, "middleware", None)
    if type(middleware) is DownloaderMiddlewareManager:
        middleware.__class__ = QuickDownloaderMiddlewares
        middleware.methods["process_request"] = merged(middleware.methods["process_request"])


Method = Callable[..., Any]

_THEIRS = (
    Decompression,
    DefaultHeadersMiddleware,
    DownloadTimeoutMiddleware,
    HttpCompressionMiddleware,
    UserAgentMiddleware,
)


class RequestDefaults:
    """In the place of methods that follow each other."""

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
        # They are in their normal form already, and each request has lists of its own.
        dict.update(headers, [(name, [*values]) for name, values in self._headers])
        meta.update(self._meta)


def merged(methods: Iterable[Method | None]) -> deque[Method | None]:
    """These methods `process_request`, with one in the place of Scrapy's that stand together."""
    found: deque[Method | None] = deque()
    for is_theirs, group in groupby(methods, _is_theirs):
        together = list(group)
        if is_theirs:
            found.append(RequestDefaults([method for method in together if method]).process_request)
        else:
            found += together
    return found


def _is_theirs(method: Method | None) -> bool:
    # Not any class that derives from theirs: it may do anything.
    return type(getattr(method, "__self__", None)) in _THEIRS
