"""The admin API behind real uvicorn on a random port, in a thread with a loop of its own."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from scrapy.settings import BaseSettings

from crawler.admin.queries import StoredPages
from crawler.admin.routes import CrawlContext
from crawler.admin.server import AdminServer, Application, listen
from crawler.frontier import Frontier
from crawler.servers.connections import Servers
from crawler.servers.redis.connection import connect
from tests.integration.admin.api import TOKENS


@contextmanager
def served(
    redis_url: str, crawl: str = "web", settings: BaseSettings | None = None
) -> Iterator[str]:
    """The address of the API of a new crawl, whose pages are where the settings say."""
    url: list[str] = []
    ready, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        redis = await connect(redis_url)
        await Frontier(redis, crawl).open({"pid": 1})
        servers, pages = None, StoredPages()
        if settings is not None:
            servers = Servers.from_settings(settings)
            pages = StoredPages.from_settings(settings, servers)
        app = Application(CrawlContext(crawl, redis, pages=pages), tokens=TOKENS)
        server = AdminServer(app, listen("127.0.0.1", 0))
        server.start()
        url.append(server.url.rstrip("/"))
        ready.set()
        await stop.wait()
        await server.stop()
        await redis.aclose()
        if servers is not None:
            await servers.close()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert ready.wait(120)
        yield url[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        loop.close()
        assert not thread.is_alive()
