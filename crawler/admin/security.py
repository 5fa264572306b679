"""The bearer token, and the checks that every request has to pass: host, token, size of the body.

The checks are an ASGI middleware around the application, so that no route can be forgotten. The
token is the user's own, or is created at the first start and kept in a private file.
"""

import hmac
import ipaddress
import logging
import os
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crawler.admin.errors import problem
from crawler.errors import ConfigurationError
from crawler.servers.redis.connection import masked

audit_log = logging.getLogger("crawler.admin.audit")

MAX_BODY_BYTES = 1024 * 1024
_TOO_LARGE = f"A request has {MAX_BODY_BYTES:,} bytes at the most; send several."
# Characters of a path and query in the audit log.
_QUERY_SHOWN = 300
_READS = ("GET", "HEAD")
# Without token: /healthz only reports that the process is alive. The pages of the dashboard and of
# the API's description, and their files, contain no data; they ask for the token.
DOCS = "/docs"
_OPEN = ("/healthz", "/", DOCS)
STATIC = "/static/"

# Only our own files, nothing inline, no frames, no forms.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class SecurityMiddleware:
    """ASGI middleware that checks every request, and adds our headers to every response."""

    def __init__(self, app: ASGIApp, *, token: str, names: Iterable[str]) -> None:
        """`names` are the host names that requests may use, besides addresses and localhost."""
        self._app = app
        self._token = token.encode()
        self._names = {name.lower() for name in names} | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        status = size = 0

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                is_file = scope["path"].startswith(STATIC)
                headers.setdefault("Cache-Control", "no-cache" if is_file else "no-store")
            await send(message)

        async def received() -> Message:
            # A body that is sent in chunks has no length to check first.
            nonlocal size
            message = await receive()
            if message["type"] == "http.request":
                size += len(message.get("body", b""))
                if size > MAX_BODY_BYTES:
                    raise HTTPException(413, _TOO_LARGE)
            return message

        refusal = self._refusal(scope, Headers(scope=scope))
        try:
            if refusal is not None:
                await refusal(scope, receive, sent)
            else:
                await self._app(scope, received, sent)
        finally:
            # Also after an error: the request may have had a part of its effect.
            if scope["method"] not in _READS:
                _audit(scope, status)

    def _refusal(self, scope: Scope, headers: Headers) -> Any:
        if not self._is_known_name(headers.get("host", "")):
            return problem(
                421,
                "This server is not known by that name: use its address or localhost, or name it "
                "in ADMIN_HOSTS.",
            )
        if not _is_open(scope) and not self._has_token(headers):
            return problem(
                401,
                "Send the token as `Authorization: Bearer …`; it is in the file admin.token of "
                "CRAWL_DIR, or is your ADMIN_TOKEN.",
                headers={"WWW-Authenticate": "Bearer"},
            )
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or int(length) > MAX_BODY_BYTES:
            return problem(413, _TOO_LARGE)
        return None

    def _is_known_name(self, host: str) -> bool:
        """Accept known names and all addresses.

        Another site may point a name of its own at us, and let its pages call us by that name.
        """
        name = host.lower()
        if name.startswith("["):
            name = name[1:].partition("]")[0]
        else:
            name = name.partition(":")[0]
        if name in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _has_token(self, headers: Headers) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        # In constant time: the time must not reveal how much of a guess is right.
        is_right = hmac.compare_digest(token.strip().encode("utf-8", "replace"), self._token)
        return is_right and scheme.lower() == "bearer"


def _is_open(scope: Scope) -> bool:
    """Return whether a request needs no token."""
    if scope["method"] not in _READS:
        return False
    path = scope["path"]
    is_file = path.startswith(STATIC) and "/" not in path.removeprefix(STATIC)
    return is_file or path in _OPEN


def _audit(scope: Scope, status: int) -> None:
    """Log who changed what. The token is in no URL and no body."""
    client = scope.get("client")
    who = client[0] if client else "unknown"
    # Still quoted, as it was sent: no line break gets into the log.
    what = scope.get("raw_path", b"").decode("ascii", "backslashreplace")
    query = scope.get("query_string", b"").decode("ascii", "backslashreplace")
    if query:
        # Unquoted, to find the password of a URL in it; ascii() escapes control characters.
        what = f"{what}?{ascii(masked(unquote(query)))[1:-1]}"
    more = scope.get("state", {}).get("audit", "")
    audit_log.info("%s %s %s: %d %s", who, scope["method"], what[:_QUERY_SHOWN], status, more)


FILE = "admin.token"
_MIN_LENGTH = 16


def token_for(host: str, given: str | None, folder: Path) -> str:
    """Return the token of a server that binds to `host`, or raise ConfigurationError. Blocking.

    Beyond this machine the user has to choose the token: one that we create would open the crawl to
    a network without the user's decision.
    """
    if given:
        return _checked(given)
    if not is_loopback(host):
        raise ConfigurationError(
            f"The admin API would be open to the network ({host}) with a token that nobody set: "
            f"set ADMIN_TOKEN ({_MIN_LENGTH} characters or more), or bind it to 127.0.0.1."
        )
    return _stored_token(folder / FILE)


def is_loopback(host: str) -> bool:
    """Return whether only programs on this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _checked(token: str) -> str:
    if len(token) < _MIN_LENGTH or not all(33 <= ord(character) <= 126 for character in token):
        raise ConfigurationError(
            f"ADMIN_TOKEN has {len(token)} characters; give {_MIN_LENGTH} or more, letters, digits "
            "and signs without blanks."
        )
    return token


def _stored_token(path: Path) -> str:
    try:
        with suppress(FileNotFoundError):
            return _read(path)
        _create(path)
        return _read(path)
    except OSError as error:
        raise ConfigurationError(
            f"The admin API's token cannot be kept in {path} ({error.strerror or error}): make the "
            "folder writable, or set ADMIN_TOKEN."
        ) from error


def _read(path: Path) -> str:
    # Not through a symbolic link, which others may have put there.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, encoding="ascii", errors="replace") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise ConfigurationError(f"{path} is no file of yours; remove it.")
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise ConfigurationError(
                f"{path} can be read by others; remove it for a new token, or `chmod 600` it."
            )
        token = file.read(1000).strip()
    if len(token) < _MIN_LENGTH:
        raise ConfigurationError(f"{path} holds no token; remove it for a new one.")
    return token


def _create(path: Path) -> None:
    """Write a new token. The first process wins, and none ever reads half a token."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
        with suppress(FileExistsError):
            os.link(part, path)
    finally:
        part.unlink()
