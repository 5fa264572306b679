"""A crawl that an operator asks about: hosts that rest or fail, dead letters, pages, a slow phase.

It is made by hand on real servers, so that each answer is known.
"""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from crawler.frontier import CrawlControl, Entry, Frontier
from crawler.items import Page
from crawler.monitoring.ledger import Ledger
from crawler.pipelines.store import Store
from crawler.politeness.host_delays import OVERLOAD, HostHealth
from crawler.robots.gate import RobotsCache
from crawler.servers.connections import Servers
from crawler.servers.redis.connection import connect
from crawler.urls import fingerprint
from tests.support.crawlers import project_crawler

STORED = "http://news.test/stored"
REFUSED = "http://news.test/private/page"
ROBOTS = b"""User-agent: other
Disallow: /everything

User-agent: *
Disallow: /private
Crawl-delay: 600
"""
# Pages a minute, before and after the crawl got slower.
FAST, SLOW = 600, 60
SLOW_MINUTES = 7
ABOUT = {"machine": "worker-1", "pid": 4711, "pages": 1234, "held": 2, "shards": [0]}
ABOUT |= {"pages_per_s": 1.5, "bytes_per_s": 60_000.0, "loop_lag_ms": 3.0, "redis_ms": 0.8}
ABOUT |= {"store": "ok", "started_at": 0}


def entry(url: str, **rest: Any) -> Entry:
    return Entry(id=fingerprint(url), url=url, **rest)


def page(url: str, **fields: Any) -> Page:
    body = b"<html><title>A stored page</title><script>alert(1)</script><p>Its text</html>"
    values: dict[str, Any] = {
        "url": url,
        "final_url": url,
        "status": 200,
        "crawled_at": datetime.now(UTC) - timedelta(minutes=5),
        "body": body,
        "size_bytes": len(body),
        "content_type": "text/html",
        "charset": "utf-8",
        "title": "A stored page",
        "text": "Its text, <b>as text</b>",
        "content_hash": "c0ffee",
        "links": ["http://news.test/linked"],
        "headers": {"server": "nginx", "content-type": "text/html"},
        **fields,
    }
    return Page(**values)


class Operated:
    """The crawl `web`, worked on by one process until it is ended."""

    def __init__(self, redis_url: str, mongo_uri: str, database: str) -> None:
        self.settings = {"REDIS_URL": redis_url, "MONGO_URI": mongo_uri, "MONGO_DATABASE": database}
        self._redis_url = redis_url

    async def _make(self) -> Frontier:
        self._redis = redis = await connect(self._redis_url)
        frontier = Frontier(redis, "web")
        ABOUT["started_at"] = round(time.time()) - 3600
        await frontier.open(dict(ABOUT))
        await self._make_dead(frontier)
        await self._make_resting(frontier)
        waiting = [f"http://big.test/{number}" for number in range(40)]
        await frontier.add([entry(url, queue=2) for url in waiting])
        control = await CrawlControl.open(redis, "web")
        await control.add_seed_domains(["news.test", "big.test"])
        await RobotsCache(redis, "crawler", ttl_s=9e3, error_ttl_s=100.0).put(
            "http://news.test", ROBOTS, status=200
        )
        await HostHealth(redis, quiet_s=600).count(OVERLOAD, "slow.test")
        await redis.hset("{other crawl}:crawl", mapping=await redis.hgetall("{web}:crawl"))
        await self._make_figures(Ledger(redis, "web"))
        return frontier

    async def _make_dead(self, frontier: Frontier) -> None:
        dead = [f"http://broken.test/{number}" for number in range(3)] + ["http://gone.test/"]
        await frontier.add([entry(url) for url in dead])
        buried = 0
        while buried < len(dead):
            leases = (await frontier.claim(10, f"dead-{buried}")).leases
            reasons = ["dns_nxdomain" if "gone" in one.entry.url else "timeout" for one in leases]
            await frontier.release([(one, 0) for one in leases])
            await frontier.bury(list(zip(leases, reasons, strict=True)))
            buried += len(leases)

    async def _make_resting(self, frontier: Frontier) -> None:
        """Hosts whose next contact is known: one after a 503, one with a Crawl-delay."""
        delays = {"slow.test": 1_800_000, "news.test": 600_000}
        urls = [f"http://{host}/{path}" for host in delays for path in ("first", "second")]
        await frontier.add([entry(url) for url in [STORED, *urls]])
        leases = (await frontier.claim(10, "resting")).leases
        await frontier.release([(one, delays[one.entry.host]) for one in leases])
        await frontier.done([(one, True) for one in leases])

    async def _make_figures(self, ledger: Ledger) -> None:
        now_s, figures = (
            time.time(),
            {"pages": 0, "requests": 0, "failed/timeout": 0, "status/200": 0},
        )
        # Also of minutes to come, so that it does not matter how long a test takes.
        for ago in range(14, -15, -1):
            pages = SLOW if ago <= SLOW_MINUTES else FAST
            for name in ("pages", "requests", "status/200"):
                figures[name] += pages
            figures["failed/timeout"] += 2
            await ledger.add(figures, now_s=now_s - 60 * ago)

    async def _store(self) -> None:
        crawler = project_crawler(**self.settings)
        crawler.engine = SimpleNamespace(_slot=None)  # type: ignore[assignment]
        store = Store.from_crawler(crawler)
        await store.open_spider()
        for one in (page(STORED), page("http://news.test/first", title="Another")):
            await store.process_item(one)
        await store.close_spider()
        await Servers.of(crawler).close()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Make the crawl, and let its process beat."""
        ready, ended, errors = threading.Event(), threading.Event(), list[BaseException]()

        async def work() -> None:
            try:
                frontier = await self._make()
                await self._store()
            except BaseException as error:
                errors.append(error)
                raise
            finally:
                ready.set()
            while not await asyncio.to_thread(ended.wait, 1.0):
                await frontier.beat([0], about=dict(ABOUT))
            await frontier.leave()
            await self._redis.aclose()

        # In a thread: playwright has a loop of its own.
        thread = threading.Thread(target=lambda: asyncio.run(work()))
        thread.start()
        try:
            assert ready.wait(120)
            assert not errors, errors
            yield
        finally:
            ended.set()
            thread.join(60)


def options_of(settings: dict[str, Any]) -> list[str]:
    return [
        word
        for name, value in settings.items()
        for word in ("-s", f"{name}={value if isinstance(value, str) else json.dumps(value)}")
    ]
