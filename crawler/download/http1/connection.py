"""One connection to a server, and the exchanges over it, one at a time.

A connection is reused only if the last response ended where it should. Anything else closes it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING, cast

from crawler.download.http1.response_parser import MAX_BETWEEN_BYTES, ResponseParser

if TYPE_CHECKING:
    from ssl import SSLContext, SSLObject

    from scrapy.http import Headers

    from crawler.download.http1.response_parser import ResponseReceiver
    from crawler.download.receiver import Receiver


class Connection(asyncio.Protocol):
    """Connection opened by the event loop; `made` and `lost` are called when it opens and ends."""

    def __init__(
        self, made: Callable[[Connection], None], lost: Callable[[Connection], None]
    ) -> None:
        self.is_open = False
        # Seconds for which the server waits for the next request, by its last response.
        self.listens_s = math.inf
        self._made = made
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._address: IPv4Address | IPv6Address | None = None
        self._certificate: bytes | None = None
        self._parser: ResponseParser | None = None
        # Bytes that came before the first request was sent.
        self._early = b""
        self._is_fresh = True

    async def exchange(self, request: bytes, receiver: Receiver, *, only_head: bool) -> bool:
        """Send a request and receive its response; return whether another request may follow.

        The connection is closed if this fails or is cancelled.
        """
        receiver.address, receiver.certificate = self._address, self._certificate
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

    async def start_tls(self, context: SSLContext, host: str) -> None:
        """Begin TLS with the server at the end of the tunnel; raises OSError."""
        if not self.is_open or self._transport is None:
            # asyncio would wait for a handshake that cannot begin.
            raise ConnectionResetError("the proxy closed the connection")
        transport = await asyncio.get_running_loop().start_tls(
            self._transport, self, context, server_hostname=host
        )
        if transport is None:
            raise ConnectionResetError("the proxy closed the connection")
        self.connection_made(transport)

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
                transport.write(request)
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
        tls: SSLObject | None = transport.get_extra_info("ssl_object")
        self._certificate = tls.getpeercert(binary_form=True) if tls else None

    def data_received(self, data: bytes) -> None:
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
        self._lost(self)
        if self._parser is not None:
            self._parser.closed(exc)


class _TunnelStatus:
    """Status of a proxy's response to CONNECT."""

    value = 0

    def head(self, status: int, version: str, headers: Headers) -> bool:
        self.value = status
        return False

    def body(self, data: bytes) -> bool:
        return False
