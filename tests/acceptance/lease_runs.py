"""Run the spiders of lease_spiders.py side by side in one process, and print what became of each.

usage: python -m tests.acceptance.lease_runs REDIS_URL [NAME...]
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections import defaultdict
from dataclasses import asdict
from typing import Any

from aiohttp import web
from scrapy import Spider, signals
from scrapy.crawler import AsyncCrawlerRunner
from scrapy.utils.reactor import install_reactor

from crawler.frontier import CrawlControl
from crawler.servers.redis.connection import connect

ADDON = "crawler.addon.FrontierAddon"
# For all of them together, on the busiest machine.
_DEADLINE_S = 200.0


class Site:
    """A web server for all hosts; what a path does is in its name."""

    def __init__(self) -> None:
        self.requests: dict[str, list[str]] = defaultdict(list)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        host, path = request.host.partition(":")[0], request.path
        if path == "/robots.txt":
            return web.Response(status=404)
        self.requests[host].append(path)
        kind, _, rest = path[1:].partition("/")
        if kind == "status":
            return web.Response(status=int(rest))
        if kind == "slow":
            await asyncio.sleep(0.4)
        target = {
            "/to/target": "/target",
            "/to/other-host": f"http://other.{host}/",
            "/to/offsite": "http://offsite.test/",
            "/child-offsite": "http://offsite.test/child",
            "/ping": "/pong",
            "/pong": "/ping",
        }.get(path, f"/chain/{int(rest) + 1}" if kind == "chain" else "")
        if target:
            return web.Response(status=302, headers={"Location": target})
        return web.Response(text=f"<p>{path}</p>", content_type="text/html")


class _Lines(logging.Handler):
    """Errors and warnings of this project, for tests to look at."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("crawler"):
            self.lines.append(f"{record.levelname} {record.getMessage()}")


async def _run(
    runner: AsyncCrawlerRunner, spider: type[Spider], redis: Any, site: Site
) -> dict[str, Any]:
    crawler = runner.create_crawler(spider)
    items: list[Any] = []

    def keep(item: Any) -> None:
        items.append(item)

    crawler.signals.connect(keep, signals.item_scraped, weak=False)
    task = asyncio.ensure_future(runner.crawl(crawler))
    await asyncio.wait([task], timeout=_DEADLINE_S)
    control = await CrawlControl.open(redis, spider.name)
    sizes = await control.frontier.sizes()
    hosts = [host for host in site.requests if f".{host}".rpartition(spider.name)[0].endswith(".")]
    return {
        "stuck": not task.done(),
        "reason": crawler.stats.get_value("finish_reason"),
        "items": items,
        "sizes": {**asdict(sizes), "waiting": sizes.waiting},
        "dead": [
            (letter.entry.url if letter.entry else "", letter.reason)
            for letter in await control.dead()
        ],
        "fetched": {host: site.requests[host] for host in sorted(hosts)},
        "stats": {
            name: value
            for name, value in crawler.stats.get_stats().items()
            if isinstance(value, int | float | str)
        },
    }


async def _main(redis_url: str, names: list[str]) -> None:
    from tests.acceptance.lease_spiders import SPIDERS

    logging.basicConfig(level=logging.ERROR)
    lines = _Lines()
    logging.getLogger().addHandler(lines)
    site = Site()
    server = web.ServerRunner(web.Server(site))
    await server.setup()
    listener = web.TCPSite(server, "127.0.0.1", 0)
    await listener.start()
    address = f"127.0.0.1:{listener._server.sockets[0].getsockname()[1]}"
    runner = AsyncCrawlerRunner(
        {
            "ADDONS": {ADDON: 0},
            "REDIS_URL": redis_url,
            "SINKS": "none",
            # Port 1 takes no connections.
            "DNS_OVERRIDES": {".test": address, ".refused": "127.0.0.1:1"},
            "ALLOW_NETWORKS": ["127.0.0.0/8"],
            "DELAY_MIN": 0,
            "DELAY_FACTOR": 0,
            "RETRY_BASE": 0.01,
            "RETRY_TIMES": 1,
            "USER_AGENT": "crawler/test",
        }
    )
    redis = await connect(redis_url)
    chosen = [spider for spider in SPIDERS if not names or spider.name in names]
    results = await asyncio.gather(*[_run(runner, spider, redis, site) for spider in chosen])
    report = {spider.name: result for spider, result in zip(chosen, results, strict=True)}
    print(json.dumps({"runs": report, "log": lines.lines}, default=repr), flush=True)
    await redis.aclose()
    await server.cleanup()


if __name__ == "__main__":
    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    from twisted.internet import defer, task

    def _start(_: Any) -> defer.Deferred[None]:
        return defer.Deferred.fromFuture(asyncio.ensure_future(_main(sys.argv[1], sys.argv[2:])))

    task.react(_start)
