"""A robots.txt that is corrected and forgotten counts in the whole fleet within two seconds."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from crawler.admin.host_records import HostRecords
from crawler.frontier import CrawlControl, Entry
from crawler.servers.redis.connection import connect
from crawler.urls import fingerprint
from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import Fleet
from tests.support.waiting import wait_until

HOSTS = [f"h{number}.test" for number in range(4)]
DOWN = "down.test"
AGENTS = {"one", "two"}


@dataclass(frozen=True)
class Fetch:
    """A request as the site saw it."""

    agent: str
    host: str
    path: str


class Site(ThreadingHTTPServer):
    """All hosts of a crawl. They share one robots.txt, which may change; one host fails first."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.robots = "User-agent: *\nDisallow: /b/\n"
        self.is_down = True
        self.fetches: list[Fetch] = []

    def fetched(self, prefix: str, hosts: list[str] = HOSTS) -> list[Fetch]:
        return [
            each for each in self.fetches if each.host in hosts and each.path.startswith(prefix)
        ]


class Handler(BaseHTTPRequestHandler):
    server: Site
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        host = self.headers["Host"]
        self.server.fetches.append(Fetch(self.headers["User-Agent"], host, self.path))
        is_robots = self.path == "/robots.txt"
        self.send_response(503 if is_robots and host == DOWN and self.server.is_down else 200)
        body = self.server.robots if is_robots else f"<p>{self.path} of {host}</p>"
        self.send_header("Content-Type", "text/plain" if is_robots else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_given: Any) -> None:
        pass


@contextmanager
def serving() -> Iterator[Site]:
    with Site() as site:
        thread = threading.Thread(target=site.serve_forever, daemon=True)
        thread.start()
        yield site
        site.shutdown()
        thread.join()


@pytest.fixture
def fleet(tmp_path: Path, redis_url: str) -> Iterator[tuple[Site, Fleet]]:
    with (
        serving() as site,
        Fleet(
            Crawls(tmp_path, redis_url),
            None,
            CRAWL_IDLE="wait",
            CRAWL_MAX_WAIT=1000,
            # Both processes fetch from every host.
            FLEET_STRATEGY="round_robin",
            SINKS="none",
            DNS_OVERRIDES=f'{{".test": "127.0.0.1:{site.server_port}"}}',
        ) as fleet,
    ):
        yield site, fleet


def on_crawl(redis_url: str, work: Callable[[CrawlControl, Any], Awaitable[Any]]) -> None:
    async def do() -> None:
        redis = await connect(redis_url)
        await work(await CrawlControl.open(redis, "web"), redis)
        await redis.aclose()

    asyncio.run(do())


def add(redis_url: str, name: str, count: int, hosts: list[str] = HOSTS) -> None:
    """Add pages below /a/ and /b/ of each host."""
    urls = [
        f"http://{host}/{part}/{name}-{number}"
        for host in hosts
        for part in "ab"
        for number in range(count)
    ]
    entries = [Entry(id=fingerprint(url), url=url) for url in urls]
    on_crawl(redis_url, lambda control, _redis: control.frontier.add(entries))


def forget(redis_url: str, hosts: list[str]) -> None:
    async def do(control: CrawlControl, redis: Any) -> None:
        for host in hosts:
            await HostRecords().forget_robots(control, redis, host)

    on_crawl(redis_url, do)


def test_all_processes_obey_a_corrected_robots_txt_in_both_directions(
    fleet: tuple[Site, Fleet], redis_url: str
) -> None:
    site, processes = fleet
    for agent in sorted(AGENTS):
        processes.start(f"http://{DOWN}/a/seed", USER_AGENT=agent)
    wait_until(lambda: site.fetched("/robots.txt", [DOWN]))
    rounds = iter(range(1000))

    def both_know_the_first_host() -> bool:
        if {fetch.agent for fetch in site.fetched("/a/", HOSTS[:1])} == AGENTS:
            return True
        number = next(rounds)
        add(redis_url, f"before-{number}", 5)
        wait_until(lambda: len(site.fetched(f"/a/before-{number}-")) == 5 * len(HOSTS))
        return False

    wait_until(both_know_the_first_host)
    assert not site.fetched("/b/")
    site.robots, site.is_down = "User-agent: *\nDisallow: /a/\n", False
    forget(redis_url, [*HOSTS, DOWN])
    corrected_s = time.monotonic()
    wait_until(lambda: time.monotonic() - corrected_s > 2)
    # Both processes fetch what was denied, and nothing of what was allowed.
    rounds = iter(range(1000))

    def both_obey() -> bool:
        if {fetch.agent for fetch in site.fetched("/b/", HOSTS[:1])} == AGENTS:
            return True
        number = next(rounds)
        add(redis_url, f"after-{number}", 5)
        wait_until(lambda: len(site.fetched(f"/b/after-{number}-")) == 5 * len(HOSTS))
        return False

    wait_until(both_obey)
    assert not site.fetched("/a/after")
    # The file that could not be fetched was to be tried again after five minutes.
    wait_until(lambda: len(site.fetched("/robots.txt", [DOWN])) == 2)
    add(redis_url, "up", 1, [DOWN])
    wait_until(lambda: site.fetched("/b/up", [DOWN]))
    assert not site.fetched("/a/", [DOWN])
