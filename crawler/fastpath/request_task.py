"""Take each request of the scheduler through fetch and callback in one task.

Scrapy uses three tasks, which hand over to each other by eight Deferreds. The calls, their order
and the signals are the same here. A project with an engine or a downloader of its own keeps them.

Scrapy parses the URL of each request again, and yields to the event loop twice before it calls a
callback: here its task was resumed by the event loop a moment ago.
"""

from __future__ import annotations

import asyncio
import logging
from inspect import isasyncgen
from time import monotonic
from types import CodeType
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider, signals
from scrapy.core.downloader import Downloader
from scrapy.core.engine import ExecutionEngine
from scrapy.core.scraper import Scraper
from scrapy.http import Response
from scrapy.utils.log import logformatter_adapter
from twisted.python.failure import Failure

from crawler.fastpath.turns import Turns
from crawler.urls.canonical import hostname_of
from crawler.util.tasks import is_ended

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

# Scrapy's names of these loggers: people filter these lines by them.
_engine_log = logging.getLogger("scrapy.core.engine")
_scraper_log = logging.getLogger("scrapy.core.scraper")
# What a page counts at least, instead of Scrapy's 1 KB. One without a body takes some 30 KB until
# it is stored: request, response, links, documents, and the frames of its task.
_PAGE_MIN_BYTES = 48 * 1024
# Downloader slots that are kept for the next request of their hosts. Scrapy keeps all of them for a
# minute, 1.4 KB each: with thousands of hosts a minute they would be tens of MB.
_SLOTS_KEPT = 1000


class RequestTasks:
    """Tasks that take requests from the scheduler to the scraper."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._engine: Any = crawler.engine
        self._downloader: Any = self._engine.downloader
        self._scraper: Any = self._engine.scraper
        # The event loop has only weak references to tasks. Bounded by the requests in progress.
        self._tasks: dict[Request, asyncio.Task[None]] = {}
        # Code of callbacks that are asynchronous generators.
        self._generators: set[CodeType] = set()
        self._turns = Turns.of(crawler)

    @classmethod
    def take_over(cls, crawler: Crawler) -> None:
        """Let these tasks handle the requests of a crawl."""
        engine: Any = crawler.engine
        parts = (engine, engine.downloader, engine.scraper)
        if tuple(map(type, parts)) == (ExecutionEngine, Downloader, Scraper):
            one_task = cls(crawler)
            engine._start_scheduled_request = one_task.start  # noqa: SLF001
            engine.downloader._enqueue_request = one_task.fetch  # noqa: SLF001
            engine.scraper.call_spider_async = one_task.call
            engine.scraper.slot.MIN_RESPONSE_SIZE = _PAGE_MIN_BYTES

    def start(self) -> bool:
        """Start the next request; False if there is none."""
        slot = self._engine._slot  # noqa: SLF001
        request: Request | None = slot.scheduler.next_request()
        if request is None:
            self._crawler.signals.send_catch_log(signals.scheduler_empty)
            return False
        slot.add_request(request)
        # At once: otherwise the engine would consider itself idle.
        self._downloader.active.add(request)
        self._tasks[request] = asyncio.get_running_loop().create_task(self._run(request, slot))
        return True

    async def fetch(self, request: Request) -> Response:
        """Fetch without queueing if the request's downloader slot has no delay and is free."""
        downloader = self._downloader
        key = request.meta.get(Downloader.DOWNLOAD_SLOT)
        if key is None:
            by_ip = downloader.ip_concurrency
            key = downloader.get_slot_key(request) if by_ip else hostname_of(request.url)
        slot = downloader.slots.get(key)
        if slot is None:
            slot = downloader._get_slot(request)[1]  # noqa: SLF001
        if slot.delay or slot.latercall or slot.queue or slot.free_transfer_slots() <= 0:
            response: Response = await Downloader._enqueue_request(downloader, request)  # noqa: SLF001
            return response
        request.meta[Downloader.DOWNLOAD_SLOT] = key
        slot.active.add(request)
        try:
            self._send(signals.request_reached_downloader, request=request)
            slot.lastseen = monotonic()
            fetched: Response = await self._transfer(request, slot)
        finally:
            slot.active.remove(request)
            if len(downloader.slots) > _SLOTS_KEPT and not (slot.active or slot.delay):
                downloader.slots.pop(key, None)
        return fetched

    async def _transfer(self, request: Request, slot: Any) -> Response:
        downloader, handlers = self._downloader, self._downloader.handlers
        scheme = request.url.partition(":")[0]
        handler = handlers._handlers.get(scheme)  # noqa: SLF001
        if handler is None or scheme in handlers._old_style_handlers:  # noqa: SLF001
            # The first request of a scheme, or one without a handler.
            response: Response = await downloader._download(slot, request)  # noqa: SLF001
            return response
        slot.transferring.add(request)
        try:
            response = await handler.download_request(request)
            self._send(signals.response_downloaded, response=response, request=request)
        finally:
            slot.transferring.remove(request)
            if slot.queue:
                downloader._process_queue(slot)  # noqa: SLF001
            self._send(signals.request_left_downloader, request=request)
        return response

    def _send(self, signal: Any, **named: Any) -> None:
        self._crawler.signals.send_catch_log(signal, spider=self._crawler.spider, **named)

    async def call(self, result: Response | Failure, request: Request) -> Any:
        """Call the callback of a response that is known to be an asynchronous generator.

        For any other callback, and for errbacks, Scrapy has checks and warnings.
        """
        if isinstance(result, Response):
            asked = result.request if result.request is not None else request
            callback = asked.callback or self._parse
            if getattr(callback, "__code__", None) in self._generators:
                result.request = asked
                return callback(result, **asked.cb_kwargs)
        output = await Scraper.call_spider_async(self._scraper, result, request)
        if isasyncgen(output) and isinstance(result, Response):
            self._generators.add(output.ag_code)
        return output

    @property
    def _parse(self) -> Any:
        """Callback of requests that have none."""
        spider: Any = self._crawler.spider
        # Scrapy's own calls parse(), and nothing else.
        is_own = type(spider)._parse is Spider._parse  # noqa: SLF001
        return spider.parse if is_own else spider._parse  # noqa: SLF001

    async def _run(self, request: Request, slot: Any) -> None:
        try:
            result: Any = await self._fetch_page(request)
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - goes to the errback
            result = Failure()  # type: ignore[no-untyped-call]
        finally:
            slot.nextcall.schedule()
        try:
            if isinstance(result, Request):
                self._engine.crawl(result)
            else:
                await self._handle(result, request)
        except Exception:  # noqa: BLE001 - nobody else would log it
            self._log("The result of a fetch could not be handled")
        self._tasks.pop(request, None)
        try:
            slot.remove_request(request)
        except Exception:  # noqa: BLE001 - the engine goes on
            self._log("A request could not be removed from the engine")
        slot.nextcall.schedule()

    async def _fetch_page(self, request: Request) -> Response | Request:
        downloader, spider = self._downloader, self._crawler.spider
        try:
            # Read each time, as in Scrapy: others may replace it.
            result = await downloader.middleware.download_async(
                downloader._enqueue_request,  # noqa: SLF001
                request,
            )
        finally:
            downloader.active.remove(request)
        if isinstance(result, Request):
            return result
        if not isinstance(result, Response):
            raise TypeError(
                f"{request} was answered by {result!r}; a Response or a Request is needed."
            )
        if result.request is None:
            result.request = request
        line = self._engine.logformatter.crawled(result.request, result, spider)
        if line is not None:
            _engine_log.log(*logformatter_adapter(line), extra={"spider": spider})
        self._send(signals.response_received, response=result, request=result.request)
        return result

    async def _handle(self, result: Response | Failure, request: Request) -> None:
        scraper, slot = self._scraper, self._scraper.slot
        size = len(result.body) if isinstance(result, Response) else 0
        slot.active.add(request)
        slot.active_size += max(size, slot.MIN_RESPONSE_SIZE)
        try:
            if size and self._turns.are_over():
                await self._turns.next()
            await scraper._scrape(result, request)  # noqa: SLF001
        except asyncio.CancelledError:
            if is_ended():
                raise
            # Something that the callback awaited was cancelled. Scrapy would never end the crawl.
            failure = Failure()  # type: ignore[no-untyped-call]
            scraper.handle_spider_error(failure, request, result)
        except Exception:  # noqa: BLE001 - nobody else would log it
            _scraper_log.exception(
                "%(request)s could not be scraped",
                {"request": request},
                extra={"spider": self._crawler.spider},
            )
        finally:
            slot.finish_response(result, request)
            scraper._check_if_closing()  # noqa: SLF001

    def _log(self, what: str) -> None:
        _engine_log.info(what, exc_info=True, extra={"spider": self._crawler.spider})
