"""Bodies: without end, with wrong lengths, in wrong chunks, packed to be a bomb."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from random import Random
from typing import Final

import brotli  # type: ignore[import-untyped]
from scrapy.utils._compression import zstd  # type: ignore[attr-defined]

from demo.hostile.behaviour import CUT, STORED, Answer, Behaviour
from demo.hostile.talk import Talk, head, page

_MB: Final = 1_000_000
_CHUNKED: Final = head(fields="Transfer-Encoding: chunked\r\n")
# How much larger a bomb is than what may be downloaded.
_BOMB: Final = 20


def _endless(data: bytes, piece: bytes) -> Answer:
    async def answer(talk: Talk) -> None:
        await talk.send(data)
        await talk.endlessly(piece)

    return answer


def _sends(data: bytes) -> Answer:
    async def answer(talk: Talk) -> None:
        await talk.send(data)
        talk.close()

    return answer


def _of_length(length: int) -> Answer:
    """Send a page with another length than it has."""

    async def answer(talk: Talk) -> None:
        body = page(talk.host)
        await talk.send(head(length=length) + body)
        talk.close()

    return answer


async def _longer_than_said(talk: Talk) -> None:
    body = page(talk.host)
    await talk.send(head(length=len(body)) + body + b"and more\r\n\r\n" * 1000)
    await talk.hang()


async def _tiny_chunks(talk: Talk) -> None:
    body = page(talk.host, b"x" * min(200_000, talk.size // 2))
    await talk.send(_CHUNKED + b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n")


async def _chunks_and_length(talk: Talk) -> None:
    body = page(talk.host)
    fields = "Transfer-Encoding: chunked\r\n"
    await talk.send(head(length=3, fields=fields) + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
    talk.close()


async def _endless_trailers(talk: Talk) -> None:
    body = page(talk.host)
    await talk.send(_CHUNKED + b"%x\r\n%b\r\n0\r\n" % (len(body), body))
    await talk.endlessly(b"X-Trailer: y\r\n")


def _packed(encoding: str, make: Callable[[int], Iterator[bytes]]) -> Answer:
    """Send parts as a body with this encoding."""

    async def answer(talk: Talk) -> None:
        await talk.send(head(fields=f"Content-Encoding: {encoding}\r\nConnection: close\r\n"))
        for part in make(talk.size):
            await talk.send(part)
        talk.close()

    return answer


def _deflated(bits: int, size: int, times: int) -> Iterator[bytes]:
    """Pack so many zeros; the same million of them again and again, as long as it must be."""
    packer = zlib.compressobj(9, zlib.DEFLATED, bits)
    yield packer.compress(b"0" * 100) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(bytes(_MB)) + packer.flush(zlib.Z_FULL_FLUSH)
    for _ in range(times * size // _MB + 1):
        yield again
    yield packer.flush()


def _gzip_bomb(size: int) -> Iterator[bytes]:
    return _deflated(16 + zlib.MAX_WBITS, size, 500)


def _deflate_bomb(size: int) -> Iterator[bytes]:
    return _deflated(zlib.MAX_WBITS, size, 500)


def _nested_gzip(size: int) -> Iterator[bytes]:
    inner = gzip.compress(bytes(_BOMB * size), 9)
    yield gzip.compress(inner)


def _brotli_bomb(size: int) -> Iterator[bytes]:
    packer = brotli.Compressor(quality=1)
    for _ in range(_BOMB * size // _MB + 1):
        yield packer.process(bytes(_MB))
    yield packer.finish()


def _zstd_bomb(size: int) -> Iterator[bytes]:
    frame = zstd.compress(bytes(_MB))
    for _ in range(_BOMB * size // _MB + 1):
        yield frame


def _wide_zstd(_size: int) -> Iterator[bytes]:
    """A frame that says that it needs a window of 2 GB."""
    yield b"\x28\xb5\x2f\xfd\x00\xa8" + b"\x03\x00\x00\x61" * 10


def _repeated(part: bytes) -> Callable[[int], Iterator[bytes]]:
    """Send the same packed bytes as often as there is room for them."""

    def make(size: int) -> Iterator[bytes]:
        # In blocks, and a little less than may be downloaded.
        times = max(1, 65_536 // len(part))
        for _ in range(int(0.9 * size) // (times * len(part))):
            yield part * times

    return make


def _brotli_with_tail(size: int) -> Iterator[bytes]:
    yield brotli.compress(page("brotli with a tail"))
    yield Random(2).randbytes(int(0.9 * size))


def _not_packed(size: int) -> Iterator[bytes]:
    yield page("a page that is said to be packed", b"x" * (size // 2))


def _cut_gzip(size: int) -> Iterator[bytes]:
    whole = gzip.compress(page("half of a packed page", Random(3).randbytes(size // 2)), 1)
    yield whole[: len(whole) // 2]


BODIES: Final = (
    Behaviour(
        "endless-body", "sends a page without end", "too_big", _endless(head(), b"<p>x</p>\n")
    ),
    Behaviour(
        "endless-stream",
        "replaces its page again and again, without end",
        "type_not_accepted, type_not_accepted",
        _endless(head(kind="multipart/x-mixed-replace; boundary=x"), b"--x\r\n\r\n<p>x</p>\r\n"),
    ),
    Behaviour(
        "endless-chunks",
        "sends chunks without end",
        "too_big",
        _endless(_CHUNKED, b"ff\r\n" + b"x" * 255 + b"\r\n"),
    ),
    Behaviour("tiny-chunks", "sends 200,000 chunks of one byte", STORED, _tiny_chunks),
    Behaviour("length-of-petabytes", "promises 10^15 bytes", "too_big", _of_length(10**15)),
    Behaviour(
        "length-too-long", "promises more than it sends", f"{CUT}length", _of_length(100_000)
    ),
    Behaviour("length-too-short", "sends more than it promised", STORED, _longer_than_said),
    Behaviour("length-negative", "promises -1 bytes", STORED, _of_length(-1)),
    Behaviour(
        "lengths-that-differ",
        "promises 5 and 50 bytes",
        "malformed",
        _sends(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 50\r\n\r\n" + b"x" * 50),
    ),
    Behaviour("chunks-and-length", "has chunks and a wrong length", STORED, _chunks_and_length),
    Behaviour(
        "chunk-of-exabytes",
        "begins a chunk of 16 exabytes, without end",
        "too_big",
        _endless(_CHUNKED + b"ffffffffffffffff\r\n", b"x" * 1000),
    ),
    Behaviour(
        "chunk-without-length",
        "has chunks with no length",
        f"{CUT}chunks",
        _sends(_CHUNKED + b"5\r\nhello\r\nxyz\r\n"),
    ),
    Behaviour(
        "chunk-negative",
        "has a chunk of -1 bytes",
        f"{CUT}chunks",
        _sends(_CHUNKED + b"-1\r\nhello\r\n0\r\n\r\n"),
    ),
    Behaviour(
        "chunk-longer-than-said",
        "has a chunk that is longer than its length",
        f"{CUT}chunks",
        _sends(_CHUNKED + b"3\r\nhello\r\n0\r\n\r\n"),
    ),
    Behaviour(
        "endless-chunk-length",
        "sends the length of a chunk without end",
        f"{CUT}chunks",
        _endless(_CHUNKED, b"0" * 1000),
    ),
    Behaviour(
        "endless-chunk-extension",
        "sends the extension of a chunk without end",
        f"{CUT}chunks",
        _endless(_CHUNKED + b"5;", b"x" * 1000),
    ),
    Behaviour("endless-trailers", "sends trailers without end", f"{CUT}chunks", _endless_trailers),
    Behaviour(
        "no-last-chunk",
        "closes before its last chunk",
        f"{CUT}chunks",
        _sends(_CHUNKED + b"5\r\nhello\r\n"),
    ),
    Behaviour(
        "gzip-bomb", "packs 500 times too much by gzip", "too_big", _packed("gzip", _gzip_bomb)
    ),
    Behaviour(
        "deflate-bomb",
        "packs 500 times too much by deflate",
        "too_big",
        _packed("deflate", _deflate_bomb),
    ),
    Behaviour(
        "brotli-bomb", "packs 20 times too much by brotli", "too_big", _packed("br", _brotli_bomb)
    ),
    Behaviour(
        "zstd-bomb", "packs 20 times too much by zstd", "too_big", _packed("zstd", _zstd_bomb)
    ),
    Behaviour(
        "gzip-in-gzip",
        "packs 20 times too much twice",
        "too_big",
        _packed("gzip, gzip", _nested_gzip),
    ),
    Behaviour(
        "encodings-flood",
        "names 10,000 encodings",
        "encoding",
        _packed(", ".join(["gzip"] * 10_000), lambda _: iter([gzip.compress(b"x")])),
    ),
    Behaviour(
        "empty-zstd-frames",
        "sends as many empty frames of zstd as fit",
        STORED,
        _packed("zstd", _repeated(zstd.compress(b""))),
    ),
    Behaviour(
        "skippable-zstd-frames",
        "sends as many frames as fit that zstd skips",
        STORED,
        _packed("zstd", _repeated(b"\x50\x2a\x4d\x18\x00\x00\x00\x00")),
    ),
    Behaviour(
        "empty-gzip-members",
        "sends as many empty members of gzip as fit",
        STORED,
        _packed("gzip", _repeated(gzip.compress(b""))),
    ),
    Behaviour(
        "empty-deflate-blocks",
        "sends as many empty blocks of deflate as fit",
        STORED,
        _packed(
            "deflate", lambda size: iter([b"\x78\x9c", *_repeated(b"\x00\x00\x00\xff\xff")(size)])
        ),
    ),
    Behaviour("wide-zstd", "asks for a window of 2 GB", "encoding", _packed("zstd", _wide_zstd)),
    Behaviour(
        "brotli-with-a-tail",
        "sends noise after packed bytes",
        STORED,
        _packed("br", _brotli_with_tail),
    ),
    Behaviour(
        "not-packed", "says gzip and is not packed", "encoding", _packed("gzip", _not_packed)
    ),
    Behaviour("half-a-gzip", "sends half of a packed page", STORED, _packed("gzip", _cut_gzip)),
)
