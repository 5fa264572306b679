"""Checks that every request has to pass: host, token, its role, size of the body.

The checks are an ASGI middleware around the application, so that no route can be forgotten.
"""

import ipaddress
import logging
import math
from collections.abc import Iterable
from time import monotonic
from typing import Any
from urllib.parse import unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crawler.admin.errors import problem
from crawler.admin.sign_ins import SignIns
from crawler.admin.tokens import Role, Token, Tokens
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

    def __init__(self, app: ASGIApp, *, tokens: Tokens, names: Iterable[str]) -> None:
        """`names` are the host names that requests may use, besides addresses and localhost."""
        self._app = app
        self._tokens = tokens
        self._sign_ins = SignIns()
        self._names = {name.lower() for name in names} | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        status = size = 0
        is_cut = False
        await self._tokens.refresh()
        headers = Headers(scope=scope)
        given = _bearer(headers)
        token = None if given is None else self._tokens.find(given)

        async def sent(message: Message) -> None:
            nonlocal status, is_cut
            if is_cut:
                return
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                is_file = scope["path"].startswith(STATIC)
                headers.setdefault("Cache-Control", "no-cache" if is_file else "no-store")
            elif message.get("more_body") and token is not None:
                # A stream of events ends with its token.
                await self._tokens.refresh()
                is_cut = self._tokens.find(token.text) is None
                message = {"type": "http.response.body"} if is_cut else message
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

        scope.setdefault("state", {})["token"] = token
        refusal = self._refusal(scope, headers, token, has_sent_one=given is not None)
        try:
            if refusal is not None:
                await refusal(scope, receive, sent)
            else:
                await self._app(scope, received, sent)
        finally:
            # Also after an error: the request may have had a part of its effect.
            if scope["method"] not in _READS:
                _audit(scope, status)

    def _refusal(
        self, scope: Scope, headers: Headers, token: Token | None, *, has_sent_one: bool
    ) -> Any:
        if not self._is_known_name(headers.get("host", "")):
            return problem(
                421,
                "This server is not known by that name: use its address or localhost, or name it "
                "in ADMIN_HOSTS.",
            )
        if has_sent_one and (wait_s := self._waits(_address(scope), token)):
            return problem(
                429,
                f"There were too many wrong tokens from your address: try again in {wait_s} s.",
                headers={"Retry-After": str(wait_s)},
            )
        if not _is_open(scope):
            if token is None:
                return problem(
                    401,
                    "Send the token as `Authorization: Bearer …`; it is in the file admin.token of "
                    "CRAWL_DIR, or is your ADMIN_TOKEN.",
                    headers={"WWW-Authenticate": "Bearer"},
                )
            if scope["method"] not in _READS and token.role != Role.OPERATE:
                return problem(
                    403,
                    f"The token {token.name!r} has the role {token.role}, which may look at "
                    f"everything and change nothing: use one with the role {Role.OPERATE}.",
                )
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or int(length) > MAX_BODY_BYTES:
            return problem(413, _TOO_LARGE)
        return None

    def _waits(self, address: str, token: Token | None) -> int:
        """Return the seconds for which this address may send no tokens, and count this one."""
        now_s, name = monotonic(), None if token is None else token.name
        wait_s = self._sign_ins.wait_s(address, name, now_s)
        if wait_s:
            return math.ceil(wait_s)
        if name is not None:
            self._sign_ins.passed(address, name)
            return 0
        self._sign_ins.failed(address, now_s)
        if self._sign_ins.wait_s(address, None, now_s):
            audit_log.warning("%s sent too many wrong tokens; no more are read", address)
        return 0

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


def _bearer(headers: Headers) -> str | None:
    """Return the token that was sent, right or wrong."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "unknown"


def _is_open(scope: Scope) -> bool:
    """Return whether a request needs no token."""
    if scope["method"] not in _READS:
        return False
    path = scope["path"]
    is_file = path.startswith(STATIC) and "/" not in path.removeprefix(STATIC)
    return is_file or path in _OPEN


def _audit(scope: Scope, status: int) -> None:
    """Log who changed what. The token is in no URL and no body."""
    who, token = _address(scope), scope["state"]["token"]
    if token is not None:
        who = f"{who} {token.name}"
    # Still quoted, as it was sent: no line break gets into the log.
    what = scope.get("raw_path", b"").decode("ascii", "backslashreplace")
    query = scope.get("query_string", b"").decode("ascii", "backslashreplace")
    if query:
        # Unquoted, to find the password of a URL in it; ascii() escapes control characters.
        what = f"{what}?{ascii(masked(unquote(query)))[1:-1]}"
    more = scope["state"].get("audit", "")
    audit_log.info("%s %s %s: %d %s", who, scope["method"], what[:_QUERY_SHOWN], status, more)
