"""Put the application together: routes, problems, the gate around them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fastapi import Depends, FastAPI
from starlette.types import Receive, Scope, Send

from crawler.admin import errors, static_files
from crawler.admin.dependencies import BEARER, CrawlContext
from crawler.admin.routes import crawl as crawl_routes
from crawler.admin.routes import dead_letters, events, health, hosts, metrics, seeds, urls
from crawler.admin.security import SecurityMiddleware

# Besides what a route tells of itself.
_ERRORS = {
    400: "The request cannot be read",
    401: "The token is missing or wrong",
    404: "There is no such thing",
    405: "There is no such method",
    409: "Not while this is so",
    413: "The request is too large",
    421: "The server is not known by this name",
    422: "The request is not valid",
    503: "A server that is needed does not answer",
}


class Api(FastAPI):
    """FastAPI, whose document says that errors are problems."""

    def openapi(self) -> dict[str, Any]:
        document = super().openapi()
        for path in document["paths"].values():
            for operation in path.values():
                for status, response in operation["responses"].items():
                    if status >= "400":
                        content = response["content"]
                        response["content"] = {errors.MEDIA_TYPE: next(iter(content.values()))}
        return document


def create_api(crawl: CrawlContext) -> Api:
    """The API of one crawl, open to whoever calls it."""
    api = Api(
        title="Crawler admin API",
        version=_version(),
        # Pages that load their scripts from elsewhere; the document itself is at /openapi.json.
        docs_url=None,
        redoc_url=None,
        # Our own metrics say enough, and nothing is sent anywhere.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
        responses={
            status: {"description": said, "model": errors.Problem}
            for status, said in _ERRORS.items()
        },
    )
    api.state.crawl = crawl
    api.state.feed = events.feed_of(crawl)
    errors.install(api)
    api.include_router(static_files.router)
    api.include_router(health.router)
    for routes in (crawl_routes, seeds, hosts, urls, dead_letters, events, metrics):
        api.include_router(routes.router, dependencies=[Depends(BEARER)])
    return api


class Application:
    """The API behind its gate, as a server runs it."""

    def __init__(self, crawl: CrawlContext, *, token: str, names: Iterable[str] = ()) -> None:
        """`names` are host names by which it may be called."""
        self.api = create_api(crawl)
        self._gate = SecurityMiddleware(self.api, token=token, names=names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._gate(scope, receive, send)

    def close(self) -> None:
        """End the answers that would go on for ever."""
        self.api.state.feed.close()


def _version() -> str:
    try:
        return version("mercator-crawler")
    except PackageNotFoundError:
        return "0"
