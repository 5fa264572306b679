"""The HTTP connections of a crawl: one pool for all schemes, with a guard at connect time."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import aiohttp
from scrapy.utils._download_handlers import normalize_bind_address
from scrapy.utils.ssl import _make_ssl_context

from crawler.fetch_errors import StoppedTooLong
from crawler.guard import Guard
from crawler.resolver import Resolver

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.client_reqrep import ConnectionKey
    from aiohttp.connector import Connection
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

BindAddress = tuple[str, int]

# What a server may send before the body: a line, a header, and how many headers.
_MAX_HEADER_BYTES = 32 * 1024
_MAX_HEADERS = 256


class Route(NamedTuple):
    """How the fetch of the running task is to connect."""

    # A proxy is the user's own choice of address, so it is not judged.
    by_proxy: bool = False
    bind: BindAddress | None = None


ROUTE: ContextVar[Route] = ContextVar("route")
# Asked when the connection of the running task's fetch is there, before anything is sent.
MAY_SEND: ContextVar[Callable[[], bool] | None] = ContextVar("may_send", default=None)


class Answer(aiohttp.ClientResponse):
    """A response that keeps what is known of its connection, which may be gone when it is read."""

    peer: str | None = None
    tls: ssl.SSLObject | None = None

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        transport = connection.transport
        if transport is not None:
            peer = transport.get_extra_info("peername")
            self.peer = peer[0] if peer else None
            self.tls = transport.get_extra_info("ssl_object")
        return await super().start(connection)


class Connector(aiohttp.TCPConnector):
    """Keeps connections for the next fetch, for some seconds and so many hosts only."""

    def __init__(self, *, max_idle: int, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._max_idle = max_idle

    async def connect(self, *args: Any, **kwargs: Any) -> Connection:
        connection = await super().connect(*args, **kwargs)
        may_send = MAY_SEND.get()
        if may_send is not None and not may_send():
            connection.close()
            raise StoppedTooLong("this process stood still for too long to fetch it now")
        return connection

    def _release(
        self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False
    ) -> None:
        # aiohttp bounds the connections in use; those that wait it only closes after their time.
        super()._release(key, protocol, should_close=should_close)
        if len(self._conns) > self._max_idle:
            idle_longest = next(iter(self._conns))
            for idle, _ in self._conns.pop(idle_longest):
                idle.close()


class HttpClient:
    """Shared by the handlers of a crawl; the last one to leave closes it."""

    _of_crawlers: ClassVar[WeakKeyDictionary[Crawler, HttpClient]] = WeakKeyDictionary()

    def __init__(self, settings: BaseSettings, resolver: Resolver, guard: Guard) -> None:
        self.guard = guard
        self._settings = settings
        self._resolver = resolver
        self._bind = normalize_bind_address(settings.get("DOWNLOAD_BIND_ADDRESS"))
        # By the local address of the connection; grows with the addresses that requests name.
        self._tls: dict[BindAddress | None, ssl.SSLContext] = {}
        self._users = 0
        self.session = aiohttp.ClientSession(
            connector=Connector(
                max_idle=settings.getint("DOWNLOAD_KEEPALIVE_HOSTS"),
                resolver=resolver,
                use_dns_cache=False,
                limit=settings.getint("CONCURRENT_REQUESTS"),
                keepalive_timeout=settings.getfloat("DOWNLOAD_KEEPALIVE"),
                socket_factory=self._socket,
            ),
            response_class=Answer,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            max_line_size=_MAX_HEADER_BYTES,
            max_field_size=_MAX_HEADER_BYTES,
            max_headers=_MAX_HEADERS,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        )
        # aiohttp would repeat a request at once when a kept connection breaks; when a host is
        # contacted again is the frontier's decision.
        self.session._retry_connection = False  # noqa: SLF001 - there is no public switch

    @classmethod
    def join(cls, crawler: Crawler) -> HttpClient:
        """The client of this crawl; each who joins leaves again."""
        client = cls._of_crawlers.get(crawler)
        if client is None:
            settings = crawler.settings
            assert crawler.stats is not None
            guard = Guard(settings.getlist("ALLOW_NETWORKS"), crawler.stats.inc_value)
            client = cls(settings, Resolver.of(crawler), guard)
            cls._of_crawlers[crawler] = client
        client._users += 1
        return client

    async def leave(self) -> None:
        """Close it, if nobody else uses it."""
        self._users -= 1
        if self._users == 0:
            # The connector leaves a resolver that it was given open.
            await self.session.close()
            await self._resolver.close()

    def route(self, *, by_proxy: bool, bind: str | BindAddress | None) -> ssl.SSLContext:
        """Set how the running task connects. Returns the TLS context to use, also without TLS.

        The context is a part of the pool's key, so a connection from another local address is
        never used again for this one.
        """
        address = normalize_bind_address(bind) or self._bind
        ROUTE.set(Route(by_proxy, address))
        context = self._tls.get(address)
        if context is None:
            context = self._tls[address] = _make_ssl_context(self._settings)
        return context

    def _socket(self, address: tuple[Any, ...]) -> socket.socket:
        """aiohttp asks for a socket per address it is about to connect to: the place to judge."""
        family, kind, protocol, _, target = address
        route = ROUTE.get(Route())
        if not route.by_proxy:
            self.guard.check(target[0])
        sock = socket.socket(family=family, type=kind, proto=protocol)
        try:
            sock.setblocking(False)
            if route.bind is not None:
                sock.bind(route.bind)
        except OSError:
            sock.close()
            raise
        return sock


@lru_cache(64)
def timeout_of(seconds: float) -> aiohttp.ClientTimeout:
    """From the first packet to the last, name and connection included."""
    return aiohttp.ClientTimeout(total=seconds)
