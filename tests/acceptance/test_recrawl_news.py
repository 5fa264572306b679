"""Pages are visited again soon when a sitemap or a feed says that they changed."""

import asyncio
import json
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from crawler.frontier import CrawlControl
from crawler.servers.redis.connection import connect
from crawler.urls import SITEMAP, fingerprint
from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import Process, sizes
from tests.support.threaded_server import running
from tests.support.waiting import wait_until

DAY_S = 86_400
# No page is due within a month.
SETTINGS = {"CRAWL_IDLE": "wait", "RECRAWL": json.dumps({"min_s": 30 * DAY_S})}
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


class Site(ThreadingHTTPServer):
    """Three pages, a sitemap and a feed, which say when pages changed."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.hits: Counter[str] = Counter()
        self.changed = dict.fromkeys(("/a", "/b", "/c"), LONG_AGO)
        self.in_feed = LONG_AGO

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def body_of(self, path: str) -> str:
        if path == "/robots.txt":
            return f"Sitemap: {self.url}/map.xml"
        if path == "/map.xml":
            return "<urlset>{}</urlset>".format(
                "".join(
                    f"<url><loc>{page}</loc><lastmod>{changed.isoformat()}</lastmod></url>"
                    for page, changed in self.changed.items()
                )
            )
        if path == "/feed.xml":
            date = format_datetime(self.in_feed)
            item = f"<item><link>{self.url}/c</link><pubDate>{date}</pubDate></item>"
            return f"<rss><channel><title>News</title>{item}</channel></rss>"
        words = " ".join(f"{path[1:] or 'home'}{number}" for number in range(50))
        return f'<html><body><p>{words}</p><a href="/feed.xml">feed</a></body></html>'


class Handler(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        body = self.server.body_of(self.path).encode()
        kind = "application/rss+xml" if self.path == "/feed.xml" else "text/html"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.server.hits[self.path] += 1

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def site() -> Iterator[Site]:
    with running(Site()) as server:
        yield server


def ask(redis_url: str, question: Callable[[CrawlControl], Awaitable[Any]]) -> Any:
    async def answer() -> Any:
        redis = await connect(redis_url)
        try:
            return await question(await CrawlControl.open(redis, "web"))
        finally:
            await redis.aclose()

    return asyncio.run(answer())


def visit_now(redis_url: str, url: str, kind: str = "GET") -> None:
    """Let a URL be due now, as by a sitemap that has no time."""
    id_ = fingerprint(url, kind)
    ask(redis_url, lambda crawl: crawl.frontier.bring_forward([(id_, crawl.group(url), 0)]))


def due_s(redis_url: str, url: str) -> float:
    """When a page is due, unix time."""
    return float(ask(redis_url, lambda crawl: crawl.status(url)).at_ms / 1000)


def test_news_of_a_change_bring_a_page_forward_once(
    tmp_path: Path, site: Site, redis_url: str
) -> None:
    command = Crawls(tmp_path, redis_url).command(
        site.url, arguments={"recrawl": "budget:100000/h"}, settings=SETTINGS
    )
    process = Process(command, tmp_path / "process.log")
    try:
        wait_until(lambda: sizes_of(redis_url) == 6)
        assert {site.hits[path] for path in ("/", "/a", "/b", "/c", "/map.xml")} == {1}
        assert due_s(redis_url, f"{site.url}/a") > time.time() + 29 * DAY_S
        site.changed["/a"] = datetime.now(UTC)
        visit_now(redis_url, f"{site.url}/map.xml", SITEMAP)
        wait_until(lambda: site.hits["/a"] == 2)
        # The same once more is no news, and a feed may tell them, too.
        visit_now(redis_url, f"{site.url}/map.xml", SITEMAP)
        wait_until(lambda: site.hits["/map.xml"] == 3)
        site.in_feed = datetime.now(UTC)
        visit_now(redis_url, f"{site.url}/feed.xml")
        wait_until(lambda: site.hits["/c"] == 2)
        wait_until(lambda: sizes_of(redis_url) == 6)
        assert [site.hits[path] for path in ("/", "/a", "/b", "/c")] == [1, 2, 1, 2]
        process.send(signal.SIGINT)
        assert process.wait() == 0, process.log
    finally:
        process.kill()
    assert "Traceback" not in process.log


def sizes_of(redis_url: str) -> int:
    """How many URLs wait for their next visits, if nothing else is under way."""
    try:
        found = sizes(redis_url)
    except Exception:  # noqa: BLE001 - there is no crawl yet
        return 0
    return 0 if found.unfinished else found.recrawls
