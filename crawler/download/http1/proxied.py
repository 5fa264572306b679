"""Fetch through proxies, by aiohttp: plain ones, and tunnels for https. Its own few connections."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from contextvars import ContextVar
from functools import cached_property
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import aiohttp
import yarl
from aiohttp.http_exceptions import ContentLengthError
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    UnsupportedURLSchemeError,
)
from scrapy.http import Headers
from scrapy.utils.url import add_http_if_no_scheme

from crawler.dns.resolver import Resolver
from crawler.download.errors import Malformed, StoppedTooLong
from crawler.download.http1.pool import BindAddress
from crawler.download.http1.response_parser import MAX_HEADER_BYTES, MAX_HEADERS, Truncated
from crawler.download.receiver import Receiver
from crawler.util.file_limit import OutOfSockets, is_shortage

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.client_reqrep import ConnectionKey
    from aiohttp.connector import Connection
    from scrapy import Request

_PROXY_AUTHORIZATION = "Proxy-Authorization"
# The local address of the connection that the running task's fetch makes.
BIND: ContextVar[BindAddress | None] = ContextVar("bind", default=None)
# Asked when that connection is there, before anything is sent.
MAY_SEND: ContextVar[Callable[[], bool] | None] = ContextVar("may_send", default=None)


class ProxiedResponse(aiohttp.ClientResponse):
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


class ProxyConnector(aiohttp.TCPConnector):
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


class Proxied:
    """Fetches whose proxy looks up and connects to whom they ask for. Nothing is judged here."""

    def __init__(
        self,
        resolver: Resolver,
        make_tls: Callable[[], ssl.SSLContext],
        *,
        hosts_max: int,
        keep_s: float,
    ) -> None:
        self._resolver = resolver
        self._make_tls = make_tls
        self._hosts_max = hosts_max
        self._keep_s = keep_s
        # By the local address of the connection; grows with the addresses that requests name.
        self._tls: dict[BindAddress | None, ssl.SSLContext] = {}

    @cached_property
    def session(self) -> aiohttp.ClientSession:
        """Made for the first fetch: most crawls have no proxy."""
        session = aiohttp.ClientSession(
            connector=ProxyConnector(
                max_idle=self._hosts_max,
                resolver=self._resolver,
                use_dns_cache=False,
                # As many as there are fetches, which the client bounds.
                limit=0,
                keepalive_timeout=self._keep_s,
                socket_factory=_socket,
            ),
            response_class=ProxiedResponse,
            # The whole fetch has a limit, set by its caller.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            max_headers=MAX_HEADERS,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        )
        # aiohttp would repeat PUT and DELETE too when a kept connection breaks; when a host is
        # contacted again is the frontier's decision.
        session._retry_connection = False  # noqa: SLF001 - there is no public switch
        return session

    async def fetch(
        self,
        request: Request,
        proxy: str,
        receiver: Receiver,
        *,
        bind: BindAddress | None,
        may_send: Callable[[], bool] | None,
    ) -> None:
        """Take the answer of a proxy; raises one of Scrapy's errors, or Truncated."""
        BIND.set(bind)
        MAY_SEND.set(may_send)
        try:
            async with self.session.request(
                request.method, **self._arguments(request, proxy, bind)
            ) as answer:
                assert isinstance(answer, ProxiedResponse)
                await _take(answer, receiver)
        except aiohttp.ClientConnectorDNSError as error:
            raise CannotResolveHostError(str(error)) from error
        except aiohttp.ClientSSLError as error:
            raise DownloadFailedError(str(error)) from error
        except aiohttp.ClientConnectorError as error:
            kind = OutOfSockets if is_shortage(error) else DownloadConnectionRefusedError
            raise kind(str(error)) from error
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            raise UnsupportedURLSchemeError(str(error)) from error
        except aiohttp.ClientResponseError as error:
            # A proxy that makes no tunnel says nothing about the host.
            is_of_proxy = isinstance(error, aiohttp.ClientHttpProxyError)
            raise (DownloadFailedError if is_of_proxy else Malformed)(str(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise DownloadFailedError(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        if "session" in self.__dict__:
            await self.session.close()

    def _arguments(self, request: Request, proxy: str, bind: BindAddress | None) -> dict[str, Any]:
        """The request for aiohttp."""
        # The context is a part of the pool's key, so a connection from another local address is
        # never used again for this one.
        if bind not in self._tls:
            self._tls[bind] = self._make_tls()
        url = yarl.URL(request.url, encoded=True)
        # aiohttp writes UTF-8 and nothing else.
        headers = [
            (name.decode("latin-1"), value.decode("utf-8", "replace"))
            for name, values in request.headers.items()
            for value in values
        ]
        arguments: dict[str, Any] = {
            "url": url,
            "proxy": add_http_if_no_scheme(proxy),
            "data": request.body or None,
            "headers": headers,
            "allow_redirects": False,
            "ssl": self._tls[bind],
        }
        if url.scheme == "https":
            # For the proxy alone: the server behind the tunnel must not see it.
            secret = [field for field in headers if field[0] == _PROXY_AUTHORIZATION]
            arguments["headers"] = [field for field in headers if field not in secret]
            arguments["proxy_headers"] = dict(secret)
        return arguments


async def _take(answer: ProxiedResponse, receiver: Receiver) -> None:
    version = answer.version
    receiver.address = ip_address(answer.peer.partition("%")[0]) if answer.peer else None
    receiver.certificate = answer.tls.getpeercert(binary_form=True) if answer.tls else None
    # As bytes: they need not be text in any encoding.
    headers = Headers(list(answer.raw_headers))
    wants = receiver.head(
        answer.status, f"{version.major}.{version.minor}" if version else "", headers
    )
    try:
        while wants and not answer.content.at_eof():
            wants = receiver.body(await answer.content.readany())
    except (aiohttp.ClientPayloadError, aiohttp.http.HttpProcessingError) as error:
        raise Truncated(str(error), _cause(error)) from error


def _cause(error: Exception) -> str:
    """In what way a body did not end as it should."""
    reason = error.__cause__ or error
    if isinstance(reason, ContentLengthError):
        return Truncated.LENGTH
    is_framing = isinstance(reason, aiohttp.http.HttpProcessingError)
    return Truncated.CHUNKS if is_framing else Truncated.RESET


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """A proxy is the user's own choice of address, so it is not judged."""
    family, kind, protocol, _, _ = address
    sock = socket.socket(family=family, type=kind, proto=protocol)
    try:
        sock.setblocking(False)
        if (bind := BIND.get()) is not None:
            sock.bind(bind)
    except OSError:
        sock.close()
        raise
    return sock
