"""TLS inside a connection: between its bytes and those of HTTP, and sessions to resume. No I/O.

    TlsLayer     turns what a connection receives into the bytes of HTTP, and back
    TlsSessions  what is left of closed connections, so that the next handshake is shorter

The event loop's own TLS has a buffer of 256 KB for each connection, and cannot resume a session.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import Callable, Hashable
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ssl import SSLContext, SSLObject, SSLSession

    from crawler.download.request_writer import Origin

# A record of TLS begins with its type, its version and the length of the rest.
_HEADER_BYTES = 5
# Most bytes of HTTP in a record.
_RECORD_BYTES = 16 * 1024


class TlsLayer:
    """TLS with one server; `ready` has a result when the handshake is finished, or an error.

    What is to be sent goes to `send`. A layer inside a tunnel gets its bytes from the `outer` one,
    which is that with the proxy.
    """

    def __init__(
        self,
        context: SSLContext,
        server: Origin,
        send: Callable[[bytes], None],
        *,
        session: SSLSession | None = None,
        outer: TlsLayer | None = None,
    ) -> None:
        self.server = server
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # As "TLSv1.3"; empty before the end of the handshake.
        self.version = ""
        # The server said that it sends no more.
        self.is_ended = False
        # Why nothing that comes can be read any more.
        self.error: ssl.SSLError | None = None
        # Bytes of the handshake, and of later records without HTTP: certificates and tickets.
        self.overhead_bytes = 0
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.ssl_object = context.wrap_bio(
            self._incoming, self._outgoing, server_hostname=server.host, session=session
        )
        self._send = send
        self._outer = outer
        self._has_written = False
        # Bytes of the record that is received, those that are missing of it, and the begin of its
        # header.
        self._record = self._missing = 0
        self._header = b""

    @property
    def certificate(self) -> bytes | None:
        return self.ssl_object.getpeercert(binary_form=True)

    @property
    def is_inside_record(self) -> bool:
        """Whether a connection that ends now was cut."""
        outer = self._outer
        return bool(self._missing or self._header) or (outer is not None and outer.is_inside_record)

    def begin(self) -> None:
        """Send the first message of the handshake."""
        try:
            self._shake_hands()
        except ssl.SSLError as error:
            self.failed(error)

    def write(self, data: bytes) -> None:
        """Send bytes of HTTP."""
        rest = memoryview(data)
        while rest:
            rest = rest[self.ssl_object.write(rest) :]
        self._has_written = True
        self._flush()

    def receive(self, data: memoryview | bytes) -> bytes:
        """Take bytes of the connection, and return those of HTTP up to the end or an error.

        OpenSSL gets one record at a time: its buffer never shrinks, and asking it for a record
        that is not whole takes longer than reading one.
        """
        outer = self._outer
        if outer is not None:
            data = outer.receive(data)
        if self._header:
            data, self._header = b"".join((self._header, data)), b""
        parts: list[bytes] = []
        at, end = 0, len(data)
        try:
            while at < end:
                if not self._missing:
                    if end - at < _HEADER_BYTES:
                        self._header = bytes(data[at:])
                        break
                    self._record = _HEADER_BYTES + (data[at + 3] << 8 | data[at + 4])
                    self._missing = self._record
                part = data[at : at + self._missing]
                self._incoming.write(part)
                at += len(part)
                self._missing -= len(part)
                if self.version and not self._missing:
                    self._read(parts)
            if not self.version:
                self._receive_handshake(end, parts)
            if self._has_written:
                self._flush()
        except ssl.SSLError as error:
            self.error = error
        if self.is_ended:
            # Whatever follows the end is ignored.
            self._missing, self._header = 0, b""
        if outer is not None:
            self.is_ended = self.is_ended or outer.is_ended
            self.error = self.error or outer.error
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def failed(self, error: BaseException | None) -> None:
        """End a handshake that cannot be finished."""
        if not self.ready.done():
            self.ready.set_exception(error or ConnectionResetError("the server closed it"))

    def _shake_hands(self) -> bool:
        """Go on with the handshake; return whether it is finished."""
        try:
            self.ssl_object.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        # Its last message goes out with the first request.
        self.version = self.ssl_object.version() or ""
        if not self.ready.done():
            self.ready.set_result(None)
        return True

    def _receive_handshake(self, size: int, parts: list[bytes]) -> None:
        """Go on with the handshake, and read the records that came with its end."""
        self.overhead_bytes += size
        if self._shake_hands():
            while self._incoming.pending and not self.is_ended:
                self._read(parts)

    def _read(self, parts: list[bytes]) -> None:
        """Read the next record, which may have nothing for HTTP in it."""
        try:
            part = self.ssl_object.read(_RECORD_BYTES)
        except ssl.SSLWantReadError:
            self.overhead_bytes += self._record
            return
        if part:
            parts.append(part)
        else:
            self.is_ended = True

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._send(self._outgoing.read())


# Servers whose last session is kept, for how long, and the bytes of certificates and tickets up to
# which it is: a session takes 50 KB of memory, and servers accept it for minutes or hours.
_SERVERS_MAX = 512
_LIFETIME_S = 7200
_OVERHEAD_MAX_BYTES = 32 * 1024


class TlsSessions:
    """Last session by server; that of the connection which was closed longest ago leaves first.

    A session is taken out when it is used: a ticket is for one connection (RFC 8446, C.4), and one
    that a server cannot use is not offered again. What is kept is the state of the connection:
    to copy its session takes a quarter of a handshake's time, and many servers are not met again.
    """

    def __init__(self) -> None:
        # With the time at which the connection was closed.
        self._closed: OrderedDict[Hashable, tuple[SSLObject, float]] = OrderedDict()

    def take(self, server: Hashable) -> SSLSession | None:
        """Return the session for the next connection to a server."""
        closed = self._closed.pop(server, None)
        session = None if closed is None else closed[0].session
        # One without a ticket or an id cannot be resumed.
        return session if session is not None and (session.has_ticket or session.id) else None

    def put(self, server: Hashable, layer: TlsLayer) -> None:
        """Keep what is left of a connection that was closed."""
        if layer.version and layer.overhead_bytes <= _OVERHEAD_MAX_BYTES:
            now = monotonic()
            self._closed[server] = layer.ssl_object, now
            self._closed.move_to_end(server)
            if len(self._closed) > _SERVERS_MAX:
                self._closed.popitem(last=False)
            while next(iter(self._closed.values()))[1] < now - _LIFETIME_S:
                self._closed.popitem(last=False)
