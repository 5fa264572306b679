"""A front before an S3 server that keeps its requests, and answers some of them itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from io import BytesIO

from aiohttp import ClientSession, TCPConnector, web


@dataclass
class Front:
    """Server before another one. It keeps the requests, and answers some of them itself."""

    endpoint: str = ""
    # Method, path with query, and headers of each request.
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    # Answers to the next requests, before any is forwarded: status, and code of the error.
    answers: list[tuple[int, str]] = field(default_factory=list)
    # The answer to all requests.
    answer: tuple[int, str] | None = None
    # Bodies of answers with status 200, by the method of the requests that get them.
    bodies: dict[str, str] = field(default_factory=dict)
    # The answer to requests with this method and text in their address is held back, for ever.
    held: tuple[str, str] | None = None
    # Whether what is forwarded loses a bit on its way.
    damages: bool = False
    _holding: int = 0

    @property
    def is_holding(self) -> bool:
        """Whether a request that is held back was answered by the server."""
        return self._holding > 0

    def headers(self, method: str) -> list[dict[str, str]]:
        """The headers of requests by this method, with names in lower case."""
        return [headers for each, _, headers in self.requests if each == method]


@asynccontextmanager
async def front_of(endpoint: str) -> AsyncIterator[Front]:
    """Serve a front on loopback. The signatures stay valid: they are of the front's address."""
    front = Front()

    async def handle(request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        front.requests.append((request.method, request.path_qs, headers))
        body = await request.read()
        answer = front.answers.pop(0) if front.answers else front.answer
        if answer is not None:
            status, code = answer
            text = f"<Error><Code>{code}</Code><Message>as told</Message></Error>"
            return web.Response(
                status=status, text='<?xml version="1.0" encoding="UTF-8"?>\n' + text
            )
        if request.method in front.bodies:
            return web.Response(text=front.bodies[request.method])
        if front.damages and body:
            body = bytes([body[0] ^ 1]) + body[1:]
        async with session.request(
            request.method, f"{endpoint}{request.raw_path}", data=BytesIO(body), headers=headers
        ) as found:
            if front.held and front.held[0] == request.method and front.held[1] in request.path_qs:
                front._holding += 1
                await asyncio.Event().wait()
            kept = {
                name: value
                for name, value in found.headers.items()
                if name.lower() not in ("transfer-encoding", "connection", "date", "server")
            }
            if request.method == "HEAD":
                return web.Response(status=found.status, headers=kept)
            kept.pop("Content-Length", None)
            return web.Response(status=found.status, headers=kept, body=await found.read())

    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    front.endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with ClientSession(auto_decompress=False, connector=TCPConnector(limit=0)) as session:
        try:
            yield front
        finally:
            await runner.cleanup()
