"""The admin API of a crawl on a real Redis, asked without a network."""

from dataclasses import dataclass
from typing import Any

import httpx

from crawler.admin.routes import CrawlContext
from crawler.admin.server import Application
from crawler.admin.tokens import Token, Tokens
from crawler.frontier import Entry, Frontier, Lease
from crawler.urls import fingerprint

TOKEN = "a-token-of-the-tests"
TOKENS = Tokens(Token(TOKEN))


def entry(url: str, **rest: Any) -> Entry:
    return Entry(id=fingerprint(url), url=url, **rest)


@dataclass(frozen=True)
class Api:
    """A crawl that one process works on, and the API in front of it."""

    redis: Any
    frontier: Frontier
    app: Application
    http: httpx.AsyncClient

    async def json(self, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        answer = await self.http.request(method, path, json=body)
        assert answer.status_code == status, answer.text
        expected = "application/json" if status < 400 else "application/problem+json"
        assert answer.headers["content-type"].startswith(expected)
        return answer.json()

    async def claim(self, n: int = 1000) -> list[Lease]:
        return (await self.frontier.claim(n, f"claim-{n}-{id(object())}")).leases


def client(app: Application, token: str = TOKEN) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app, raise_app_exceptions=False),
        base_url="http://127.0.0.1",
        headers={"Authorization": f"Bearer {token}"},
    )


async def open_api(redis: Any, name: str = "web", **about: Any) -> Api:
    """The API of a new crawl."""
    frontier = Frontier(redis, name)
    await frontier.open({"machine": "m", "pid": 7, "shards": [0], **about})
    app = Application(CrawlContext(name, redis), tokens=TOKENS)
    return Api(redis, frontier, app, client(app))
