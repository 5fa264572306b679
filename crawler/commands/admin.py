"""`scrapy admin`: the admin API and the dashboard alone, for a fleet or a crawl that has ended."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from importlib import import_module
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand

from crawler.commands import _validate
from crawler.commands._settings import completed
from crawler.commands._verbs import errors_in_one_line
from crawler.commands.frontier import DEFAULT_CRAWL, check_folder
from crawler.config.values import crawl_name, url_rules
from crawler.monitoring import logs
from crawler.servers.connections import Servers
from crawler.urls import Urls

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


class Command(ScrapyCommand):
    """Command that serves in a plain event loop; it needs no reactor."""

    requires_project = True
    requires_crawler_process = False

    def syntax(self) -> str:
        return "[--host ADDRESS] [--port PORT] [--crawl NAME] [--json]"

    def short_desc(self) -> str:
        return "Serve the admin API and the dashboard of a crawl"

    def long_desc(self) -> str:
        return (
            "Serve the admin API and the dashboard of a crawl, whose processes may run anywhere. "
            "It uses the same servers as `scrapy crawl`; Ctrl-C ends it."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--host", help="address to bind to (ADMIN_HOST)")
        parser.add_argument("--port", type=_port, help="port; 0 for a free one (ADMIN_PORT)")
        parser.add_argument("--crawl", default="", help="name of the crawl (CRAWL, or web)")
        parser.add_argument("--json", action="store_true", help="print its address as JSON")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        with errors_in_one_line(self, "admin"):
            settings = completed(self.settings)
            logs.install(settings)
            _validate.check(settings)
            name = crawl_name(settings, DEFAULT_CRAWL, opts.crawl)
            check_folder(settings)
            asyncio.run(self._serve(settings, name, opts))

    async def _serve(self, settings: BaseSettings, name: str, opts: argparse.Namespace) -> None:
        # Only now: Scrapy imports the modules of all commands, whichever is run.
        admin_server = import_module("crawler.admin.server")

        servers = Servers.from_settings(settings)
        try:
            server = admin_server.create_server(
                settings,
                servers,
                name,
                await servers.redis(),
                Urls(url_rules(settings)),
                host=opts.host or settings["ADMIN_HOST"],
                port=opts.port,
            )
            loop, stopped = asyncio.get_running_loop(), asyncio.Event()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, stopped.set)
            serving = server.start()
            serving.add_done_callback(lambda _: stopped.set())
            token_at = admin_server.token_at(settings)
            text = logs.line(
                f"Dashboard and admin API of the crawl {name!r}: {server.url} (token: {token_at})"
            )
            if opts.json:
                text = json.dumps({"crawl": name, "url": server.url, "token_at": token_at})
            print(text, flush=True)
            await stopped.wait()
            await server.stop()
        finally:
            await servers.close()


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= 65_535):
        raise argparse.ArgumentTypeError(f"{text!r} is no port; give a number up to 65535")
    return int(text)
