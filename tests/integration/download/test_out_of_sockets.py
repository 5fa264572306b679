"""No file descriptor left: this process's own trouble, which is nobody else's."""

import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from scrapy import Request
from scrapy.exceptions import DownloadTimeoutError

from crawler.download.handler import DownloadHandler
from crawler.util.file_limit import OutOfSockets
from tests.support.dns_server import DnsServer
from tests.support.http_server import handler_with, ok, serving, then_silent


@contextmanager
def no_file_left() -> Iterator[None]:
    """Nothing can be opened inside of the block."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as sock:
        # What is opened gets the lowest number that is free, which must be below the limit.
        lowest = sock.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))


@pytest.fixture
def port() -> Iterator[int]:
    """Of a socket that can be connected to without an accept, which would take a file."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        yield sock.getsockname()[1]


async def test_it_is_no_refusal_of_the_host(handler: DownloadHandler, port: int) -> None:
    request = Request(f"http://127.0.0.1:{port}/")
    for meta in ({}, {"bindaddress": "127.0.0.1"}, {"proxy": f"http://127.0.0.1:{port}"}):
        with no_file_left(), pytest.raises(OutOfSockets, match="Too many open files"):
            await handler.download_request(request.replace(meta=meta))


async def test_it_is_no_refusal_of_any_address_of_a_host(port: int) -> None:
    async with DnsServer() as dns, handler_with(DNS_SERVERS=[dns.address]) as handler:
        dns.set("several.test", "127.0.0.1", "127.0.0.2")
        await handler._client._resolver.look_up("several.test")
        with no_file_left(), pytest.raises(OutOfSockets):
            await handler.download_request(Request(f"http://several.test:{port}/"))


async def test_it_is_no_silence_of_dns(port: int) -> None:
    async with DnsServer() as dns, handler_with(DNS_SERVERS=[dns.address]) as handler:
        dns.set("one.test", "127.0.0.1")
        for name in ("one.test", "word"):
            with no_file_left(), pytest.raises(OutOfSockets):
                await handler.download_request(Request(f"http://{name}:{port}/"))
        stats = handler.crawler.stats
        assert stats is not None
        assert not stats.get_value("dns/errors")


async def test_connections_that_wait_for_another_fetch_make_room(port: int) -> None:
    async with serving(then_silent(ok(b"x"))) as server:
        overrides = {".test": f"127.0.0.1:{server.port}"}
        async with handler_with(DNS_OVERRIDES=overrides) as handler:
            for host in ("a", "b", "c"):
                await handler.download_request(Request(f"http://{host}.test/"))
            pool = handler._client.pool
            assert len(pool.waiting) == 3
            # It is connected, and nobody answers.
            request = Request(f"http://127.0.0.1:{port}/", meta={"download_timeout": 1})
            with no_file_left(), pytest.raises(DownloadTimeoutError):
                await handler.download_request(request)
            assert not pool.waiting
            # They are kept again when there is room.
            for host in ("a", "b", "c"):
                await handler.download_request(Request(f"http://{host}.test/"))
            assert len(pool.waiting) == 3
