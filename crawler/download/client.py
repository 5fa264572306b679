"""Fetch by HTTP: the connections of a crawl, shared by all schemes and bounded."""

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
from crawler.download.http1.connection import Connection
from crawler.download.http1.connector import Connector
from crawler.download.http1.pool import BindAddress, Pool, Route
from crawler.download.http1.request_writer import Written, write
from crawler.download.http1.response_parser import NoAnswer
from crawler.download.receiver import Receiver
from crawler.util.file_limit import Connections, OutOfSockets, limits
from crawler.util.per_crawler import shared
from crawler.util.request_meta import MAY_FETCH

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings


# Methods whose requests may be sent twice (RFC 9110, 9.2.2).
_REPEATABLE = frozenset({"GET", "HEAD"})
# Seconds for the event loop to close connections.
_CLOSING_S = 0.01


class HttpClient:
    """HTTP client that the handlers of a crawl share; the last one to leave closes it."""

    def __init__(self, settings: BaseSettings, resolver: Resolver, guard: Guard) -> None:
        hosts_max = Connections.from_settings(settings).within(limits()[0]).kept
        keep_s = config.value(settings, "DOWNLOAD_KEEPALIVE")
        make_tls = partial(_make_ssl_context, settings)
        self.guard = guard
        self.pool = Pool(hosts_max=hosts_max, keep_s=keep_s)
        self._connector = Connector(resolver, guard, make_tls)
        self._resolver = resolver
        self._bind = _bind_address(settings.get("DOWNLOAD_BIND_ADDRESS"))
        # Fetches at a time. As in Scrapy, 0 is no limit.
        self._in_use = asyncio.Semaphore(settings.getint("CONCURRENT_REQUESTS") or sys.maxsize)
        self._users = 0

    @classmethod
    def join(cls, crawler: Crawler) -> HttpClient:
        """Return the client of a crawl; whoever joins must `leave`."""
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
        """Close the client if nobody else uses it."""
        self._users -= 1
        if self._users == 0:
            self.pool.close()
            await self._connector.close()
            await self._resolver.close()

    async def fetch(self, request: Request, receiver: Receiver) -> None:
        """Send a request and receive its response.

        A server may close a kept connection just as the request arrives. If no byte of a response
        came, the request is sent once more, on a new connection. Raises one of Scrapy's errors,
        RefusedAddress, Truncated, or what the receiver raises.
        """
        async with self._in_use:
            written = write(request)
            if written.proxy is not None:
                # The proxy looks names up, so only an address in the URL can be checked here.
                self.guard.check_literal(written.origin.host)
            bind = _bind_address(request.meta.get("bindaddress")) or self._bind
            route = Route(written.origin, bind, written.proxy)
            kept = self.pool.take(route)
            if kept is not None:
                try:
                    await self._exchange(kept, route, request, written, receiver)
                except NoAnswer:
                    if request.method not in _REPEATABLE:
                        raise
                else:
                    return
            try:
                connection = await self._connect(route)
            except OutOfSockets as error:
                if kept is None:
                    raise
                # The host was contacted, so this fetch did begin.
                raise NoAnswer(str(error)) from error
            await self._exchange(connection, route, request, written, receiver)

    async def _exchange(
        self,
        connection: Connection,
        route: Route,
        request: Request,
        written: Written,
        receiver: Receiver,
    ) -> None:
        may_send: Callable[[], bool] | None = request.meta.get(MAY_FETCH)
        if may_send is not None and not may_send():
            # Connecting took longer than the lease lasts.
            connection.close()
            raise StoppedTooLong("this process stood still for too long to fetch it now")
        only_head = request.method == "HEAD"
        if await connection.exchange(written.data, receiver, only_head=only_head):
            if written.keeps:
                self.pool.put(route, connection)
            else:
                connection.close()

    async def _connect(self, route: Route) -> Connection:
        try:
            return await self._connector.connect(route)
        except OutOfSockets:
            # Idle connections take file descriptors too.
            if not self.pool.shed():
                raise
            await asyncio.sleep(_CLOSING_S)
            return await self._connector.connect(route)


def _bind_address(value: Any) -> BindAddress | None:
    """Return a local address as sockets take it; msgpack and JSON make lists of tuples."""
    return normalize_bind_address(tuple(value) if isinstance(value, list) else value)
