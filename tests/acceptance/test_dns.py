"""Whole crawls by real DNS: names that do not exist, and a server that goes away for a while."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import Process
from tests.support.dns_server import DnsServer
from tests.support.waiting import until

HOSTS, PAGES = 10, 6
TOLD = "DNS does not answer"
# Short times, so that the outage is long for the crawl.
QUICK = {
    "DNS_TTL_MIN": 0.3,
    "DNS_TTL_MAX": 0.3,
    "DNS_RETRY_WAIT": 0.3,
    "DNS_TIMEOUT": 1,
    "ROBOTS_ERROR_TTL": 1,
    "CRAWL_MAX_WAIT": 20,
    "DELAY_MIN": 0.2,
}


class Web:
    """Hosts h0.test, h1.test … with pages in a row, each first page linking to the next host."""

    def __init__(self) -> None:
        self.port = 0
        self.fetched: Counter[str] = Counter()

    def url(self, host: int, page: int) -> str:
        return f"http://h{host}.test:{self.port}/{page}"

    @property
    def urls(self) -> set[str]:
        return {self.url(host, page) for host in range(HOSTS) for page in range(PAGES)}

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                path = lines[0].split()[1]
                (host,) = (line[6:] for line in lines if line.lower().startswith("host: "))
                body = self._page(f"http://{host}{path}").encode()
                status = "404 No" if path == "/robots.txt" else "200 OK"
                head = f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\n"
                writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        except (asyncio.IncompleteReadError, OSError):
            writer.close()

    def _page(self, url: str) -> str:
        if url.endswith("/robots.txt"):
            return ""
        self.fetched[url] += 1
        host = int(url.partition("://h")[2].partition(".")[0] or HOSTS)
        page = int(url.rpartition("/")[2])
        links = [self.url(host, page + 1)] * (page + 1 < PAGES)
        links += [self.url(host + 1, 0)] * (page == 0 and host + 1 < HOSTS)
        return f"<title>{url}</title>" + "".join(f'<a href="{link}">x</a>' for link in links)


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    web = Web()
    server = await asyncio.start_server(web.handle, "127.0.0.1", 0)
    web.port = server.sockets[0].getsockname()[1]
    yield web
    server.close()


@pytest.fixture
async def dns() -> AsyncIterator[DnsServer]:
    async with DnsServer() as server:
        for host in range(HOSTS):
            server.set(f"h{host}.test", "127.0.0.1", ttl=1)
        yield server


async def crawl(
    folder: Path,
    redis_url: str,
    dns: DnsServer,
    seeds: str,
    meanwhile: Callable[[Process], Awaitable[None]] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Crawl to the end while this process serves DNS and the web; returns the summary."""
    given = {**QUICK, "DNS_SERVERS": dns.address, **settings}
    command = Crawls(folder, redis_url).command(seeds, arguments={"scope": "any"}, settings=given)
    process = Process(command, folder / "crawl.log")
    try:
        if meanwhile is not None:
            await meanwhile(process)
        assert await asyncio.to_thread(process.wait) == 0, process.log
    finally:
        process.kill()
    assert "Traceback" not in process.log
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return {**summary, "log": process.log}


@pytest.mark.parametrize("trouble", ["stopped", "servfail", "silent"])
async def test_an_outage_of_dns_holds_up_unknown_hosts_only_and_makes_nothing_fail(
    tmp_path: Path, redis_url: str, web: Web, dns: DnsServer, trouble: str
) -> None:
    during: Counter[str] = Counter()

    async def outage(process: Process) -> None:
        await until(lambda: len(web.fetched) >= 12)
        before, ends_s = web.fetched.copy(), monotonic() + 5 * QUICK["DNS_TTL_MAX"]
        if trouble == "stopped":
            await dns.stop()
        else:
            dns.mood = trouble

        def is_long_enough() -> bool:
            is_told = trouble == "stopped" or TOLD in process.log
            went_on = web.fetched - before and is_told and monotonic() > ends_s
            return bool(went_on) or not process.running

        await until(is_long_enough)
        during.update(web.fetched - before)
        if trouble == "stopped":
            await dns.start()
        dns.mood = "answers"

    summary = await crawl(tmp_path, redis_url, dns, web.url(0, 0), outage)
    assert summary["finished"], summary["log"]
    assert summary["this_run"]["dead"] == {}
    assert summary["this_run"]["retries"] == {}
    assert set(web.fetched) == web.urls
    assert max(web.fetched.values()) == 1
    # Hosts whose address was known went on, long after its time.
    assert during
    assert TOLD in summary["log"] or trouble == "stopped"


async def test_a_host_that_does_not_exist_is_given_up_and_dns_asked_once(
    tmp_path: Path, redis_url: str, web: Web, dns: DnsServer
) -> None:
    missing = " ".join(f"http://nowhere.test/{number}" for number in range(5))
    summary = await crawl(
        tmp_path,
        redis_url,
        dns,
        f"{web.url(HOSTS - 1, 0)} {missing}",
        RETRY_TIMES=1,
        RETRY_BASE=0.1,
    )
    assert summary["finished"], summary["log"]
    assert summary["this_run"]["dead"] == {"dns_nxdomain": 5}
    assert dns.asked["nowhere.test", "A"] == 1
    assert len(web.fetched) == PAGES


async def test_a_name_that_leads_into_a_private_network_is_given_up_at_once(
    tmp_path: Path, redis_url: str, web: Web, dns: DnsServer
) -> None:
    summary = await crawl(tmp_path, redis_url, dns, web.url(0, 0), ALLOW_NETWORKS="")
    assert summary["this_run"]["dead"] == {"private_address": 1}
    assert "h0.test is not connected to: its address is in a private" in summary["log"]
    assert not web.fetched


async def test_scrapys_own_handler_may_fetch_and_a_line_says_what_does_not_hold(
    tmp_path: Path, redis_url: str, web: Web, dns: DnsServer
) -> None:
    theirs = "scrapy.core.downloader.handlers.http11.HTTP11DownloadHandler"
    address = f"http://127.0.0.1:{web.port}/{PAGES - 1}"
    summary = await crawl(
        tmp_path, redis_url, dns, address, DOWNLOAD_HANDLERS=json.dumps({"http": theirs})
    )
    assert summary["finished"], summary["log"]
    assert list(web.fetched) == [address]
    assert summary["log"].count(f"http is fetched by {theirs}: it does not keep out") == 1
