"""Fetch by HTTP/1.1: the connections of a crawl, shared by all schemes and bounded.

    HttpClient  sends a request over a connection that is kept or new, and receives its response
    Pool        idle connections, kept by route (server, proxy, local address)
    Connector   opens connections: the addresses of a host in turn, each checked first; tunnels
    Connection  the exchanges over one connection, one at a time

The addresses of a proxy are not checked: it is the user's choice, and may be in a private network.
A connection is reused only if the last response ended where it should. Anything else closes it.
"""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
import sys
from collections.abc import Callable
from functools import cached_property, partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import aiohappyeyeballs
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
)
from scrapy.utils._download_handlers import normalize_bind_address
from scrapy.utils.ssl import _make_ssl_context

from crawler import config
from crawler.dns.resolver import Resolver
from crawler.download.address_guard import Guard, RefusedAddress
from crawler.download.errors import ProxyFailed, StoppedTooLong
from crawler.download.receiver import Receiver
from crawler.download.request_writer import Origin, Proxy, Written, write
from crawler.download.response_parser import MAX_BETWEEN_BYTES, NoAnswer, ResponseParser
from crawler.download.tls import TlsLayer, TlsSessions
from crawler.util.file_limit import Connections, OutOfSockets, is_shortage, limits
from crawler.util.per_crawler import shared
from crawler.util.request_meta import BESIDE, CRAWL_DELAY, MAY_FETCH

if TYPE_CHECKING:
    from ssl import SSLContext, SSLSession

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Headers
    from scrapy.settings import BaseSettings

    from crawler.download.receiver import Receiver
    from crawler.download.response_parser import ResponseReceiver

# Methods whose requests may be sent twice (RFC 9110, 9.2.2).
_REPEATABLE = frozenset({"GET", "HEAD"})
# Requests at a time that are sent beside those of the engine.
_BESIDE_MAX = 32
# Seconds for the event loop to close connections.
_CLOSING_S = 0.01


class HttpClient:
    """HTTP client that the handlers of a crawl share; the last one to leave closes it."""

    def __init__(self, settings: BaseSettings, resolver: Resolver, guard: Guard) -> None:
        kept_max = Connections.from_settings(settings).within(limits()[0]).kept
        keep_s = config.value(settings, "DOWNLOAD_KEEPALIVE")
        make_tls = partial(_make_ssl_context, settings)
        self.guard = guard
        self.pool = Pool(most=kept_max, keep_s=keep_s)
        self._connector = Connector(resolver, guard, make_tls, self.pool.forget)
        self._resolver = resolver
        self._bind = _bind_address(settings.get("DOWNLOAD_BIND_ADDRESS"))
        # Fetches at a time. As in Scrapy, 0 is no limit.
        self._in_use = asyncio.Semaphore(settings.getint("CONCURRENT_REQUESTS") or sys.maxsize)
        # Parts of pages neither take the places of pages nor wait for them.
        self._beside = asyncio.Semaphore(_BESIDE_MAX)
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
        async with self._beside if BESIDE in request.meta else self._in_use:
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
                self.pool.put(route, connection, due_s=request.meta.get(CRAWL_DELAY, 0.0))
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


BindAddress = tuple[str, int]

# A request must arrive before the server stops listening: otherwise it is lost, and one that may
# not be sent again fails.
_MARGIN_S = 1.0
# Least seconds between two sweeps for connections that were idle for too long, and the most routes
# of one: closing a connection takes 30 µs.
_SWEEP_GAP_S = 0.05
_SWEEP_MAX = 100


class Route(NamedTuple):
    """Key of a connection: fetches with the same route may share one."""

    origin: Origin
    bind: BindAddress | None = None
    proxy: Proxy | None = None


class Pool:
    """Idle connections by route, the route that was used longest ago first.

    Above `most`, a connection is closed instead of kept: hosts are contacted in turn, so all the
    others will be needed before it.
    """

    def __init__(self, *, most: int, keep_s: float) -> None:
        self.waiting: dict[Route, list[tuple[Connection, float]]] = {}
        self._count = 0
        self._most = most
        self._keep_s = keep_s
        self._sweeping: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return self._count

    def take(self, route: Route) -> Connection | None:
        """Return the connection that was used last, if one is still open."""
        waiting = self.waiting.get(route)
        while waiting:
            connection, since = waiting.pop()
            self._count -= 1
            if not waiting:
                del self.waiting[route]
            if connection.is_open:
                if monotonic() - since <= self._useful_s(connection):
                    return connection
                connection.close()
        return None

    def put(self, route: Route, connection: Connection, *, due_s: float = 0.0) -> None:
        """Keep a connection whose last response has ended.

        The next request is due in `due_s` seconds at the earliest.
        """
        if self._count >= self._most or due_s > self._useful_s(connection):
            connection.close()
            return
        now = monotonic()
        # Inserted anew, so that the routes stay in the order of their last use.
        waiting = self.waiting.pop(route, [])
        self.waiting[route] = waiting
        while waiting and waiting[0][1] < now - self._keep_s:
            waiting.pop(0)[0].close()
            self._count -= 1
        waiting.append((connection, now))
        self._count += 1
        if self._sweeping is None:
            self._sweep_after(self._keep_s)

    def forget(self, route: Route, connection: Connection) -> None:
        """Drop a connection that was closed, if it is here."""
        waiting = self.waiting.get(route)
        if waiting is None:
            return
        left = [each for each in waiting if each[0] is not connection]
        self._count -= len(waiting) - len(left)
        if left:
            self.waiting[route] = left
        else:
            del self.waiting[route]

    def shed(self) -> bool:
        """Close the connections that are idle for longest; return False if there is none."""
        if not self.waiting:
            return False
        for route in list(islice(self.waiting, _SWEEP_MAX)):
            self._close(route)
        return True

    def close(self) -> None:
        """Close all idle connections, and keep none from now on."""
        self._most = 0
        if self._sweeping is not None:
            self._sweeping.cancel()
        for route in list(self.waiting):
            self._close(route)

    def _useful_s(self, connection: Connection) -> float:
        """Return for how many seconds a connection may be idle before its next request."""
        return min(self._keep_s, connection.listens_s - _MARGIN_S)

    def _close(self, route: Route) -> None:
        waiting = self.waiting.pop(route)
        self._count -= len(waiting)
        for connection, _ in waiting:
            connection.close()

    def _sweep_after(self, delay_s: float) -> None:
        self._sweeping = asyncio.get_running_loop().call_later(delay_s, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = None
        latest = monotonic() - self._keep_s
        for route, waiting in list(islice(self.waiting.items(), _SWEEP_MAX)):
            since = waiting[-1][1]
            if since > latest:
                self._sweep_after(max(since - latest, _SWEEP_GAP_S))
                return
            self._close(route)
        if self.waiting:
            self._sweep_after(_SWEEP_GAP_S)


# Seconds after which the next address of a host is tried beside the one before (RFC 8305).
_NEXT_ADDRESS_S = 0.25
AddressInfo = tuple[int, int, int, str, Any]


class Connector:
    """Opener of connections, which resumes sessions of TLS; `close` closes all that are open.

    `closed` is called when a connection has ended, whoever closed it.
    """

    def __init__(
        self,
        resolver: Resolver,
        guard: Guard,
        make_tls: Callable[[], ssl.SSLContext],
        closed: Callable[[Route, Connection], None],
    ) -> None:
        self._resolver = resolver
        self._guard = guard
        self._make_tls = make_tls
        self._closed = closed
        self._sessions = TlsSessions()
        self._open: set[Connection] = set()
        self._closing: asyncio.Future[None] | None = None

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        context = self._make_tls()
        # Some servers insist on knowing what is spoken.
        context.set_alpn_protocols(["http/1.1"])
        return context

    async def connect(self, route: Route) -> Connection:
        """Open a connection; raises one of Scrapy's errors, or RefusedAddress."""
        origin, proxy = route.origin, route.proxy
        session: SSLSession | None = None
        try:
            if origin.scheme == "https":
                # Find a name that TLS cannot send before a socket is open.
                origin.host.encode("idna")
                session = self._sessions.take(route)
            try:
                return await self._connect(route, session)
            except ssl.SSLCertVerificationError:
                raise
            except (ssl.SSLError, ConnectionResetError):
                if session is None:
                    raise
                # A server may fail over a session that it cannot resume.
                return await self._connect(route, None)
        except RefusedAddress:
            raise
        except CannotResolveHostError as error:
            if proxy is None:
                raise
            raise ProxyFailed(_text(route, error)) from error
        except (ssl.SSLError, ValueError) as error:
            raise DownloadFailedError(_text(route, error)) from error
        except (OSError, RuntimeError) as error:
            refused = DownloadConnectionRefusedError if proxy is None else ProxyFailed
            kind = OutOfSockets if is_shortage(error) else refused
            raise kind(_text(route, error)) from error

    async def close(self) -> None:
        """Close all connections, and wait until they are closed."""
        if self._open:
            self._closing = asyncio.get_running_loop().create_future()
            for connection in list(self._open):
                connection.close()
            await self._closing

    async def _connect(self, route: Route, session: SSLSession | None) -> Connection:
        """Connect to a server, through a tunnel if there is a proxy and TLS."""
        origin, proxy = route.origin, route.proxy
        if proxy is None:
            return await self._reach(origin, route, session)
        connection = await self._reach(proxy.server, route, None)
        if origin.scheme == "https":
            await self._open_tunnel(connection, origin, proxy, session)
        return connection

    async def _reach(self, server: Origin, route: Route, session: SSLSession | None) -> Connection:
        """Connect to the first address of a server that accepts."""
        check = self._guard.check if route.proxy is None else lambda _: None
        addresses = await self._addresses(server)
        if len(addresses) == 1 and route.bind is None:
            host, port = addresses[0][4][:2]
            check(host)
            # For a single address the event loop's own method takes a third of the time.
            return await self._start(server, route, session, host=host, port=port)
        factory = partial(_make_socket, check=check, bind=route.bind)
        while True:
            sock = await aiohappyeyeballs.start_connection(
                addresses, happy_eyeballs_delay=_NEXT_ADDRESS_S, socket_factory=factory
            )
            try:
                return await self._start(server, route, session, sock=sock)
            except OSError:
                # TLS may work at another address. A session is offered once.
                session = None
                aiohappyeyeballs.pop_addr_infos_interleave(addresses, 1)
                if not addresses:
                    raise

    async def _start(
        self, server: Origin, route: Route, session: SSLSession | None, **where: Any
    ) -> Connection:
        """Begin on a connected socket or at an address, with TLS if the scheme says so."""
        connection = Connection(self._open.add, partial(self._lost, route))
        try:
            await asyncio.get_running_loop().create_connection(lambda: connection, **where)
            if server.scheme == "https":
                await connection.start_tls(self._tls, server, session)
        except BaseException:
            connection.close()
            raise
        return connection

    async def _open_tunnel(
        self, connection: Connection, origin: Origin, proxy: Proxy, session: SSLSession | None
    ) -> None:
        """Have a proxy connect to a server, and begin TLS with the server."""
        try:
            status = await connection.open_tunnel(proxy.connect_request(origin))
            if not 200 <= status < 300:
                hint = " (it requires other credentials)" if status == 407 else ""
                raise DownloadFailedError(f"it responded with status {status}{hint}")
            await connection.start_tls(self._tls, origin, session)
        except BaseException as error:
            connection.close()
            if isinstance(error, DownloadFailedError):
                # Malformed, for one, would say that the host responded.
                raise ProxyFailed(
                    f"The proxy {proxy.server.authority} opened no tunnel to "
                    f"{origin.name}:{origin.port}: {error}"
                ) from error
            raise

    def _lost(self, route: Route, connection: Connection) -> None:
        self._open.discard(connection)
        self._closed(route, connection)
        tls = connection.tls
        if tls is not None and tls.server == route.origin:
            self._sessions.put(route, tls)
        if self._closing is not None and not self._open and not self._closing.done():
            self._closing.set_result(None)

    async def _addresses(self, server: Origin) -> list[AddressInfo]:
        return [
            (
                socket.AF_INET6 if ":" in address else socket.AF_INET,
                socket.SOCK_STREAM,
                socket.IPPROTO_TCP,
                "",
                (address, port, 0, 0) if ":" in address else (address, port),
            )
            for address, port in await self._resolver.resolve(server.host, server.port)
        ]


def _make_socket(
    info: AddressInfo, *, check: Callable[[str], None], bind: tuple[str, int] | None
) -> socket.socket:
    """Make the socket for an address, after the check of that address."""
    family, kind, protocol, _, target = info
    check(target[0])
    sock = socket.socket(family=family, type=kind, proto=protocol)
    try:
        sock.setblocking(False)
        if bind is not None:
            sock.bind(bind)
    except OSError:
        sock.close()
        raise
    return sock


def _text(route: Route, error: BaseException) -> str:
    origin, proxy = route.origin, route.proxy
    through = f" through the proxy {proxy.server.name}:{proxy.server.port}" if proxy else ""
    reason = error or type(error).__name__
    return f"Cannot connect to {origin.host}:{origin.port}{through}: {reason}"


# All connections receive into it, one after the other: what came is read before the event loop
# goes on.
_BUFFER = bytearray(256 * 1024)
_BUFFER_VIEW = memoryview(_BUFFER)
# Longest TLS handshake, as in asyncio: a fetch may have no time limit.
_HANDSHAKE_S = 60.0


class Connection(asyncio.BufferedProtocol):
    """Connection opened by the event loop; `made` and `lost` are called when it opens and ends."""

    def __init__(
        self, made: Callable[[Connection], None], lost: Callable[[Connection], None]
    ) -> None:
        self.is_open = False
        # Seconds for which the server waits for the next request, by its last response.
        self.listens_s = math.inf
        self.tls: TlsLayer | None = None
        self._made = made
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._address: IPv4Address | IPv6Address | None = None
        self._parser: ResponseParser | None = None
        # Bytes that came before the first request was sent.
        self._early = b""
        self._is_fresh = True

    async def exchange(self, request: bytes, receiver: Receiver, *, only_head: bool) -> bool:
        """Send a request and receive its response; return whether another request may follow.

        The connection is closed if this fails or is cancelled.
        """
        receiver.address, receiver.sent = self._address, request
        if self.tls is not None:
            receiver.certificate, receiver.tls = self.tls.certificate, self.tls.version
        early = self._early
        parser = await self._send(request, receiver, only_head=only_head)
        self.listens_s = parser.listens_s
        assert self._transport is not None
        # A server that responds before it has read the request may never read all of it.
        if early or not parser.keeps or self._transport.get_write_buffer_size():
            self.close()
        return self.is_open

    async def open_tunnel(self, request: bytes) -> int:
        """Send a CONNECT request to a proxy and return the status of its response."""
        status = _TunnelStatus()
        await self._send(request, status, only_head=True)
        # Through the tunnel this is a new connection to another server.
        self._is_fresh = True
        return status.value

    async def start_tls(
        self, context: SSLContext, server: Origin, session: SSLSession | None
    ) -> None:
        """Begin TLS with a server, inside that with a proxy if there is one; raises OSError."""
        if self._early:
            raise ssl.SSLError("the server does not speak TLS")
        if not self.is_open or self._transport is None:
            raise ConnectionResetError("the server closed the connection")
        outer = self.tls
        send = self._transport.write if outer is None else outer.write
        self.tls = TlsLayer(context, server, send, session=session, outer=outer)
        self.tls.begin()
        late = TimeoutError(f"the TLS handshake took longer than {_HANDSHAKE_S:g} seconds")
        deadline = asyncio.get_running_loop().call_later(_HANDSHAKE_S, self.tls.failed, late)
        try:
            await self.tls.ready
        finally:
            deadline.cancel()

    async def _send(
        self, request: bytes, receiver: ResponseReceiver, *, only_head: bool
    ) -> ResponseParser:
        transport = self._transport
        assert transport is not None
        parser = self._parser = ResponseParser(
            receiver, only_head=only_head, is_first=self._is_fresh
        )
        early, self._early, self._is_fresh = self._early, b"", False
        try:
            if self.is_open and not transport.is_closing():
                self._write(transport, request)
            if early:
                parser.feed(early)
            if not self.is_open:
                parser.closed(None)
            await parser.done
        except BaseException:
            self.close()
            raise
        finally:
            self._parser = None
            parser.leave()
        return parser

    def _write(self, transport: asyncio.Transport, request: bytes) -> None:
        if self.tls is None:
            transport.write(request)
            return
        try:
            self.tls.write(request)
        except ssl.SSLError as error:
            raise NoAnswer(f"The request cannot be sent: {error}") from error

    def close(self) -> None:
        """Close the connection at once, without sending what is still buffered."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    # --- called by the event loop ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast: uvloop's transports are not subclasses.
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True
        self._made(self)
        peer = transport.get_extra_info("peername")
        self._address = ip_address(peer[0].partition("%")[0]) if peer else None

    def get_buffer(self, sizehint: int) -> bytearray:
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        self._receive(_BUFFER_VIEW[:nbytes])

    def _receive(self, received: memoryview | bytes) -> None:
        tls = self.tls
        if tls is None:
            self._take(bytes(received))
            return
        data = tls.receive(received)
        if data:
            self._take(data)
        if tls.error is not None:
            # Its session must not be resumed.
            self.tls = None
            self.close()
            tls.failed(tls.error)
            if self._parser is not None:
                self._parser.closed(tls.error)
        elif tls.is_ended and self._transport is not None:
            self.eof_received()
            self._transport.close()

    def _take(self, data: bytes) -> None:
        if self._parser is not None:
            self._parser.feed(data)
            return
        self._early += data
        if not self._is_fresh or len(self._early) > MAX_BETWEEN_BYTES:
            self.close()

    def eof_received(self) -> None:
        # The transport closes soon; until then nobody may take this connection.
        if self._parser is None:
            self.is_open = False

    def connection_lost(self, exc: BaseException | None) -> None:
        self.is_open = False
        if exc is None and self.tls is not None and self.tls.is_inside_record:
            exc = ssl.SSLError(ssl.SSL_ERROR_EOF, "the connection ended inside a record")
        self._lost(self)
        if self.tls is not None:
            self.tls.failed(exc)
        if self._parser is not None:
            self._parser.closed(exc)
        transport: Any = self._transport
        if hasattr(transport, "_read_ready_cb"):
            # asyncio's transport refers to itself by this, and would stay in memory, some KB each,
            # until all objects are searched for garbage: once in 100,000 connections.
            transport._read_ready_cb = None  # noqa: SLF001


class _TunnelStatus:
    """Status of a proxy's response to CONNECT."""

    value = 0

    def head(self, status: int, version: str, headers: Headers, raw: bytes) -> bool:
        self.value = status
        return False

    def body(self, data: bytes) -> bool:
        return False
