"""The HTTP server, made from the settings, and its application: routes, files, security checks.

It runs inside the event loop of its caller, sets no signal handlers, logs no requests and never
calls sys.exit; a stop is quick and bounded. The dashboard's files are read once from the package:
no path of a request opens a file. The package may be inside an egg, where Starlette's StaticFiles
finds no files.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import ipaddress
import logging
import mimetypes
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

import crawler
from crawler.admin import errors, routes
from crawler.admin.host_report import HostReports
from crawler.admin.queries import PageSearch, StoredPages
from crawler.admin.refusals import Gates
from crawler.admin.routes import BEARER, CrawlContext
from crawler.admin.security import DOCS, STATIC, SecurityMiddleware
from crawler.admin.tokens import Tokens, token_file, tokens_for
from crawler.errors import ConfigurationError
from crawler.storage.search.index import SearchSettings
from crawler.util.tasks import end

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from crawler.servers.connections import Servers
    from crawler.servers.redis.connection import Client
    from crawler.urls import Urls

# Errors that any route may answer with.
_ERRORS = {
    400: "The request cannot be read",
    401: "The token is missing or wrong",
    403: "The role of the token does not allow it",
    404: "Not found",
    405: "The method is not allowed",
    409: "Not possible now",
    413: "The request is too large",
    421: "The server is not known by this name",
    422: "The request is not valid",
    429: "Too many wrong tokens came from this address",
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
        # Their pages load scripts from other sites; ours is made from /openapi.json.
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
    api.state.events = routes.EventStreams(routes.event_stream)
    errors.install(api)
    api.include_router(_static)
    api.include_router(routes.health)
    for router in routes.routers:
        api.include_router(router, dependencies=[Depends(BEARER)])
    return api


class Application:
    """API behind its security checks, as a server runs it."""

    def __init__(self, crawl: CrawlContext, *, tokens: Tokens, names: Iterable[str] = ()) -> None:
        """`names` are the host names that requests may use."""
        self.api = create_api(crawl)
        self._secured = SecurityMiddleware(self.api, tokens=tokens, names=names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._secured(scope, receive, send)

    def close(self) -> None:
        """End event streams, which would never end by themselves."""
        self.api.state.events.close()


INDEX, DOCS_PAGE = "index.html", "docs.html"
_TYPES = (".html", ".css", ".js", ".svg", ".png", ".webmanifest")

_static = APIRouter(include_in_schema=False)


@_static.api_route("/", methods=["GET", "HEAD"])
async def page(request: Request) -> Response:
    """Serve the dashboard's page."""
    return await file(request, INDEX)


@_static.api_route(DOCS, methods=["GET", "HEAD"])
async def docs(request: Request) -> Response:
    """Serve the interactive description of the API."""
    return await file(request, DOCS_PAGE)


@_static.api_route(STATIC + "{name}", methods=["GET", "HEAD"])
async def file(request: Request, name: str) -> Response:
    """Serve one of the dashboard's files."""
    if name not in _files():
        raise HTTPException(404, f"There is no file {name[:100]!r}.")
    body, media_type, etag = _files()[name]
    headers = {"ETag": etag}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=media_type)


@cache
def _files() -> dict[str, tuple[bytes, str, str]]:
    """Read all files: name -> body, media type, ETag."""
    found = {}
    for item in files("crawler.admin").joinpath("static").iterdir():
        if item.is_file() and item.name.endswith(_TYPES):
            body = item.read_bytes()
            media_type = mimetypes.guess_type(item.name)[0] or "application/octet-stream"
            found[item.name] = body, media_type, f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    return found


# Concurrent connections; more are answered with 503.
_CONNECTIONS = 200
_GRACE_S = 1
_STOP_S = 3.0
# uvicorn logs each start and stop; our callers do so themselves.
logging.getLogger("uvicorn.error").setLevel(logging.WARNING)


class _Uvicorn(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Signals belong to the crawl.
        yield


class AdminServer:
    """A listening socket, and the application that answers on it."""

    def __init__(self, app: Application, listener: socket.socket) -> None:
        self._app = app
        self._listener = listener
        self.url = _browser_url(listener)
        self._uvicorn = _Uvicorn(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                limit_concurrency=_CONNECTIONS,
                timeout_graceful_shutdown=_GRACE_S,
            )
        )
        self._task: asyncio.Task[None] | None = None

    def start(self) -> asyncio.Task[None]:
        """Serve in the background; the task ends when the server does."""
        task = asyncio.get_running_loop().create_task(
            self._uvicorn.serve(sockets=[self._listener]), name="admin API"
        )
        self._task = task
        return task

    async def stop(self) -> None:
        """Stop within a few seconds, even while clients listen to events."""
        self._app.close()
        self._uvicorn.should_exit = True
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_STOP_S)
            await end(self._task)
        self._listener.close()


def listen(host: str, port: int, *, ports: int = 1) -> socket.socket:
    """Return a socket bound to the first free port of `ports` ports, from `port` on."""
    for candidate in range(port, port + ports):
        try:
            return _bound(host, candidate)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and candidate < port + ports - 1:
                continue
            raise ConfigurationError(
                f"The admin API cannot listen on {host}:{candidate} ({error.strerror or error}); "
                "choose another with ADMIN_HOST and ADMIN_PORT, or --host and --port."
            ) from error
    raise ConfigurationError(f"ADMIN_PORTS is {ports}; set it to 1 or more.")


def _browser_url(listener: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = socket.gethostname()
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _bound(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        # Connections of the last run may still linger on the port.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def create_server(
    settings: BaseSettings,
    servers: Servers,
    crawl: str,
    redis: Client,
    urls: Urls,
    *,
    host: str,
    port: int | None = None,
    crawler: Crawler | None = None,
) -> AdminServer:
    """Make a listening server for a crawl, or raise ConfigurationError. Blocking.

    Without `port`, it takes the first free port of ADMIN_PORTS. `crawler` is that of this process,
    if it crawls as well.
    """
    tokens = tokens_for(
        *(host, settings["ADMIN_TOKEN"], settings["ADMIN_TOKEN_FILE"], Path(settings["CRAWL_DIR"]))
    )
    names = [*settings.getlist("ADMIN_HOSTS"), host, socket.gethostname()]
    if port is None:
        listener = listen(host, settings.getint("ADMIN_PORT"), ports=settings.getint("ADMIN_PORTS"))
    else:
        listener = listen(host, port)
    pages = StoredPages.from_settings(settings, servers)
    reports = HostReports.from_settings(settings)
    search = PageSearch(SearchSettings.from_settings(settings).folder)
    gates = Gates.from_settings(settings)
    context = CrawlContext(
        *(crawl, redis, urls, crawler, pages, reports.records, search, reports, gates)
    )
    return AdminServer(Application(context, tokens=tokens, names=names), listener)


def token_at(settings: BaseSettings) -> str:
    """Return where the user finds the tokens."""
    file = settings["ADMIN_TOKEN_FILE"]
    if settings["ADMIN_TOKEN"] and not file:
        return "ADMIN_TOKEN"
    return str(token_file(file, Path(settings["CRAWL_DIR"])).path)
