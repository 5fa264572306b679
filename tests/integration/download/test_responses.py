"""Answers as servers of the web send them: what is taken of them, and what is not."""

import asyncio

import pytest
from scrapy import Request, signals
from scrapy.exceptions import DownloadFailedError, ResponseDataLossError

from crawler.download.handler import DownloadHandler
from tests.support.http_server import (
    Answer,
    handler_with,
    ok,
    reset,
    serving,
    then_closed,
    then_silent,
)

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def in_bits(data: bytes, size: int = 1) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        for start in range(0, len(data), size):
            writer.write(data[start : start + size])
            await writer.drain()
            await asyncio.sleep(0)

    return answer


# --- what is taken -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        ok(b"abc"),
        CHUNKED + b"3\r\nabc\r\n0\r\n\r\n",
        CHUNKED + b"1\r\na\r\n2\r\nbc\r\n0\r\n\r\n",
        CHUNKED + b"3;name=value\r\nabc\r\n0\r\nX-Trailer: x\r\nX-Other: y\r\n\r\n",
        CHUNKED + b"3 \r\nabc\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip, Chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + ok(b"abc"),
        b"HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n" + ok(b"abc"),
        b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 3 + ok(b"abc"),
        b"HTTP/1.1 200\nContent-Length: 3\n\nabc",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc",
    ],
    ids="length chunk chunks trailers space codings 100 100:0 103 lf 1.0".split(),
)
async def test_an_answer_that_ends_is_taken_and_its_connection_kept(
    handler: DownloadHandler, answer: bytes
) -> None:
    for served in (then_silent(answer), in_bits(answer)):
        async with serving(served) as server:
            for _ in range(2):
                response = await handler.download_request(Request(server.url))
                assert (response.status, response.body, response.flags) == (200, b"abc", [])
                assert "Link" not in response.headers
                assert "X-Trailer" not in response.headers
        assert server.connections == 1


@pytest.mark.parametrize(
    "head",
    [
        HEAD,
        HEAD + b"Connection: close\r\n",
        b"HTTP/1.0 200 OK\r\n",
        HEAD + b"Transfer-Encoding: gzip\r\n",
    ],
    ids=["1.1", "close", "1.0", "coding"],
)
async def test_an_answer_without_an_end_ends_with_its_connection(
    handler: DownloadHandler, head: bytes
) -> None:
    async with serving(then_closed(head + b"\r\nabc")) as server:
        for _ in range(2):
            response = await handler.download_request(Request(server.url))
            assert (response.body, response.flags) == (b"abc", [])
    assert server.connections == 2


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("HEAD", HEAD + b"Content-Length: 99999999999\r\n\r\n"),
        ("HEAD", CHUNKED),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99999999999\r\n\r\n"),
        ("GET", HEAD + b"Content-Length: 0\r\n\r\n"),
    ],
    ids=["head", "chunked head", "204", "304", "0"],
)
async def test_an_answer_without_a_body_is_whole_with_its_head(
    handler: DownloadHandler, method: str, answer: bytes
) -> None:
    async with serving(then_silent(answer)) as server:
        for _ in range(2):
            response = await handler.download_request(Request(server.url, method=method))
            assert response.body == b""
    assert server.connections == 1


async def test_a_big_body_comes_in_parts(handler: DownloadHandler) -> None:
    body = bytes(range(256)) * 12_000
    chunks = b"".join(
        b"%x\r\n%b\r\n" % (len(part), part)
        for part in (body[start : start + 50_000] for start in range(0, len(body), 50_000))
    )
    for answer in (ok(body), CHUNKED + chunks + b"0\r\n\r\n"):
        async with serving(answer) as server:
            assert (await handler.download_request(Request(server.url))).body == body


async def test_headers_are_taken_as_they_are(handler: DownloadHandler) -> None:
    fields = [b"x-Odd: \xe9\x01\xff \t", b"X-Odd: 2", b"ETag:", b"x_y: z", b"X-Fold: a\r\n b"]
    async with serving(ok(b"", *fields)) as server:
        headers = (await handler.download_request(Request(server.url))).headers
    assert headers.getlist("X-Odd") == [b"\xe9\x01\xff", b"2"]
    assert (headers["ETag"], headers["x_y"]) == (b"", b"z")
    assert headers["X-Fold"].split() == [b"a", b"b"]
    assert headers.getlist("Content-Length") == [b"0"]


# --- what is not ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        CHUNKED + b"zz\r\n",
        CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n",
        CHUNKED + b"-1\r\n\r\n",
        CHUNKED + b"ffffffffffffffffff\r\n",
    ],
    ids=["no length", "longer", "negative", "huge"],
)
@pytest.mark.parametrize("at_once", [True, False])
async def test_a_body_in_bad_chunks_is_data_loss(answer: bytes, at_once: bool) -> None:
    served = then_silent(answer) if at_once else in_bits(answer)
    async with (
        handler_with(DOWNLOAD_FAIL_ON_DATALOSS=False) as handler,
        serving(served) as server,
    ):
        response = await handler.download_request(Request(server.url))
        assert response.flags == ["dataloss", "dataloss:chunks"]
        assert response.body in (b"", b"abc")
        with pytest.raises(ResponseDataLossError):
            await handler.download_request(
                Request(server.url, meta={"download_fail_on_dataloss": True})
            )
    assert server.connections == 2


async def test_what_has_no_end_and_breaks_is_data_loss() -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"\r\nabc")
        await writer.drain()
        await seen.wait()
        await reset(writer)

    seen = asyncio.Event()
    async with (
        handler_with(DOWNLOAD_FAIL_ON_DATALOSS=False) as handler,
        serving(answer) as server,
    ):
        # A reset may take with it what came before and was not read.
        handler.crawler.signals.connect(seen.set, signals.bytes_received)
        response = await handler.download_request(Request(server.url))
    assert (response.body, response.flags) == (b"abc", ["dataloss", "dataloss:reset"])


async def test_a_body_before_the_answer_is_no_part_of_it(handler: DownloadHandler) -> None:
    interim = b"HTTP/1.1 150 Odd\r\nContent-Length: 5\r\n\r\nother"
    async with serving(then_silent(interim + ok(b"abc"))) as server:
        with pytest.raises(DownloadFailedError):
            await handler.download_request(Request(server.url))


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: 3\r\nContent-Length: 4",
        b"Content-Length: 3, 4",
        b"X: a\0b",
    ],
)
async def test_a_head_that_can_be_read_in_two_ways_is_no_answer(
    handler: DownloadHandler, fields: bytes
) -> None:
    async with serving(then_closed(HEAD + fields + b"\r\n\r\nabc")) as server:
        with pytest.raises(DownloadFailedError):
            await handler.download_request(Request(server.url))


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"HTTP/1.1 200 ", b"x"),
        (HEAD + b"X: ", b"x"),
        (HEAD + b"X", b"x"),
        (HEAD, b"X: " + b"x" * 30_000 + b"\r\n"),
        (HEAD, b"X: y\r\n"),
        (CHUNKED + b"3;", b"x"),
        (CHUNKED + b"0\r\nX: ", b"x"),
        (CHUNKED + b"0\r\n", b"X: y\r\n"),
    ],
    ids=["reason", "value", "name", "long headers", "headers", "extension", "trailer", "trailers"],
)
async def test_nothing_but_the_body_is_without_bounds(begin: bytes, more: bytes) -> None:
    sent = 0

    async def endless(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(begin)
        while True:
            sent += 64 * 1024
            writer.write(more * (64 * 1024 // len(more)))
            await writer.drain()

    # It ends by itself, not by its time.
    async with handler_with(DOWNLOAD_TIMEOUT=0) as handler, serving(endless) as server:
        with pytest.raises((DownloadFailedError, ResponseDataLossError)):
            await handler.download_request(Request(server.url))


async def test_a_length_that_the_parser_knows_is_known_here_too() -> None:
    answer = HEAD + b"Content-Length : 5\r\n\r\nabc"
    async with (
        handler_with(DOWNLOAD_FAIL_ON_DATALOSS=False) as handler,
        serving(then_closed(answer)) as server,
    ):
        response = await handler.download_request(Request(server.url))
    assert (response.body, response.flags) == (b"abc", ["dataloss", "dataloss:length"])
    assert response.headers["Content-Length"] == b"5"


async def test_all_headers_together_have_a_limit(handler: DownloadHandler) -> None:
    fields = [b"X-%d: " % number + b"y" * 20_000 for number in range(20)]
    async with serving(ok(b"", *fields)) as server:
        with pytest.raises(DownloadFailedError, match="too many or too long"):
            await handler.download_request(Request(server.url))


async def test_as_many_headers_as_are_allowed_are_taken(handler: DownloadHandler) -> None:
    fields = [b"X-%d: 1" % number for number in range(4094)] + [b"X-Long: " + b"y" * 65_000]
    async with serving(ok(b"", *fields)) as server:
        headers = (await handler.download_request(Request(server.url))).headers
    assert len(headers) == 4096
