"""The application: routes, error handlers, and the security checks around them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import Depends, FastAPI
from starlette.types import Receive, Scope, Send

import crawler
from crawler.admin import errors, routes, static_files
from crawler.admin.routes import BEARER, CrawlContext
from crawler.admin.security import SecurityMiddleware

# Errors that any route may answer with.
_ERRORS = {
    400: "The request cannot be read",
    401: "The token is missing or wrong",
    404: "Not found",
    405: "The method is not allowed",
    409: "Not possible now",
    413: "The request is too large",
    421: "The server is not known by this name",
    422: "The request is not valid",
    503: "A required server does not answer",
}


class Api(FastAPI):
    """FastAPI whose OpenAPI document has problem JSON as the type of all errors."""

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
    """Make the API of one crawl, without security checks."""
    api = Api(
        title="Crawler admin API",
        version=crawler.__version__,
        # Their pages load scripts from other sites; the document itself is at /openapi.json.
        docs_url=None,
        redoc_url=None,
        # We have our own metrics, and nothing is sent anywhere.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
        responses={
            status: {"description": text, "model": errors.Problem}
            for status, text in _ERRORS.items()
        },
    )
    api.state.crawl = crawl
    api.state.events = routes.event_stream(crawl)
    errors.install(api)
    api.include_router(static_files.router)
    api.include_router(routes.health)
    for router in routes.routers:
        api.include_router(router, dependencies=[Depends(BEARER)])
    return api


class Application:
    """The API behind its security checks, as a server runs it."""

    def __init__(self, crawl: CrawlContext, *, token: str, names: Iterable[str] = ()) -> None:
        """`names` are the host names that requests may use."""
        self.api = create_api(crawl)
        self._secured = SecurityMiddleware(self.api, token=token, names=names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._secured(scope, receive, send)

    def close(self) -> None:
        """End event streams, which would never end by themselves."""
        self.api.state.events.close()
