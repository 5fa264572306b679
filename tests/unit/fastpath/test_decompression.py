"""Compressed bodies: unpacked, counted, warned of and refused as by Scrapy's middleware."""

import gzip
import threading
import zlib
from inspect import iscoroutine
from typing import Any

import brotli
import pytest
import zstandard
from scrapy import Request
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.http import HtmlResponse, Response

from crawler.download.errors import BadEncoding, TooBigUnpacked
from crawler.fastpath import decompression
from crawler.fastpath.decompression import Decompression
from crawler.util import decompress
from crawler.util.decompress import unpacking
from tests.support.crawlers import project_crawler

PAGE = b"<html><p>" + b"hello " * 5000
PACKED = {
    b"gzip": gzip.compress(PAGE, mtime=0),
    b"deflate": zlib.compress(PAGE),
    b"br": brotli.compress(PAGE),
    b"zstd": zstandard.compress(PAGE),
}
RAW = zlib.compressobj(wbits=-15)
ODD: list[tuple[Any, bytes]] = [
    (b"gzip", PACKED[b"gzip"][:200]),
    (b"gzip", PACKED[b"gzip"][:-3]),
    (b"gzip", PACKED[b"gzip"][:-8] + bytes(8)),
    (b"gzip", PACKED[b"gzip"] + b"garbage"),
    (b"gzip", PACKED[b"gzip"] + gzip.compress(b"second")),
    (b"GZIP", PACKED[b"gzip"]),
    (b"x-gzip", PACKED[b"gzip"]),
    (b"deflate", RAW.compress(PAGE) + RAW.flush()),
    (b"deflate", PACKED[b"deflate"][:100]),
    (b"br", PACKED[b"br"][:20]),
    (b"zstd", PACKED[b"zstd"][:60]),
    (b"zstd", PACKED[b"zstd"] * 2),
    (b"gzip, gzip", gzip.compress(PACKED[b"gzip"])),
    ([b"gzip", b"br"], brotli.compress(PACKED[b"gzip"])),
    (b"other", PAGE),
    (b"gzip, other", PAGE),
    (b"gzip", b""),
    (b"gzip", b"no gzip"),
    (b"deflate", b"no deflate"),
    (b"br", b"no brotli"),
    (b"zstd", b"no zstd"),
]


async def outcome(kind: Any, encoding: Any, body: bytes, **options: Any) -> tuple[Any, ...]:
    """All that can be seen of what a middleware does."""
    method, meta = options.pop("method", "GET"), options.pop("meta", {})
    crawler = project_crawler(**{"DOWNLOAD_MAXSIZE": 100_000, **options})
    request = Request("http://h.test/page", method=method, meta=meta)
    headers = {"Content-Type": "text/html", "Set-Cookie": ["a", "b"], "Content-Encoding": encoding}
    given = Response(request.url, 203, headers, body, ["flag"], request, b"cert", None, "HTTP/1.1")
    try:
        got = kind.from_crawler(crawler).process_response(request, given)
        got = await got if iscoroutine(got) else got
    except Exception as error:  # noqa: BLE001 - which one it is is compared
        return type(error), str(error)
    assert got.request is request
    seen = [getattr(got, name) for name in Response.attributes if name != "request"]
    stats = {k: v for k, v in crawler.stats.get_stats().items() if k.startswith("httpcompression")}
    return type(got), *seen, stats


@pytest.mark.parametrize("encoding", PACKED)
async def test_a_body_is_unpacked(encoding: bytes) -> None:
    found = await outcome(Decompression, encoding, PACKED[encoding])
    assert found[0] is HtmlResponse
    assert PAGE in found
    assert {
        "httpcompression/response_bytes": len(PAGE),
        "httpcompression/response_count": 1,
    } in found
    assert found == await outcome(HttpCompressionMiddleware, encoding, PACKED[encoding])


@pytest.mark.parametrize(("encoding", "body"), ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("options", [{}, {"method": "HEAD"}], ids=["GET", "HEAD"])
async def test_what_is_odd_is_as_with_scrapy(
    encoding: Any, body: bytes, options: dict[str, Any]
) -> None:
    ours = await outcome(Decompression, encoding, body, **options)
    scrapys = await outcome(HttpCompressionMiddleware, encoding, body, **options)
    if issubclass(scrapys[0], Exception):
        # One error for all of its kinds.
        assert ours[0] is BadEncoding
    else:
        assert ours == scrapys


@pytest.mark.parametrize("encoding", [b"gzip", b"zstd"])
async def test_a_body_of_a_few_parts_is_unpacked_and_more_of_them_are_left_out(
    encoding: bytes,
) -> None:
    part, empty = PACK[encoding](b"<p>"), PACK[encoding](b"")
    few = await outcome(Decompression, encoding, empty * 300 + part * 2)
    assert b"<p><p>" in few
    parts: list[object] = []
    make = decompress._UNPACKERS[encoding]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(decompress._UNPACKERS, encoding, lambda: parts.append(1) or make())
        many = await outcome(Decompression, encoding, part + empty * 5_000)
    assert b"<p>" in many
    assert len(parts) < 1_100


async def test_a_body_that_was_packed_too_often_is_not_unpacked() -> None:
    found = await outcome(Decompression, b", ".join([b"gzip"] * 6), PACKED[b"gzip"])
    assert found[0] is BadEncoding
    assert "6 times" in found[1]


@pytest.mark.parametrize("encoding", PACKED)
@pytest.mark.parametrize(
    ("options", "fits"),
    [
        ({"DOWNLOAD_MAXSIZE": len(PAGE)}, True),
        ({"DOWNLOAD_MAXSIZE": len(PAGE) - 1}, False),
        ({"DOWNLOAD_MAXSIZE": 0}, True),
        ({"meta": {"download_maxsize": len(PAGE) - 1}}, False),
        ({"meta": {"download_maxsize": 0}}, True),
        ({"DOWNLOAD_MAXSIZE": 10, "meta": {"download_maxsize": len(PAGE)}}, True),
    ],
    ids=str,
)
async def test_sizes_are_bounded_as_with_scrapy(
    encoding: bytes, options: dict[str, Any], fits: bool
) -> None:
    ours = await outcome(Decompression, encoding, PACKED[encoding], **options)
    assert (ours[0] is HtmlResponse) is fits
    if not fits:
        assert ours[0] is TooBigUnpacked
        assert "DOWNLOAD_MAXSIZE" in ours[1]


@pytest.mark.parametrize("encoding", PACKED)
async def test_a_big_one_is_warned_of(encoding: bytes, caplog: pytest.LogCaptureFixture) -> None:
    await outcome(Decompression, encoding, PACKED[encoding], DOWNLOAD_WARNSIZE=len(PAGE) + 1)
    assert not caplog.records
    await outcome(Decompression, encoding, PACKED[encoding], DOWNLOAD_WARNSIZE=len(PAGE))
    assert "download warning size" in caplog.text


async def test_more_behind_the_end_of_a_big_body_is_no_error() -> None:
    first = zstandard.compress(b"x" * 500_000)
    found = await outcome(Decompression, b"zstd", first + PACKED[b"zstd"], DOWNLOAD_MAXSIZE=10**6)
    assert found[0] is HtmlResponse


# --- where it is unpacked ------------------------------------------------------------------------

BIG = bytes(range(256)) * 4000
PACK = {
    b"gzip": gzip.compress,
    b"deflate": zlib.compress,
    b"br": brotli.compress,
    b"zstd": zstandard.compress,
}


class Watched:
    """Notes which threads unpack, how much, and how often a body is begun."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.threads: list[threading.Thread] = []
        self.sizes: list[int] = []
        self.begun = self.by_scrapy = 0
        decode = Decompression._decode

        def begin(encoding: bytes, packed: bytes) -> Any:
            self.begun += 1
            self._unpacking = unpacking(encoding, packed)
            return self if self._unpacking else None

        def decoded(*arguments: Any) -> bytes:
            self.by_scrapy += 1
            return self._note(decode(*arguments))

        monkeypatch.setattr(decompression, "unpacking", begin)
        monkeypatch.setattr(Decompression, "_decode", staticmethod(decoded))

    @property
    def is_whole(self) -> bool:
        return self._unpacking.is_whole

    def more(self, limit: int) -> bytes:
        return self._note(self._unpacking.more(limit))

    def _note(self, body: bytes) -> bytes:
        self.threads.append(threading.current_thread())
        self.sizes.append(len(body))
        return body


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


@pytest.mark.parametrize("encoding", PACKED)
async def test_a_small_body_is_unpacked_at_once(encoding: bytes, watched: Watched) -> None:
    assert PAGE in await outcome(Decompression, encoding, PACKED[encoding])
    assert watched.threads == [threading.current_thread()]


@pytest.mark.parametrize("encoding", PACKED)
async def test_the_rest_of_a_big_body_is_unpacked_in_a_thread(
    encoding: bytes, watched: Watched
) -> None:
    found = await outcome(Decompression, encoding, PACK[encoding](BIG), DOWNLOAD_MAXSIZE=2 * 10**6)
    assert BIG in found
    assert (watched.begun, watched.by_scrapy, sum(watched.sizes)) == (1, 0, len(BIG))
    first, *others = watched.threads
    assert first is threading.current_thread()
    assert others
    assert first not in others


async def test_what_is_big_before_it_is_unpacked_is_not_begun_here(watched: Watched) -> None:
    packed = gzip.compress(BIG, compresslevel=0)
    assert BIG in await outcome(Decompression, b"gzip", packed, DOWNLOAD_MAXSIZE=2 * 10**6)
    assert threading.current_thread() not in watched.threads


@pytest.mark.parametrize("encoding", PACKED)
@pytest.mark.parametrize("max_bytes", [1000, len(BIG) - 1])
async def test_a_bomb_is_unpacked_once_and_not_beyond_its_limit(
    encoding: bytes, max_bytes: int, watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    packed = PACK[encoding](BIG)
    found = await outcome(Decompression, encoding, packed, DOWNLOAD_MAXSIZE=max_bytes)
    assert found[0] is TooBigUnpacked
    assert "exceeded DOWNLOAD_MAXSIZE" in caplog.text
    assert (watched.begun, watched.by_scrapy) == (1, 0)
    # brotli gives a block more.
    assert max_bytes < sum(watched.sizes) <= max_bytes + 2**16


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        (b"x-gzip", gzip.compress(BIG)),
        (b"gzip", gzip.compress(BIG)[:-4]),
        (b"gzip", gzip.compress(BIG) * 2),
        (b"gzip, br", brotli.compress(gzip.compress(BIG))),
        (b"gzip", b"no gzip"),
    ],
    ids=["name", "early", "two", "twice", "none"],
)
async def test_what_is_odd_is_unpacked_in_a_thread(
    encoding: bytes, body: bytes, watched: Watched
) -> None:
    options = {"DOWNLOAD_MAXSIZE": 10**7}
    ours = await outcome(Decompression, encoding, body, **options)
    here = [thread is threading.current_thread() for thread in watched.threads]
    # Here it is only found to be odd.
    assert sum(here) <= 1
    assert watched.by_scrapy
    scrapys = await outcome(HttpCompressionMiddleware, encoding, body, **options)
    assert ours[0] is BadEncoding if issubclass(scrapys[0], Exception) else ours == scrapys


async def test_an_empty_body_needs_no_thread(watched: Watched) -> None:
    found = await outcome(Decompression, b"gzip", b"")
    assert found == await outcome(HttpCompressionMiddleware, b"gzip", b"")
    assert set(watched.threads) == {threading.current_thread()}


@pytest.mark.parametrize("encoding", [[], [b""], [b"identity"], [b", "], [b"", b"Identity"]])
def test_what_is_not_packed_passes_by(encoding: list[bytes]) -> None:
    headers = {"Content-Type": "text/html", "Content-Encoding": encoding}
    response = Response("http://h.test/", headers=headers, body=PAGE)
    middleware = Decompression.from_crawler(project_crawler())
    assert middleware.process_response(Request("http://h.test/"), response) is response


@pytest.mark.parametrize("encoding", PACKED)
async def test_something_behind_the_end_of_a_body_is_left_out(encoding: bytes) -> None:
    for page in (PAGE, BIG):
        packed = PACK[encoding](page)
        for tail in (b"\n", bytes(3000), b"garbage"):
            options = {"DOWNLOAD_MAXSIZE": len(page)}
            assert page in await outcome(Decompression, encoding, packed + tail, **options)
            options = {"DOWNLOAD_MAXSIZE": len(page) - 1}
            found = await outcome(Decompression, encoding, packed + tail, **options)
            assert found[0] is TooBigUnpacked


async def test_no_limit_is_none_for_what_has_something_behind_its_end_too() -> None:
    for encoding in (b"br", b"zstd"):
        packed = PACK[encoding](BIG) + b"garbage"
        assert BIG in await outcome(Decompression, encoding, packed, DOWNLOAD_MAXSIZE=0)


async def test_so_little_that_nothing_can_be_unpacked_is_an_empty_page_if_it_broke_off() -> None:
    request = Request("http://h.test/")
    middleware = Decompression.from_crawler(project_crawler())
    for flags in (["dataloss"], []):
        headers, body = {"Content-Encoding": "gzip"}, PACKED[b"gzip"][:12]
        cut = Response(request.url, headers=headers, body=body, flags=flags)
        coroutine = middleware.process_response(request, cut)
        assert iscoroutine(coroutine)
        if flags:
            assert (await coroutine).body == b""
        else:
            with pytest.raises(BadEncoding, match="cannot be unpacked"):
                await coroutine
