"""Bytes on the wire for sinks that archive them: heads as they came, bodies before unpacking."""

import asyncio
import gzip
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from scrapy import Request
from scrapy.http import Response

from crawler.download.handler import DownloadHandler
from crawler.items import Exchange
from crawler.util.request_meta import ARCHIVED, EXCHANGE, FINISH, LEASE
from tests.support.certificates import server_context
from tests.support.http_server import Answer, handler_with, ok, serving, then_closed, then_silent

HEAD = b"HTTP/1.1 200 OK\r\n"
INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
ARCHIVING = {"SINKS": "warc:archive/"}


def in_bits(data: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        for byte in data:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)

    return answer


@pytest.fixture
async def archiving() -> AsyncIterator[DownloadHandler]:
    async with handler_with(**ARCHIVING) as handler:
        yield handler


async def fetch(handler: DownloadHandler, url: str) -> tuple[Response, Exchange]:
    request = Request(url, meta={ARCHIVED: True}, headers={"X-Odd": "1"})
    response = await handler.download_request(request)
    return response, request.meta[EXCHANGE]


@pytest.mark.parametrize(
    ("head", "rest", "body"),
    [
        (HEAD + b"x-oDD: a\r\nX-Odd:b\r\ncontent-LENGTH: 3\r\n\r\n", b"abc", b"abc"),
        (b"HTTP/1.1 200\ncontent-length: 3\n\n", b"abc", b"abc"),
        (HEAD + b"transfer-encoding: chunked\r\n\r\n", b"1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", b"abc"),
        # Heads that are mended: stored as they came.
        (HEAD + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\n", b"abc", b"abc"),
        (HEAD + b"no colon\r\nNa me: x\r\nContent-Length: 3\r\n\r\n", b"abc", b"abc"),
        (b"HTTP/2 200 OK\r\nContent-Length: 3\r\n\r\n", b"abc", b"abc"),
        (HEAD + b"no colon\r\nX: HTTP/1.1 200\r\nContent-Length: 3\r\n\r\n", b"abc", b"abc"),
        (
            HEAD + b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"3\r\nabc\r\n0\r\n\r\n",
            b"abc",
        ),
    ],
    ids="odd lf chunks twice unnamed 2 value length,chunks".split(),
)
@pytest.mark.parametrize(
    "before",
    [b"", INTERIM * 2, b"\r\n", b"HTTP/1.1 100 \r\nA: b\r\n\r\n\r\n"],
    ids=["", "103", "blank", "100"],
)
async def test_a_head_is_kept_as_it_came(
    archiving: DownloadHandler, before: bytes, head: bytes, rest: bytes, body: bytes
) -> None:
    for answer in (then_silent(before + head + rest), in_bits(before + head + rest)):
        async with serving(answer) as server:
            for _ in range(2):
                response, exchange = await fetch(archiving, server.url)
                assert response.body == body
                assert (exchange.head, exchange.body) == (head, body)


async def test_a_packed_body_is_kept_packed(archiving: DownloadHandler) -> None:
    packed = gzip.compress(b"<p>hello</p>")
    async with serving(ok(packed, b"Content-Encoding: gzip")) as server:
        _, exchange = await fetch(archiving, server.url)
        assert exchange.body == packed
        assert exchange.request == server.requests[0]
    assert b"X-Odd: 1\r\n" in exchange.request
    assert (exchange.address, exchange.protocols) == ("127.0.0.1", ("http/1.1",))
    assert (exchange.truncated, exchange.url) == ("", server.url)
    assert abs(exchange.began_s - time.time()) < 60


async def test_the_version_of_tls_is_kept(archiving: DownloadHandler, tmp_path: Path) -> None:
    async with serving(ok(b"abc"), tls=server_context(tmp_path)) as server:
        _, exchange = await fetch(archiving, server.url.replace("http:", "https:"))
    assert exchange.protocols == ("http/1.1", "tls/1.3")


@pytest.mark.parametrize(
    ("settings", "meta", "truncated", "body"),
    [
        ({}, {}, "disconnect", b"abc"),
        ({}, {"download_cut": 2}, "length", b"abc"),
        ({"ACCEPT_TYPES": ["text/html"]}, {LEASE: None}, "unspecified", b""),
    ],
    ids=["lost", "cut", "type"],
)
async def test_a_body_that_is_not_whole_says_why(
    settings: dict[str, object], meta: dict[str, int | None], truncated: str, body: bytes
) -> None:
    answer = HEAD + b"Content-Type: image/png\r\nContent-Length: 9\r\n\r\nabc"
    values = {**ARCHIVING, "DOWNLOAD_FAIL_ON_DATALOSS": False, "ACCEPT_TYPES": [], **settings}
    async with handler_with(**values) as handler, serving(then_closed(answer)) as server:
        request = Request(server.url, meta={ARCHIVED: True, **meta})
        await handler.download_request(request)
    exchange = request.meta[EXCHANGE]
    assert (exchange.truncated, exchange.body) == (truncated, body)


async def test_nothing_is_kept_unless_a_sink_archives(handler: DownloadHandler) -> None:
    async with serving(ok(b"abc")) as server:
        request = Request(server.url, meta={ARCHIVED: True})
        await handler.download_request(request)
    assert EXCHANGE not in request.meta


async def test_what_is_made_of_a_response_does_not_change_what_was_on_the_wire(
    archiving: DownloadHandler,
) -> None:
    async def finish(_request: Request, response: Response) -> Response:
        return response.replace(body=b"rendered")

    async with serving(ok(b"abc")) as server:
        request = Request(server.url, meta={ARCHIVED: True, FINISH: finish})
        response = await archiving.download_request(request)
    assert (response.body, request.meta[EXCHANGE].body) == (b"rendered", b"abc")
