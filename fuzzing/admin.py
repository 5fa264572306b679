"""Targets that read what users and strangers send to a crawl: the admin API, options, searches."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from benchmarks.servers import private_redis
from crawler.admin.routes import CrawlContext
from crawler.admin.server import Application
from crawler.errors import ConfigurationError
from crawler.frontier import Frontier
from crawler.scheduling import options
from crawler.servers.redis.connection import connect
from crawler.storage.search.query import QueryError, words_of
from fuzzing.target import Target, expect, text_of

_TOKEN = "a-token-of-the-fuzzer"  # noqa: S105 - of a server that nobody reaches
_ENDLESS = "/events"


class _Api:
    """The application behind its security checks, on a Redis of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._stack = ExitStack()
        self._app: Application | None = None

    def _open(self) -> Application:
        redis = self._stack.enter_context(private_redis(persistent=False))

        async def opened() -> Application:
            client = await connect(redis.url)
            await Frontier(client, "web").open({"pid": 1})
            return Application(CrawlContext("web", client), token=_TOKEN)

        return self._loop.run_until_complete(opened())

    def __call__(self, data: bytes) -> None:
        """Send a request: its method and path, its headers, and after an empty line its body."""
        if self._app is None:
            self._app = self._open()
        head, _, body = data.partition(b"\n\n")
        first, *lines = head.split(b"\n")
        method, _, target = first.partition(b" ")
        path, _, query = target.partition(b"?")
        headers = [(b"host", b"127.0.0.1"), (b"content-length", str(len(body)).encode())]
        if not first.startswith(b"-"):
            headers.append((b"authorization", b"Bearer " + _TOKEN.encode()))
        for line in lines[:50]:
            name, colon, value = line.partition(b":")
            if colon:
                headers.append((name.strip().lower(), value.strip()))
        text = path.decode("utf-8", "replace")
        if text.rstrip("/").endswith(_ENDLESS):
            return
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http",
            "method": method.lstrip(b"-").decode("latin-1").upper() or "GET", "path": text or "/",
            "raw_path": path, "query_string": query, "headers": headers, "root_path": "",
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "state": {},
        }  # fmt: skip
        status = self._loop.run_until_complete(self._asked(self._app, scope, body))
        expect(200 <= status < 500 or status == 503, (status, data))

    async def _asked(self, app: Callable[..., Any], scope: dict[str, Any], body: bytes) -> int:
        status: list[int] = []
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            return messages.pop(0) if messages else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                status.append(message["status"])

        await asyncio.wait_for(app(scope, receive, send), 20)
        return status[0] if status else 0


def _options(data: bytes) -> None:
    """Check options as the API takes them, and as a process reads them from Redis."""
    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        return
    if not isinstance(values, dict):
        return
    try:
        stored = options.checked(values)
    except ConfigurationError:
        stored = {}
    options.CrawlOptions().changed(json.loads(json.dumps(stored)))
    options.CrawlOptions().changed(values)


def _search(data: bytes) -> None:
    try:
        words_of(text_of(data))
    except QueryError:
        return


_NAMES = tuple(f'"{name}": '.encode() for name in options.NAMES)
_JSON = (
    *(b"[]", b"{}", b"null", b"true", b"-1", b"1e999", b"NaN", b'"', b'"a"', b"9" * 400, b"[["),
    *(b"1.5", b'"\\ud800"', b'","', b"{", b"}", b'"(a+)+$"', b"0"),
)
_REQUESTS = (
    b"GET /status", b"GET /hosts?limit=5&order=queue", b"GET /hosts/example.com", b"GET /healthz",
    b"PATCH /hosts/example.com\ncontent-type: application/json\n\n{\"parallelism\": 2}",
    b"POST /seed/urls\ncontent-type: application/json\n\n{\"urls\": [\"http://example.com/\"]}",
    b"PATCH /options\ncontent-type: application/json\n\n{\"scope\": \"any\"}",
    b"GET /urls?url=http://example.com/", b"DELETE /urls?url=http://example.com/",
    b"GET /dead?limit=3&cursor=0-1", b"POST /dead/requeue\ncontent-type: application/json\n\n{}",
    b"GET /url/limit?host=a", b"POST /url/limit\ncontent-type: application/json\n\n{\"limit\": 5}",
    b"GET /hosts/example.com/robots", b"DELETE /hosts/example.com/dns", b"GET /vitals",
    b"GET /pages/search?q=a&limit=2", b"GET /jobs", b"-GET /status", b"GET /scheduler/status",
    b"POST /workers/x/stop", b"DELETE /hosts/example.com/queue", b"GET /metrics", b"GET /static/x",
    b"GET /urls/refusals?url=http://a.test/", b"GET /crawls", b"GET /log", b"GET /dead/groups",
)  # fmt: skip
TARGETS = (
    Target(
        "admin",
        _Api(),
        _REQUESTS,
        (
            *_JSON,
            b"%00",
            b"%ff",
            b"?limit=",
            b"&cursor=",
            b"content-type: ",
            b"content-length: ",
            b"transfer-encoding: chunked",
            b"host: ",
            b"authorization: ",
            b"\n\n",
            b"/../",
            b"http://",
        ),
        max_bytes=2048,
        most_s=1.0,
        large_s=5.0,
        is_slow=True,
    ),
    Target(
        "options",
        _options,
        (b'{"scope": "any", "max_depth": 3}', b"{" + b"1, ".join(_NAMES) + b"1}"),
        (*_NAMES, *_JSON),
        most_s=3.0,
        large_s=3.0,
    ),
    Target(
        "search",
        _search,
        (b'word "two words" -not host:a.test lang:en', b"a OR b (c)"),
        (b'"', b":", b"-", b"(", b")", b"*", b"~", b"^", b"[", b" TO ", b" AND ", b"\\"),
    ),
)
