"""Make the server from the settings, and run it inside an event loop that belongs to someone else.

No signal handlers, no log line for each request, no sys.exit; a stop is quick and bounded.
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
from crawler.admin.dependencies import CrawlContext
from crawler.admin.queries import Pages
from crawler.admin.security import FILE, token_for
from crawler.errors import ConfigurationError
from crawler.util.tasks import end

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)


# Connections at a time; more are answered 503.
_CONNECTIONS = 200
_GRACE_S = 1
_STOP_S = 3.0
# It tells of each start and stop; we do so ourselves.
logging.getLogger("uvicorn.error").setLevel(logging.WARNING)


class _Uvicorn(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # They are the crawl's.
        yield


class AdminServer:
    """One listening socket and what answers on it."""

    def __init__(self, app: Application, listener: socket.socket) -> None:
        self._app = app
        self._listener = listener
        # Where a browser finds it.
        self.url = url_of(listener)
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
        """Stop within a few seconds, whoever still listens to events."""
        self._app.close()
        self._uvicorn.should_exit = True
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_STOP_S)
            await end(self._task)
        self._listener.close()


def listen(host: str, port: int, *, ports: int = 1) -> socket.socket:
    """A socket that is bound to the first free one of so many ports, from `port` on."""
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


def url_of(listener: socket.socket) -> str:
    """The address of a listening socket as a browser takes it."""
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
        # After a restart, connections of the last run may still linger on the port.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


__all__ = ["CrawlContext", "Pages", "server", "token_at"]


def server(
    settings: BaseSettings,
    crawl: CrawlContext,
    *,
    host: str,
    port: int | None = None,
) -> AdminServer:
    """A server that listens, or ConfigurationError. Blocking.

    A port that the user named is used or refused; else it is the first free one of ADMIN_PORTS.
    """
    token = token_for(host, settings["ADMIN_TOKEN"], Path(settings["CRAWL_DIR"]))
    names = [*settings.getlist("ADMIN_HOSTS"), host, socket.gethostname()]
    if port is None:
        listener = listen(host, settings.getint("ADMIN_PORT"), ports=settings.getint("ADMIN_PORTS"))
    else:
        listener = listen(host, port)
    return AdminServer(Application(crawl, token=token, names=names), listener)


def token_at(settings: BaseSettings) -> str:
    """Where the user finds the token."""
    return "ADMIN_TOKEN" if settings["ADMIN_TOKEN"] else str(Path(settings["CRAWL_DIR"], FILE))
