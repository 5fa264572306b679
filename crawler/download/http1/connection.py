"""One connection to a server, and the exchanges over it, one at a time.

It is used again only if the last answer ended where it should; whatever else happens closes it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING, cast

from crawler.download.http1.response_parser import MAX_BETWEEN_BYTES, ResponseParser

if TYPE_CHECKING:
    from ssl import SSLObject

    from crawler.download.receiver import Receiver


class Connection(asyncio.Protocol):
    """Opened by the event loop; `made` and `lost` are called when it is open, and closed."""

    def __init__(
        self, made: Callable[[Connection], None], lost: Callable[[Connection], None]
    ) -> None:
        self.is_open = False
        # How long the server waits for the next request, as it said with its last answer.
        self.listens_s = math.inf
        self._made = made
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._address: IPv4Address | IPv6Address | None = None
        self._certificate: bytes | None = None
        self._answer: ResponseParser | None = None
        # What a server says before it is asked for the first time.
        self._early = b""
        self._is_fresh = True

    async def exchange(self, request: bytes, receiver: Receiver, *, only_head: bool) -> bool:
        """Send a request and take its answer; whether another request may follow.

        If it fails, or is cancelled, the connection is closed.
        """
        transport = self._transport
        assert transport is not None
        receiver.address, receiver.certificate = self._address, self._certificate
        answer = self._answer = ResponseParser(
            receiver, only_head=only_head, is_first=self._is_fresh
        )
        early, self._is_fresh = self._early, False
        try:
            if self.is_open and not transport.is_closing():
                transport.write(request)
            if early:
                answer.feed(early)
            if not self.is_open:
                answer.closed(None)
            await answer.done
        except BaseException:
            self.close()
            raise
        finally:
            self._answer = None
            answer.leave()
        self.listens_s = answer.listens_s
        # A server that answers before it has read the request may not have read it to its end.
        if early or not answer.keeps or transport.get_write_buffer_size():
            self.close()
        return self.is_open

    def close(self) -> None:
        """At once: what still waits to be sent is of use to nobody."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    # --- called by the event loop ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's are no subclass.
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True
        self._made(self)
        peer = transport.get_extra_info("peername")
        self._address = ip_address(peer[0].partition("%")[0]) if peer else None
        tls: SSLObject | None = transport.get_extra_info("ssl_object")
        self._certificate = tls.getpeercert(binary_form=True) if tls else None

    def data_received(self, data: bytes) -> None:
        if self._answer is not None:
            self._answer.feed(data)
            return
        self._early += data
        if not self._is_fresh or len(self._early) > MAX_BETWEEN_BYTES:
            self.close()

    def eof_received(self) -> None:
        # The transport is about to close; until it has, nobody should take this one.
        if self._answer is None:
            self.is_open = False

    def connection_lost(self, exc: BaseException | None) -> None:
        self.is_open = False
        self._lost(self)
        if self._answer is not None:
            self._answer.closed(exc)
