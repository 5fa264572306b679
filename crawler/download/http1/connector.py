"""Open connections: the addresses of a host in turn, each checked first; through a proxy if asked.

The addresses of a proxy are not checked: it is the user's choice, and may be in a private network.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import aiohappyeyeballs
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
)

from crawler.dns.resolver import Resolver
from crawler.download.address_guard import Guard, RefusedAddress
from crawler.download.http1.connection import Connection
from crawler.download.http1.pool import Route
from crawler.download.http1.request_writer import Origin, Proxy
from crawler.util.file_limit import OutOfSockets, is_shortage

# Seconds after which the next address of a host is tried beside the one before (RFC 8305).
_NEXT_ADDRESS_S = 0.25
AddressInfo = tuple[int, int, int, str, Any]


class Connector:
    """Opener of connections; `close` closes all that are open."""

    def __init__(
        self, resolver: Resolver, guard: Guard, make_tls: Callable[[], ssl.SSLContext]
    ) -> None:
        self._resolver = resolver
        self._guard = guard
        self._make_tls = make_tls
        self._open: set[Connection] = set()
        self._closing: asyncio.Future[None] | None = None

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return self._make_tls()

    async def connect(self, route: Route) -> Connection:
        """Open a connection; raises one of Scrapy's errors, or RefusedAddress."""
        origin, proxy = route.origin, route.proxy
        try:
            if origin.scheme == "https":
                # Find a name that TLS cannot send before a socket is open.
                origin.host.encode("idna")
            connection = await self._connect(proxy.server if proxy else origin, route)
            if proxy is not None and origin.scheme == "https":
                await self._open_tunnel(connection, origin, proxy)
        except RefusedAddress:
            raise
        except CannotResolveHostError as error:
            if proxy is None:
                raise
            # Not the host's fault: its name was not looked up.
            raise DownloadConnectionRefusedError(_text(route, error)) from error
        except (ssl.SSLError, ValueError) as error:
            raise DownloadFailedError(_text(route, error)) from error
        except (OSError, RuntimeError) as error:
            kind = OutOfSockets if is_shortage(error) else DownloadConnectionRefusedError
            raise kind(_text(route, error)) from error
        return connection

    async def close(self) -> None:
        """Close all connections, and wait until they are closed."""
        if self._open:
            self._closing = asyncio.get_running_loop().create_future()
            for connection in list(self._open):
                connection.close()
            await self._closing

    async def _connect(self, server: Origin, route: Route) -> Connection:
        """Connect to the first address of a server that accepts."""
        check = self._guard.check if route.proxy is None else lambda _: None
        addresses = await self._addresses(server)
        if len(addresses) == 1 and route.bind is None:
            host, port = addresses[0][4][:2]
            check(host)
            # For a single address the event loop's own method takes a third of the time.
            return await self._start(server, host=host, port=port)
        factory = partial(_make_socket, check=check, bind=route.bind)
        while True:
            sock = await aiohappyeyeballs.start_connection(
                addresses, happy_eyeballs_delay=_NEXT_ADDRESS_S, socket_factory=factory
            )
            try:
                return await self._start(server, sock=sock)
            except OSError:
                # TLS may work at another address.
                aiohappyeyeballs.pop_addr_infos_interleave(addresses, 1)
                if not addresses:
                    raise

    async def _start(self, server: Origin, **where: Any) -> Connection:
        """Begin on a connected socket or at an address, with TLS if the scheme says so."""
        is_secure = server.scheme == "https"
        connection = Connection(self._open.add, self._lost)
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: connection,
                ssl=self._tls if is_secure else None,
                server_hostname=server.host if is_secure else None,
                **where,
            )
        except BaseException:
            connection.close()
            raise
        return connection

    async def _open_tunnel(self, connection: Connection, origin: Origin, proxy: Proxy) -> None:
        """Have a proxy connect to a server, and begin TLS with the server."""
        try:
            status = await connection.open_tunnel(proxy.connect_request(origin))
            if not 200 <= status < 300:
                hint = " (it requires other credentials)" if status == 407 else ""
                raise DownloadFailedError(f"it responded with status {status}{hint}")
            await connection.start_tls(self._tls, origin.host)
        except BaseException as error:
            connection.close()
            # The event loop does not report connections that end during the handshake.
            self._lost(connection)
            if isinstance(error, DownloadFailedError):
                # A plain failure: Malformed would say that the host responded.
                raise DownloadFailedError(
                    f"The proxy {proxy.server.authority} opened no tunnel to "
                    f"{origin.name}:{origin.port}: {error}"
                ) from error
            raise

    def _lost(self, connection: Connection) -> None:
        self._open.discard(connection)
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
