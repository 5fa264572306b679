"""Answers with a malformed head: taken as browsers take them, and told from a host's silence."""

import asyncio

import pytest
from scrapy import Request
from scrapy.exceptions import DownloadFailedError

from crawler.download.errors import Malformed
from crawler.download.handler import DownloadHandler
from tests.support.http_server import Answer, handler_with, serving, then_closed, then_silent

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKS = b"3\r\nabc\r\n0\r\n\r\n"


def in_bits(data: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        for byte in data:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)

    return answer


@pytest.mark.parametrize(
    "answer",
    [
        HEAD + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        HEAD + b"Content-Length: 3, 3\r\n\r\nabc",
        HEAD + b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS,
        HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n" + CHUNKS,
        HEAD + b"no colon\r\nContent-Length: 3\r\n\r\nabc",
        HEAD + b": x\r\nContent-Length: 3\r\n\r\nabc",
        HEAD + b"Na me: x\r\nContent-Length: 3\r\n\r\nabc",
        HEAD + "Naïve: x\r\nContent-Length: 3\r\n\r\nabc".encode(),
        b"HTTP/2 200 OK\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 103 \r\nLink: </x>\r\n\r\nHTTP/2 200 \r\nContent-Length: 3\r\n\r\nabc",
    ],
    ids="twice list length,chunks chunks,length colon unnamed blank utf-8 2 103".split(),
)
async def test_a_malformed_head_is_mended_and_its_connection_not_used_again(
    handler: DownloadHandler, answer: bytes
) -> None:
    for served in (then_silent(answer), in_bits(answer)):
        async with serving(served) as server:
            for _ in range(2):
                response = await handler.download_request(Request(server.url))
                assert (response.status, response.body, response.flags) == (200, b"abc", [])
                assert len(response.headers.getlist("Content-Length")) <= 1
                assert response.protocol == "HTTP/1.1"
        assert server.connections == 2


async def test_the_other_headers_of_a_malformed_head_are_taken(handler: DownloadHandler) -> None:
    answer = HEAD + b"Content-Type: text/html\r\nno colon\r\nX: 1\r\nX: 2\r\n\r\n<p>"
    async with serving(then_closed(answer)) as server:
        response = await handler.download_request(Request(server.url))
    assert response.headers.to_unicode_dict() == {"Content-Type": "text/html", "X": "1,2"}
    assert response.body == b"<p>"


@pytest.mark.parametrize(
    "answer",
    [
        b"220 mail.test ESMTP\r\n",
        HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        HEAD + b"X: a\0b\r\n\r\n",
        HEAD + b"no colon\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
        HEAD + b"no colon\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
    ],
    ids=["greeting", "lengths", "zero", "long", "many"],
)
async def test_a_host_that_answers_nonsense_did_answer(answer: bytes) -> None:
    # By itself, not by its time.
    async with handler_with(DOWNLOAD_TIMEOUT=0) as handler, serving(then_silent(answer)) as server:
        with pytest.raises(Malformed):
            await handler.download_request(Request(server.url))


async def test_a_malformed_head_that_does_not_end_is_nonsense(handler: DownloadHandler) -> None:
    async with serving(then_closed(HEAD + b"no colon\r\nX: y\r\n")) as server:
        with pytest.raises(Malformed):
            await handler.download_request(Request(server.url))


async def test_a_malformed_head_is_not_collected_without_end() -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"no colon\r\n")
        while True:
            writer.write(b"X: y\r\n" * 1000)
            await writer.drain()

    async with handler_with(DOWNLOAD_TIMEOUT=0) as handler, serving(endless) as server:
        with pytest.raises(Malformed):
            await handler.download_request(Request(server.url))


@pytest.mark.parametrize("answer", [b"", HEAD + b"X: y"])
async def test_a_connection_that_ends_within_the_head_is_no_answer(
    handler: DownloadHandler, answer: bytes
) -> None:
    async with serving(then_closed(answer)) as server:
        with pytest.raises(DownloadFailedError) as error:
            await handler.download_request(Request(server.url))
    assert not isinstance(error.value, Malformed)


async def test_nonsense_by_way_of_a_proxy_is_an_answer_too(handler: DownloadHandler) -> None:
    async with serving(then_closed(b"220 mail.test ESMTP\r\n\r\n")) as server:
        request = Request("http://h.test/", meta={"proxy": server.url})
        with pytest.raises(Malformed):
            await handler.download_request(request)
