"""Write a request as HTTP/1.1 sends it, and say which server it goes to. No I/O."""

from __future__ import annotations

import re
from base64 import b64encode
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from scrapy.exceptions import DownloadFailedError, UnsupportedURLSchemeError

if TYPE_CHECKING:
    from scrapy import Request

# Scheme, authority and what is asked for. A backslash would end the authority for browsers only.
_URL = re.compile(
    r"(https?)://([!\"$-.0->@-\[\]-~]+)((?:[/?][!-\"$-~]*)?)(?:#.*)?", re.IGNORECASE | re.DOTALL
)
_PORTS = {"http": 80, "https": 443}
_ORIGINS_MAX = 4096
# Of these a server expects no body, so that none needs no length.
_WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
# How long a body is, is told by us alone.
_FRAMING = frozenset({b"Host", b"Content-Length", b"Transfer-Encoding"})


class Origin(NamedTuple):
    """Where a URL's requests go, and how they name it."""

    scheme: str
    # Without brackets and a final dot.
    host: str
    port: int
    # The host with its brackets, if it has some.
    name: str
    # The line of the header Host, and of Authorization where the URL has a user.
    host_line: bytes
    user_line: bytes


class Written(NamedTuple):
    """A request as it is sent."""

    origin: Origin
    data: bytes
    # It does not ask the server to close the connection.
    keeps: bool


def write(request: Request) -> Written:
    """The bytes of a request; raises one of Scrapy's errors if it has none."""
    found = _URL.fullmatch(request.url)
    if found is None:
        raise UnsupportedURLSchemeError(f"{request.url!r} cannot be asked for by HTTP")
    scheme, authority, target = found.groups()
    try:
        origin = _origin(scheme.lower(), authority)
    except ValueError as error:
        raise UnsupportedURLSchemeError(f"{request.url!r} names no host: {error}") from error
    if not target.startswith("/"):
        target = f"/{target}"
    headers, body = request.headers, request.body
    # As they are kept: Scrapy's own way of reading headers makes each name anew.
    hosts: list[bytes] = dict.get(headers, b"Host") or []
    lines = [
        f"{request.method} {target} HTTP/1.1\r\n".encode(),
        b"Host: %b\r\n" % hosts[-1] if hosts else origin.host_line,
    ]
    for name, values in dict.items(headers):
        if name not in _FRAMING:
            lines += [b"%b: %b\r\n" % (name, value) for value in values]
    if origin.user_line and b"Authorization" not in headers:
        lines.append(origin.user_line)
    if body or request.method not in _WITHOUT_BODY:
        lines.append(b"Content-Length: %d\r\n" % len(body))
    head = b"".join(lines)
    if not (head.count(b"\n") == head.count(b"\r") == len(lines)) or b"\0" in head:
        raise DownloadFailedError(
            f"{request.url}: a header, or the method, has a line break or a zero byte in it"
        )
    keeps = not any(b"close" in value.lower() for value in dict.get(headers, b"Connection") or ())
    return Written(origin, b"%b\r\n%b" % (head, body), keeps)


@lru_cache(_ORIGINS_MAX)
def _origin(scheme: str, authority: str) -> Origin:
    parts = urlsplit(f"{scheme}://{authority}/")
    host, port = (parts.hostname or "").removesuffix("."), parts.port
    if not host:
        raise ValueError("there is none")
    name = f"[{host}]" if ":" in host else host
    usual = _PORTS[scheme]
    port = usual if port is None else port
    host_line = f"Host: {name}\r\n" if port == usual else f"Host: {name}:{port}\r\n"
    user_line = b""
    if parts.username or parts.password:
        user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        user_line = b"Authorization: Basic %b\r\n" % b64encode(user.encode())
    return Origin(scheme, host, port, name, host_line.encode(), user_line)
