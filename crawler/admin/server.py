"""The HTTP server, made from the settings; it runs inside the event loop of its caller.

It sets no signal handlers, logs no requests and never calls sys.exit; a stop is quick and bounded.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from crawler.admin.app import Application
from crawler.admin.queries import StoredPages
from crawler.admin.routes import CrawlContext
from crawler.admin.security import FILE, token_for
from crawler.errors import ConfigurationError
from crawler.util.tasks import end

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from crawler.servers.connections import Servers
    from crawler.servers.redis.connection import Client
    from crawler.urls import Urls

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
    token = token_for(host, settings["ADMIN_TOKEN"], Path(settings["CRAWL_DIR"]))
    names = [*settings.getlist("ADMIN_HOSTS"), host, socket.gethostname()]
    if port is None:
        listener = listen(host, settings.getint("ADMIN_PORT"), ports=settings.getint("ADMIN_PORTS"))
    else:
        listener = listen(host, port)
    pages = StoredPages.from_settings(settings, servers)
    context = CrawlContext(crawl, redis, urls, crawler, pages)
    return AdminServer(Application(context, token=token, names=names), listener)


def token_at(settings: BaseSettings) -> str:
    """Return where the user finds the token."""
    return "ADMIN_TOKEN" if settings["ADMIN_TOKEN"] else str(Path(settings["CRAWL_DIR"], FILE))
