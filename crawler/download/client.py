"""The HTTP connections of a crawl: shared by all schemes, bounded, judged when they are made."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from scrapy.utils._download_handlers import normalize_bind_address
from scrapy.utils.ssl import _make_ssl_context

from crawler import config
from crawler.dns.resolver import Resolver
from crawler.download.address_guard import Guard
from crawler.download.errors import StoppedTooLong
from crawler.download.http1 import request_writer as requests
from crawler.download.http1.connection import Connection
from crawler.download.http1.connector import Connector
from crawler.download.http1.pool import BindAddress, Pool, Route
from crawler.download.http1.response_parser import NoAnswer
from crawler.download.receiver import Receiver
from crawler.util.file_limit import Connections, OutOfSockets, limits
from crawler.util.per_crawler import shared
from crawler.util.request_meta import MAY_FETCH

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings


# They may be sent twice (RFC 9110, 9.2.2).
_REPEATABLE = frozenset({"GET", "HEAD"})
# Time for the event loop to close what it was told to.
_CLOSING_S = 0.01


class HttpClient:
    """Shared by the handlers of a crawl; the last one to leave closes it."""

    def __init__(self, settings: BaseSettings, resolver: Resolver, guard: Guard) -> None:
        hosts_max = Connections.from_settings(settings).within(limits()[0]).kept
        keep_s = config.value(settings, "DOWNLOAD_KEEPALIVE")
        make_tls = partial(_make_ssl_context, settings)
        self.guard = guard
        self.pool = Pool(hosts_max=hosts_max, keep_s=keep_s)
        self._connector = Connector(resolver, guard, make_tls)
        self._resolver = resolver
        self._bind = _bind_address(settings.get("DOWNLOAD_BIND_ADDRESS"))
        # Connections in use; others wait for one of these to end. As in Scrapy, 0 is no limit.
        self._in_use = asyncio.Semaphore(settings.getint("CONCURRENT_REQUESTS") or sys.maxsize)
        self._users = 0

    @classmethod
    def join(cls, crawler: Crawler) -> HttpClient:
        """The client of this crawl; each who joins leaves again."""
        client = shared(cls, crawler, lambda: cls._from_crawler(crawler))
        client._users += 1  # noqa: SLF001 - of this class
        return client

    @classmethod
    def _from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        assert crawler.stats is not None
        guard = Guard(config.value(settings, "ALLOW_NETWORKS"), crawler.stats.inc_value)
        return cls(settings, Resolver.of(crawler), guard)

    async def leave(self) -> None:
        """Close it, if nobody else uses it."""
        self._users -= 1
        if self._users == 0:
            self.pool.close()
            await self._connector.close()
            await self._resolver.close()

    async def fetch(self, request: Request, receiver: Receiver) -> None:
        """Send a request and take its answer.

        A server may close a kept connection just as the request comes: if no byte of an answer
        came, it is sent once more, on a new one. Raises one of Scrapy's errors, RefusedAddress,
        Truncated, or what the receiver raises.
        """
        meta = request.meta
        may_send: Callable[[], bool] | None = meta.get(MAY_FETCH)
        bind = _bind_address(meta.get("bindaddress")) or self._bind
        async with self._in_use:
            origin, proxy, data, keeps = requests.write(request)
            if proxy is not None:
                # The proxy looks names up, so only an address in the URL can be checked here.
                self.guard.check_literal(origin.host)
            route = Route(origin, bind, proxy)
            only_head = request.method == "HEAD"
            kept = self.pool.take(route)
            connection = kept or await self._connect(route)
            _check_may_send(may_send, connection)
            try:
                is_open = await connection.exchange(data, receiver, only_head=only_head)
            except NoAnswer:
                if kept is None or request.method not in _REPEATABLE:
                    raise
                try:
                    connection = await self._connect(route)
                except OutOfSockets as error:
                    # The host was contacted, so this is no fetch that never began.
                    raise NoAnswer(str(error)) from error
                _check_may_send(may_send, connection)
                is_open = await connection.exchange(data, receiver, only_head=only_head)
            if is_open and keeps:
                self.pool.put(route, connection)
            elif is_open:
                connection.close()

    async def _connect(self, route: Route) -> Connection:
        try:
            return await self._connector.connect(route)
        except OutOfSockets:
            # Connections that wait for another fetch take file descriptors too.
            if not self.pool.shed():
                raise
            await asyncio.sleep(_CLOSING_S)
            return await self._connector.connect(route)


def _bind_address(value: Any) -> BindAddress | None:
    """A local address as sockets take it; a list is what msgpack and JSON make of a tuple."""
    return normalize_bind_address(tuple(value) if isinstance(value, list) else value)


def _check_may_send(may_send: Callable[[], bool] | None, connection: Connection) -> None:
    """Connecting may have taken longer than the lease lasts."""
    if may_send is not None and not may_send():
        connection.close()
        raise StoppedTooLong("this process stood still for too long to fetch it now")
