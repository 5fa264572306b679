"""Connect to a host: its addresses in turn, each judged before it is connected to."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import cached_property, partial
from ipaddress import ip_address
from typing import Any

import aiohappyeyeballs
from scrapy.exceptions import DownloadConnectionRefusedError, DownloadFailedError

from crawler.dns.resolver import Resolver
from crawler.download.address_guard import Guard, RefusedAddress
from crawler.download.http1.connection import Connection
from crawler.download.http1.pool import BindAddress, Route
from crawler.util.file_limit import OutOfSockets, is_shortage

# Seconds after which the next address of a host is tried beside the one before (RFC 8305).
_NEXT_ADDRESS_S = 0.25
AddressInfo = tuple[int, int, int, str, Any]


class Connector:
    """Opens connections; all that are open can be closed together."""

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
        """A new connection, or one of Scrapy's errors, or RefusedAddress."""
        origin = route.origin
        addresses = await self._addresses(origin.host, origin.port)
        try:
            if origin.scheme == "https":
                # A name that TLS cannot send: asyncio would find out with the socket open.
                origin.host.encode("idna")
            if len(addresses) == 1 and route.bind is None:
                host, port = addresses[0][4][:2]
                self._guard.check(host)
                # The event loop's own way takes a third of the time.
                return await self._start(route, host=host, port=port)
            return await self._try(route, addresses)
        except RefusedAddress:
            raise
        except (ssl.SSLError, ValueError) as error:
            raise DownloadFailedError(_text(route, error)) from error
        except (OSError, RuntimeError) as error:
            kind = OutOfSockets if is_shortage(error) else DownloadConnectionRefusedError
            raise kind(_text(route, error)) from error

    async def close(self) -> None:
        """Close what is open, and wait until it is."""
        if self._open:
            self._closing = asyncio.get_running_loop().create_future()
            for connection in list(self._open):
                connection.close()
            await self._closing

    async def _try(self, route: Route, addresses: list[AddressInfo]) -> Connection:
        """The first of these addresses that can be connected to."""
        factory = partial(self._socket, bind=route.bind)
        while True:
            sock = await aiohappyeyeballs.start_connection(
                addresses, happy_eyeballs_delay=_NEXT_ADDRESS_S, socket_factory=factory
            )
            try:
                return await self._start(route, sock=sock)
            except OSError:
                # Another one may know better how to speak TLS.
                aiohappyeyeballs.pop_addr_infos_interleave(addresses, 1)
                if not addresses:
                    raise

    async def _start(self, route: Route, **where: Any) -> Connection:
        """The connection over a connected socket or to an address, TLS included."""
        is_secure = route.origin.scheme == "https"
        connection = Connection(self._open.add, self._lost)
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: connection,
                ssl=self._tls if is_secure else None,
                server_hostname=route.origin.host if is_secure else None,
                **where,
            )
        except BaseException:
            connection.close()
            raise
        return connection

    def _lost(self, connection: Connection) -> None:
        self._open.discard(connection)
        if self._closing is not None and not self._open and not self._closing.done():
            self._closing.set_result(None)

    async def _addresses(self, host: str, port: int) -> list[AddressInfo]:
        try:
            ip_address(host)
        except ValueError:
            found = [
                (known["family"], known["host"], known["port"])
                for known in await self._resolver.resolve(host, port)
            ]
        else:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            found = [(family, host, port)]
        return [
            (family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", _target(family, address, port))
            for family, address, port in found
        ]

    def _socket(self, address: AddressInfo, *, bind: BindAddress | None) -> socket.socket:
        """Asked for before each address that is connected to: the place to judge it."""
        family, kind, protocol, _, target = address
        self._guard.check(target[0])
        sock = socket.socket(family=family, type=kind, proto=protocol)
        try:
            sock.setblocking(False)
            if bind is not None:
                sock.bind(bind)
        except OSError:
            sock.close()
            raise
        return sock


def _target(family: int, address: str, port: int) -> tuple[Any, ...]:
    return (address, port, 0, 0) if family == socket.AF_INET6 else (address, port)


def _text(route: Route, error: BaseException) -> str:
    origin = route.origin
    return f"Cannot connect to {origin.host}:{origin.port}: {error or type(error).__name__}"
