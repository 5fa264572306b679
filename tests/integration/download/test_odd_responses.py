"""Answers that browsers can read though they are not as they should be.

What is odd in form is taken at once and its connection not used again; a body that broke off is
data loss, with its cause.
"""

import asyncio
import gzip
import random
import zlib

import brotli
import pytest
import zstandard
from scrapy import Request, signals
from scrapy.exceptions import ResponseDataLossError
from scrapy.http import Response
from scrapy.utils.defer import ensure_awaitable

from crawler.download import response_parser as answers
from crawler.download.handler import DownloadHandler
from crawler.download.receiver import Receiver
from crawler.fastpath.decompression import Decompression
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
PAGE = b"<html><p>" + b"".join(b"%d " % number for number in range(3000))
PACK = {
    b"gzip": gzip.compress,
    b"deflate": zlib.compress,
    b"br": brotli.compress,
    b"zstd": zstandard.compress,
}


def in_bits(data: bytes, *, closes: bool) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        for byte in data:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        if closes:
            writer.close()

    return answer


# --- odd in form ---------------------------------------------------------------------------------

# Of these the server says where they end, so that it may keep the connection open.
ENDED = {
    "LF after a length": CHUNKED + b"3\nabc\r\n0\r\n\r\n",
    "LF after a chunk": CHUNKED + b"3\r\nabc\n0\r\n\r\n",
    "LF after an extension": CHUNKED + b"3;x=y\nabc\r\n0\r\n\r\n",
    "LF after the last length": CHUNKED + b"3\r\nabc\r\n0\n\r\n",
    "LF at the end": CHUNKED + b"3\r\nabc\r\n0\r\n\n",
    "LF everywhere": HEAD.strip() + b"\nTransfer-Encoding: chunked\n\n1\na\n2\nbc\n0\n\n",
    "LF in several chunks": CHUNKED + b"1\r\na\r\n1\nb\n1\r\nc\r\n0\r\n\r\n",
    "no trailer": CHUNKED + b"3\r\nabc\r\n0\r\nno trailer\r\n\r\n",
    "no empty line": CHUNKED + b"3\r\nabc\r\n0\r\n",
    "no empty line, LF": CHUNKED + b"3\nabc\n0\n",
    "bytes after the end": CHUNKED + b"3\nabc\n0\n\nmore",
    "codings with a comma": HEAD + b"Transfer-Encoding: chunked,\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "codings that end in none": (
        HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    ),
    "interim": b"HTTP/1.1 103 Hints\r\nA: b\r\n\r\n" + CHUNKED + b"3\nabc\n0\n\n",
    "a line before the status line": b"garbage\r\n" + ok(b"abc"),
    "lines before the status line": b"\r\n<b>Notice</b>: x\n\nHTTP\r\n" + ok(b"abc"),
    "a line before chunks": b"garbage\n" + CHUNKED + b"3\r\nabc\r\n0\r\n\r\n",
    "length with a comma": HEAD + b"Content-Length: 3,\r\n\r\nabc",
    "length and nonsense": HEAD + b"Content-Length: x\r\nContent-Length: 3\r\n\r\nabc",
}
# And these end with their connection.
CLOSED = {
    "no end of the last length": CHUNKED + b"3\r\nabc\r\n0",
    "no LF at the last length": CHUNKED + b"3\r\nabc\r\n0\r",
    "half of the empty line": CHUNKED + b"3\r\nabc\r\n0\r\n\r",
    "half of a trailer": CHUNKED + b"3\r\nabc\r\n0\r\nX: y",
    "+": HEAD + b"Content-Length: +3\r\n\r\nabc",
    "-": HEAD + b"Content-Length: -1\r\n\r\nabc",
    "letters": HEAD + b"Content-Length: three\r\n\r\nabc",
    "hexadecimal": HEAD + b"Content-Length: 0x3\r\n\r\nabc",
    "fraction": HEAD + b"Content-Length: 3.0\r\n\r\nabc",
    "two words": HEAD + b"Content-Length: 1 2\r\n\r\nabc",
    "empty": HEAD + b"Content-Length:\r\n\r\nabc",
    "huge": HEAD + b"Content-Length: 99999999999999999999999\r\n\r\nabc",
    "line before a body without length": b"garbage\r\n" + HEAD + b"\r\nabc",
}


@pytest.mark.parametrize("answer", ENDED.values(), ids=ENDED)
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "in bits"])
async def test_what_is_odd_in_form_is_taken_at_once_and_its_connection_not_used_again(
    handler: DownloadHandler, answer: bytes, at_once: bool
) -> None:
    served = then_silent(answer) if at_once else in_bits(answer, closes=False)
    async with serving(served) as server:
        for _ in range(2):
            response = await handler.download_request(Request(server.url))
            assert (response.status, response.body, response.flags) == (200, b"abc", [])
    assert (server.connections, len(server.requests)) == (2, 2)


@pytest.mark.parametrize("answer", [*ENDED.values(), *CLOSED.values()], ids=[*ENDED, *CLOSED])
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "in bits"])
async def test_what_is_odd_in_form_may_end_with_its_connection(
    handler: DownloadHandler, answer: bytes, at_once: bool
) -> None:
    served = then_closed(answer) if at_once else in_bits(answer, closes=True)
    async with serving(served) as server:
        for _ in range(2):
            response = await handler.download_request(Request(server.url))
            assert (response.status, response.body, response.flags) == (200, b"abc", [])
    assert server.connections == 2


async def test_chunks_that_begin_with_line_feeds_keep_them(handler: DownloadHandler) -> None:
    for end in (b"\n", b"\r\n"):
        body = b"4|\n\na\n|2|\n\n|1|\n|0||".replace(b"|", end)
        async with serving(then_silent(CHUNKED + body)) as server:
            response = await handler.download_request(Request(server.url))
        assert response.body == b"\n\na\n\n\n\n"


async def test_many_headers_and_long_ones_are_taken(handler: DownloadHandler) -> None:
    many = [b"X-%d: %d" % (number, number) for number in range(1000)]
    long = [b"Set-Cookie: " + b"y" * 60_000, b"Content-Security-Policy: " + b"z" * 60_000]
    for fields in (many, long, many + long):
        async with serving(then_silent(ok(b"abc", *fields))) as server:
            for _ in range(2):
                response = await handler.download_request(Request(server.url))
                assert response.body == b"abc"
                assert len(response.headers) == len(fields) + 1
        # They are nothing that a server may not send.
        assert server.connections == 1


async def test_a_malformed_head_with_many_headers_is_mended(handler: DownloadHandler) -> None:
    fields = [b"no colon", *(b"X-%d: " % number + b"y" * 50 for number in range(3000))]
    async with serving(then_silent(ok(b"abc", *fields))) as server:
        response = await handler.download_request(Request(server.url))
    assert (response.body, len(response.headers)) == (b"abc", 3001)


# --- broken off ----------------------------------------------------------------------------------

BROKEN = {
    "length": (HEAD + b"Content-Length: 9\r\n\r\nabc", "length"),
    "no last chunk": (CHUNKED + b"3\r\nabc\r\n", "chunks"),
    "no last chunk, LF": (CHUNKED + b"3\nabc\n", "chunks"),
    "no end of a chunk": (CHUNKED + b"3\r\nabc", "chunks"),
    "half a chunk": (CHUNKED + b"9\r\nabc", "chunks"),
    "half a length": (CHUNKED + b"3\r\nabc\r\n1", "chunks"),
    "zeros of a longer length": (CHUNKED + b"3\r\nabc\r\n05", "chunks"),
    "no chunk": (CHUNKED + b"3\r\nabc\r\n<p>", "chunks"),
}


@pytest.mark.parametrize(("answer", "cause"), BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "in bits"])
async def test_a_body_that_broke_off_is_data_loss_with_its_cause(
    answer: bytes, cause: str, at_once: bool
) -> None:
    served = then_closed(answer) if at_once else in_bits(answer, closes=True)
    async with handler_with(DOWNLOAD_FAIL_ON_DATALOSS=False) as handler, serving(served) as server:
        response = await handler.download_request(Request(server.url))
        assert (response.body, response.flags) == (b"abc", ["dataloss", f"dataloss:{cause}"])
        with pytest.raises(ResponseDataLossError):
            await handler.download_request(
                Request(server.url, meta={"download_fail_on_dataloss": True})
            )


@pytest.mark.parametrize(
    ("answer", "flags"),
    [
        (HEAD + b"\r\nabc", ["dataloss", "dataloss:reset"]),
        (HEAD + b"Content-Length: 9\r\n\r\nabc", ["dataloss", "dataloss:reset"]),
        (CHUNKED + b"3\r\nabc\r\n", ["dataloss", "dataloss:reset"]),
        (CHUNKED + b"3\nabc\n", ["dataloss", "dataloss:reset"]),
        (CHUNKED + b"3\r\nabc\r\n0", ["dataloss", "dataloss:reset"]),
        # All of it came before.
        (CHUNKED + b"3\r\nabc\r\n0\r\n", []),
    ],
    ids=["no length", "length", "chunks", "odd chunks", "last length", "last chunk"],
)
async def test_a_body_whose_connection_broke_is_kept_as_far_as_it_came(
    answer: bytes, flags: list[str]
) -> None:
    async def then_reset(writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()
        await seen.wait()
        await reset(writer)

    seen = asyncio.Event()
    async with (
        handler_with(DOWNLOAD_FAIL_ON_DATALOSS=False) as handler,
        serving(then_reset) as server,
    ):
        # A reset may take with it what came before and was not read.
        handler.crawler.signals.connect(seen.set, signals.bytes_received)
        response = await handler.download_request(Request(server.url))
    assert (response.body, response.flags) == (b"abc", flags)


@pytest.mark.parametrize(
    ("answer", "cause"), [BROKEN["length"], BROKEN["no last chunk"], BROKEN["half a chunk"]]
)
async def test_the_cause_is_known_by_way_of_a_proxy_too(answer: bytes, cause: str) -> None:
    async with (
        handler_with(DOWNLOAD_FAIL_ON_DATALOSS=False) as handler,
        serving(then_closed(answer)) as server,
    ):
        request = Request("http://h.test/", meta={"proxy": server.url})
        response = await handler.download_request(request)
    assert (response.body, response.flags) == (b"abc", ["dataloss", f"dataloss:{cause}"])


async def test_odd_chunks_are_read_after_any_number_of_regular_ones() -> None:
    part = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    answer = CHUNKED + part * 20 + b"3\nabc\n0\n\n"
    async with (
        handler_with(DOWNLOAD_FAIL_ON_DATALOSS=False) as handler,
        serving(then_closed(answer)) as server,
    ):
        response = await handler.download_request(Request(server.url))
    assert (len(response.body), response.flags) == (20 * 0x10000 + 3, [])


async def test_a_status_line_that_never_comes_is_not_waited_for_without_end() -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"no HTTP\r\n" * 1000)
            await writer.drain()

    async with handler_with(DOWNLOAD_TIMEOUT=0) as handler:
        for answer in (endless, then_silent(b"no HTTP\r\n")):
            async with serving(answer) as server:
                with pytest.raises(answers.Malformed):
                    await handler.download_request(Request(server.url))


async def test_a_slow_head_after_a_garbage_line_is_waited_for(
    handler: DownloadHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "_GRACE_S", 0.02)

    async def slow(writer: asyncio.StreamWriter) -> None:
        writer.write(b"garbage\r\nHTTP/1.1 200 OK\r\n")
        await asyncio.sleep(0.1)
        writer.write(b"Content-Length: 3\r\n\r\na")
        await asyncio.sleep(0.1)
        writer.write(b"bc")

    async with serving(slow) as server:
        assert (await handler.download_request(Request(server.url))).body == b"abc"


async def test_a_body_that_pauses_after_what_looks_like_the_last_chunk_goes_on(
    handler: DownloadHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "_GRACE_S", 0.02)

    async def slow(writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + b"6\r\na\r\n0\r\n")
        await asyncio.sleep(0.1)
        writer.write(b"\r\n3\r\nb")
        await asyncio.sleep(0.1)
        writer.write(b"cd\r\n0\r\n\r\n")

    async with serving(slow) as server:
        response = await handler.download_request(Request(server.url))
    assert (response.body, response.flags) == (b"a\r\n0\r\nbcd", [])


# --- packed --------------------------------------------------------------------------------------


async def unpacked(handler: DownloadHandler, url: str) -> Response:
    request = Request(url)
    response = await handler.download_request(request)
    middleware = Decompression.from_crawler(handler.crawler)
    found = await ensure_awaitable(middleware.process_response(request, response))
    assert isinstance(found, Response)
    return found


def chunked(body: bytes, head: bytes) -> bytes:
    return HEAD + head + b"\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


@pytest.mark.parametrize("coding", PACK)
async def test_a_packed_body_with_its_unpacked_length_is_whole(
    handler: DownloadHandler, coding: bytes
) -> None:
    head = HEAD + b"Content-Encoding: %b\r\nContent-Length: %d\r\n\r\n" % (coding, len(PAGE))
    async with serving(then_closed(head + PACK[coding](PAGE))) as server:
        response = await unpacked(handler, server.url)
    assert (response.body, response.flags) == (PAGE, [])
    assert server.connections == 1


@pytest.mark.parametrize("coding", PACK)
async def test_a_packed_body_that_broke_off_is_kept_as_far_as_it_can_be_unpacked(
    coding: bytes,
) -> None:
    packed = PACK[coding](PAGE)
    head = HEAD + b"Content-Encoding: %b\r\nContent-Length: %d\r\n\r\n" % (coding, len(packed))
    async with handler_with(DOWNLOAD_FAIL_ON_DATALOSS=False) as handler:
        for size in (3, 12, len(packed) // 2, len(packed) - 1):
            async with serving(then_closed(head + packed[:size])) as server:
                response = await unpacked(handler, server.url)
            assert response.flags == ["dataloss", "dataloss:length"]
            assert PAGE.startswith(response.body)
            assert "Content-Encoding" not in response.headers


@pytest.mark.parametrize("coding", [b"gzip", b"x-gzip", b"deflate", b"GZIP"])
async def test_a_body_that_is_packed_for_its_transfer_is_unpacked(
    handler: DownloadHandler, coding: bytes
) -> None:
    packed = (zlib.compress if coding == b"deflate" else gzip.compress)(PAGE)
    for answer in (
        chunked(packed, b"Transfer-Encoding: %b, chunked" % coding),
        chunked(packed, b"Transfer-Encoding: %b\r\nTransfer-Encoding: chunked" % coding),
        HEAD + b"Transfer-Encoding: %b\r\n\r\n" % coding + packed,
        chunked(
            gzip.compress(brotli.compress(PAGE)),
            b"Content-Encoding: br\r\nTransfer-Encoding: gzip, chunked",
        ),
    ):
        async with serving(then_closed(answer)) as server:
            response = await unpacked(handler, server.url)
        assert (response.body, response.flags) == (PAGE, [])
        assert "Content-Encoding" not in response.headers


@pytest.mark.parametrize(
    "value", [b"gzip,", b", gzip", b"gzip , ", b"gzip, identity", b"Gzip", b"identity,gzip,,"]
)
async def test_names_of_codings_that_say_nothing_are_left_out(
    handler: DownloadHandler, value: bytes
) -> None:
    answer = ok(gzip.compress(PAGE), b"Content-Encoding: " + value)
    async with serving(then_silent(answer)) as server:
        response = await unpacked(handler, server.url)
    assert response.body == PAGE
    assert "Content-Encoding" not in response.headers


@pytest.mark.parametrize("coding", PACK)
@pytest.mark.parametrize("tail", [b"\n", b"\r\n\r\n", bytes(100), b"<!-- page by -->" * 300])
async def test_a_packed_body_with_something_behind_it_is_unpacked(
    handler: DownloadHandler, coding: bytes, tail: bytes
) -> None:
    answer = ok(PACK[coding](PAGE) + tail, b"Content-Encoding: " + coding)
    async with serving(then_silent(answer)) as server:
        response = await unpacked(handler, server.url)
    assert (response.body, response.flags) == (PAGE, [])


# --- the same as before --------------------------------------------------------------------------


async def test_chunks_in_any_bits_are_the_body_that_they_were_made_of(
    handler: DownloadHandler,
) -> None:
    chance = random.Random(4)
    for _ in range(15):
        body = bytes(chance.choice(b"0123abc\r\n") for _ in range(chance.randrange(200)))
        ends = sorted(chance.randrange(len(body) + 1) for _ in range(chance.randrange(5)))
        parts = [body[a:b] for a, b in zip([0, *ends], [*ends, len(body)], strict=True) if a < b]
        end = chance.choice([b"\r\n", b"\n"])
        chunks = b"".join(b"%x%b%b%b" % (len(p), end, p, end) for p in parts)
        answer = CHUNKED + chunks + b"0" + end + end

        async def sent(writer: asyncio.StreamWriter, answer: bytes = answer) -> None:
            while answer:
                size = chance.randrange(1, 40)
                writer.write(answer[:size])
                await writer.drain()
                await asyncio.sleep(0)
                answer = answer[size:]

        async with serving(sent) as server:
            response = await handler.download_request(Request(server.url))
            assert (response.body, response.flags) == (body, [])
            await handler.download_request(Request(server.url))
        assert server.connections == (1 if end == b"\r\n" else 2)


async def test_the_bytes_of_tiny_chunks_are_received_together(
    handler: DownloadHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body in chunks of one byte would take seconds of the event loop."""
    sizes: list[int] = []
    take = Receiver.body
    monkeypatch.setattr(
        Receiver, "body", lambda self, data: sizes.append(len(data)) or take(self, data)
    )
    async with serving(then_silent(CHUNKED + b"1\r\nx\r\n" * 50_000 + b"0\r\n\r\n")) as server:
        response = await handler.download_request(Request(server.url))
    assert response.body == b"x" * 50_000
    assert len(sizes) < 500
