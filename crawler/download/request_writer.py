"""Write a request as HTTP/1.1 sends it, and find out which server and proxy it goes to. No I/O."""

from __future__ import annotations

import re
from base64 import b64encode
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from scrapy.exceptions import DownloadFailedError, UnsupportedURLSchemeError
from scrapy.utils.url import add_http_if_no_scheme

from crawler.download.errors import ProxyFailed

if TYPE_CHECKING:
    from scrapy import Request

# Scheme, authority and target. Only browsers end the authority at a backslash, so it is refused.
_URL = re.compile(
    r"(https?)://([!\"$-.0->@-\[\]-~]+)((?:[/?][!-\"$-~]*)?)(?:#.*)?", re.IGNORECASE | re.DOTALL
)
_PORTS = {"http": 80, "https": 443}
_ORIGINS_MAX = 4096
# Servers expect no body with these methods, so an empty one needs no Content-Length.
_WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
# Written by us alone: a wrong one could begin a second request in the body.
_FRAMING = frozenset({b"Host", b"Content-Length", b"Transfer-Encoding"})
_PROXY_AUTHORIZATION = b"Proxy-Authorization"


class Origin(NamedTuple):
    """Server that the requests of a URL go to."""

    scheme: str
    # Without brackets and a final dot.
    host: str
    port: int
    # The host, in brackets if it is an IPv6 address.
    name: str
    # The value of the header Host.
    authority: str
    # The value of Authorization if the URL has a user, else empty.
    credentials: bytes


class Proxy(NamedTuple):
    """Proxy that a request goes through."""

    server: Origin
    # The value of Proxy-Authorization, or empty.
    credentials: bytes

    def connect_request(self, origin: Origin) -> bytes:
        """Write the request for a tunnel to a server."""
        target = f"{origin.name}:{origin.port}".encode()
        lines = [b"CONNECT %b HTTP/1.1\r\n" % target, b"Host: %b\r\n" % target]
        return _head([*lines, *_proxy_lines(self)], "CONNECT") + b"\r\n"


class Written(NamedTuple):
    """Request as it is sent."""

    origin: Origin
    proxy: Proxy | None
    data: bytes
    # False if the request asks the server to close the connection.
    keeps: bool


def write(request: Request) -> Written:
    """Write a request; raises one of Scrapy's errors if it cannot be sent."""
    found = _URL.fullmatch(request.url)
    if found is None:
        raise UnsupportedURLSchemeError(f"{request.url!r} is not a valid http or https URL")
    scheme, authority, target = found.groups()
    try:
        origin = _origin(scheme.lower(), authority)
    except ValueError as error:
        raise UnsupportedURLSchemeError(f"{request.url!r} has no valid host: {error}") from error
    if not target.startswith("/"):
        target = f"/{target}"
    headers, body = request.headers, request.body
    proxy, left_out = None, _FRAMING
    if address := request.meta.get("proxy"):
        proxy, left_out = _proxy(request, address), _FRAMING | {_PROXY_AUTHORIZATION}
        if origin.scheme == "http":
            target = f"http://{origin.authority}{target}"
    # dict.get and dict.items: Scrapy's own methods build each name and value anew.
    hosts: list[bytes] = dict.get(headers, b"Host") or [origin.authority.encode()]
    lines = [
        f"{request.method} {target} HTTP/1.1\r\n".encode(),
        b"Host: %b\r\n" % hosts[-1],
    ]
    for name, values in dict.items(headers):
        if name not in left_out:
            lines += [b"%b: %b\r\n" % (name, value) for value in values]
    if origin.credentials and b"Authorization" not in headers:
        lines.append(b"Authorization: %b\r\n" % origin.credentials)
    if proxy is not None and origin.scheme == "http":
        # The server behind a tunnel must not see the credentials: there CONNECT has them.
        lines += _proxy_lines(proxy)
    if body or request.method not in _WITHOUT_BODY:
        lines.append(b"Content-Length: %d\r\n" % len(body))
    head = _head(lines, request.url)
    keeps = not any(b"close" in value.lower() for value in dict.get(headers, b"Connection") or ())
    return Written(origin, proxy, b"%b\r\n%b" % (head, body), keeps)


def _head(lines: list[bytes], what: str) -> bytes:
    """Join the lines of a head; none may contain another line."""
    head = b"".join(lines)
    if not (head.count(b"\n") == head.count(b"\r") == len(lines)) or b"\0" in head:
        raise DownloadFailedError(
            f"{what}: a header, or the method, has a line break or a zero byte in it"
        )
    return head


def _proxy(request: Request, address: str) -> Proxy:
    found = _URL.fullmatch(add_http_if_no_scheme(address))
    try:
        if found is None:
            raise ValueError("write http://host:port or https://host:port")
        server = _origin(found[1].lower(), found[2])
    except ValueError as error:
        # Without what may be credentials.
        place = address.rpartition("@")[2]
        raise ProxyFailed(f"The proxy {place!r} cannot be used: {error}") from error
    given: list[bytes] | None = dict.get(request.headers, _PROXY_AUTHORIZATION)
    return Proxy(server, given[-1] if given else server.credentials)


def _proxy_lines(proxy: Proxy) -> list[bytes]:
    if not proxy.credentials:
        return []
    return [b"%b: %b\r\n" % (_PROXY_AUTHORIZATION, proxy.credentials)]


@lru_cache(_ORIGINS_MAX)
def _origin(scheme: str, authority: str) -> Origin:
    parts = urlsplit(f"{scheme}://{authority}/")
    host, port = (parts.hostname or "").removesuffix("."), parts.port
    if not host:
        raise ValueError("the host is missing")
    name = f"[{host}]" if ":" in host else host
    usual = _PORTS[scheme]
    port = usual if port is None else port
    credentials = b""
    if parts.username or parts.password:
        user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        credentials = b"Basic %b" % b64encode(user.encode())
    return Origin(
        scheme, host, port, name, name if port == usual else f"{name}:{port}", credentials
    )
