"""Make the server from the settings: token, names, socket."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING

from crawler.admin.app import Application
from crawler.admin.crawl import Crawl
from crawler.admin.pages import Pages
from crawler.admin.server import Server, listen
from crawler.admin.token import FILE, token_for

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

__all__ = ["Crawl", "Pages", "server", "token_at"]


def server(
    settings: BaseSettings,
    crawl: Crawl,
    *,
    host: str,
    port: int | None = None,
) -> Server:
    """A server that listens, or ConfigurationError. Blocking.

    A port that the user named is used or refused; else it is the first free one of ADMIN_PORTS.
    """
    token = token_for(host, settings["ADMIN_TOKEN"], Path(settings["CRAWL_DIR"]))
    names = [*settings.getlist("ADMIN_HOSTS"), host, socket.gethostname()]
    if port is None:
        listener = listen(host, settings.getint("ADMIN_PORT"), ports=settings.getint("ADMIN_PORTS"))
    else:
        listener = listen(host, port)
    return Server(Application(crawl, token=token, names=names), listener)


def token_at(settings: BaseSettings) -> str:
    """Where the user finds the token."""
    return "ADMIN_TOKEN" if settings["ADMIN_TOKEN"] else str(Path(settings["CRAWL_DIR"], FILE))
