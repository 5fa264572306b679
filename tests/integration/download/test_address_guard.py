"""No connection into private networks, however the address is written or comes about.

A listener on all addresses of this machine counts: it must never be connected to.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import DownloadFailedError, UnsupportedURLSchemeError

from crawler.dns.lookup import NoSuchHost
from crawler.download.errors import PrivateAddress
from crawler.download.handler import DownloadHandler
from crawler.urls import canonical, host_of
from tests.support.crawlers import project_crawler
from tests.support.dns_server import DnsServer

# Hosts of URLs, as a page or a redirect may spell them.
SPELLINGS = """
127.0.0.1 127.1 127.0.1 127.000.000.001 2130706433 0x7f000001 0x7F.1 0x7f.0.0.1 0177.0.0.1
017700000001 0177.1 127.0.0.1. 127.0.0.0x1 127.255.255.254 127.0.0.53 ①②⑦.⓪.⓪.① １２７.0.0.1
0 0x0 00 0.0.0.0 0.0.0.1 [::] [::0] [::1] [0:0:0:0:0:0:0:1] [0000::0001] [::0.0.0.1]
[::ffff:127.0.0.1] [::ffff:7f00:1] [0:0:0:0:0:ffff:7f00:1] [::FFFF:127.0.0.1] [::127.0.0.1]
[::7f00:1] [::ffff:0:127.0.0.1] [64:ff9b::127.0.0.1] [64:ff9b::7f00:1] [64:ff9b:1::7f00:1]
[2002:7f00:1::] [2002:7f00:1::1] [2001:0:7f00:1::1] [2001::1] [fe80::1] [fe80::1%25lo] [fc00::1]
[fd00::1] [ff02::1] [fec0::1] [100::1] [2001:db8::1] [3fff::1] [5f00::1]
10.0.0.1 10.1 0xa000001 167772161 012.1 172.16.0.1 172.31.255.254 192.168.0.1 192.168.1
3232235521 0xc0a80001 0300.0250.1 169.254.169.254 169.254.43518 2852039166 0xa9fea9fe
100.64.0.1 100.127.255.254 192.0.0.1 192.0.2.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1
239.255.255.250 240.0.0.1 255.255.255.255 4294967295 localhost LOCALHOST a.localhost localhost.
""".split()
# Where a name may lead.
PRIVATE = """
127.0.0.1 0.0.0.0 10.0.0.1 172.16.0.1 192.168.0.1 169.254.169.254 100.64.0.1 224.0.0.1 240.0.0.1
::1 :: ::ffff:127.0.0.1 ::127.0.0.1 64:ff9b::7f00:1 2002:7f00:1::1 fe80::1 fd00::1 ff02::1
""".split()


class Listener:
    """Counts connections to every address of this machine."""

    def __init__(self) -> None:
        self.port = 0
        self.connections = 0
        self.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nsecret"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(self.answer)
        writer.close()


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    listener = Listener()
    server = await asyncio.start_server(listener.handle, "0.0.0.0", 0)
    listener.port = server.sockets[0].getsockname()[1]
    yield listener
    server.close()


class Handler(DownloadHandler):
    """The handler, with a way to give it any URL."""

    async def fetch(self, url: str, **meta: Any) -> bytes:
        meta = {"download_timeout": 2, **meta}
        return (await self.download_request(Request(url, meta=meta))).body

    @property
    def refused(self) -> int:
        return int(self.crawler.stats.get_value("guard/refused", 0))


@asynccontextmanager
async def handler_with(**settings: Any) -> AsyncIterator[Handler]:
    handler = Handler.from_crawler(project_crawler(**settings))
    try:
        yield handler
    finally:
        await handler.close()


def test_there_are_spellings_enough() -> None:
    assert len(set(SPELLINGS)) >= 60


async def test_no_spelling_of_a_private_address_leads_to_a_connection(
    listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    async with DnsServer() as dns, handler_with(DNS_SERVERS=[dns.address]) as handler:
        for spelling in SPELLINGS:
            for url in (
                f"http://{spelling}:{listener.port}/",
                canonical(f"http://{spelling}:{listener.port}/"),
            ):
                if isinstance(url, str):
                    # What is no address for the parser is none for anybody.
                    with pytest.raises(
                        (PrivateAddress, UnsupportedURLSchemeError, DownloadFailedError, NoSuchHost)
                    ):
                        await handler.fetch(url)
        refused = handler.refused
        assert not any(name.isdecimal() for name, _ in dns.asked)
    assert listener.connections == 0
    assert refused >= len(SPELLINGS)
    # One line for each host, as its canonical URL spells it.
    refusal = " is not connected to: its address is in a private or reserved network"
    said = [record.getMessage() for record in caplog.records if refusal in record.getMessage()]
    hosts = {line.partition(" ")[0] for line in said}
    assert len(hosts) == len(said)
    urls = [canonical(f"http://{spelling}/") for spelling in SPELLINGS]
    assert {host_of(url) for url in urls if isinstance(url, str)} <= hosts


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_a_canonical_url_with_a_private_address_is_refused_as_such(spelling: str) -> None:
    url = canonical(f"http://{spelling}/")
    if not isinstance(url, str):
        # Not crawled at all.
        return
    async with handler_with() as handler:
        with pytest.raises(PrivateAddress, match="ALLOW_NETWORKS can open it"):
            await handler.fetch(url)


async def test_no_name_leads_to_a_private_address(listener: Listener) -> None:
    async with DnsServer() as dns, handler_with(DNS_SERVERS=[dns.address]) as handler:
        # Without a route for IPv6 its addresses are not even asked for.
        handler._client._resolver.cache._lookup._kinds = ("A", "AAAA")
        for number, address in enumerate(PRIVATE):
            dns.set(f"{number}.test", address)
            with pytest.raises(PrivateAddress):
                await handler.fetch(f"http://{number}.test:{listener.port}/")
        assert handler.refused == len(PRIVATE)
    assert listener.connections == 0


async def test_a_name_that_becomes_private_later_is_refused_then(listener: Listener) -> None:
    settings = {"DNS_TTL_MIN": 0, "DNS_TTL_MAX": 0, "ALLOW_NETWORKS": ["127.0.0.2"]}
    async with DnsServer() as dns, handler_with(DNS_SERVERS=[dns.address], **settings) as handler:
        url = f"http://rebound.test:{listener.port}/"
        # 127.0.0.2 stands for a public address here: it is open.
        dns.set("rebound.test", "127.0.0.2", ttl=0)
        assert await handler.fetch(url) == b"secret"
        dns.set("rebound.test", "127.0.0.1", ttl=0)
        with pytest.raises(PrivateAddress):
            await handler.fetch(url)
    assert listener.connections == 1


async def test_an_answer_that_changes_between_question_and_connection_changes_nothing(
    listener: Listener,
) -> None:
    settings = {"DNS_TTL_MIN": 0, "DNS_TTL_MAX": 0, "ALLOW_NETWORKS": ["127.0.0.2"]}
    async with DnsServer() as dns, handler_with(DNS_SERVERS=[dns.address], **settings) as handler:
        dns.set("rebound.test", "127.0.0.2", ttl=0)
        # The middleware asks first, and the connection asks again.
        await handler._client._resolver.look_up("rebound.test")
        dns.set("rebound.test", "127.0.0.1", ttl=0)
        with pytest.raises(PrivateAddress):
            await handler.fetch(f"http://rebound.test:{listener.port}/")
    assert listener.connections == 0


async def test_of_several_addresses_only_the_open_ones_are_connected_to(
    listener: Listener,
) -> None:
    settings = {"ALLOW_NETWORKS": ["127.0.0.2"]}
    async with DnsServer() as dns, handler_with(DNS_SERVERS=[dns.address], **settings) as handler:
        dns.set("mixed.test", "10.0.0.1", "127.0.0.1", "127.0.0.2")
        response = await handler.download_request(
            Request(f"http://mixed.test:{listener.port}/", meta={"download_timeout": 2})
        )
    assert str(response.ip_address) == "127.0.0.2"
    assert listener.connections == 1


async def test_an_override_is_judged_like_any_address(listener: Listener) -> None:
    overrides = {"inside.test": f"127.0.0.1:{listener.port}"}
    async with handler_with(DNS_OVERRIDES=overrides) as handler:
        with pytest.raises(PrivateAddress):
            await handler.fetch("http://inside.test/")
    assert listener.connections == 0


async def test_a_proxy_may_be_private_but_what_it_is_asked_for_may_not(listener: Listener) -> None:
    proxy = f"http://127.0.0.1:{listener.port}"
    async with handler_with() as handler:
        for host in ("127.0.0.1", "[::1]", "localhost", "169.254.169.254"):
            with pytest.raises(PrivateAddress):
                await handler.fetch(f"http://{host}/", proxy=proxy)
        assert listener.connections == 0
        assert await handler.fetch("http://h.test/", proxy=proxy) == b"secret"
        # The proxy's address is open for the proxy alone.
        with pytest.raises(PrivateAddress):
            await handler.fetch(f"http://127.0.0.1:{listener.port}/")
    assert listener.connections == 1
