"""Compressed bodies: unpacked, counted, warned of and refused as by Scrapy's middleware."""

import gzip
import zlib
from typing import Any

import brotli
import pytest
import zstandard
from scrapy import Request
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.http import HtmlResponse, Response

from crawler.fetch_errors import TooBigUnpacked
from crawler.middlewares.decompression import Decompression, unpacked
from tests.crawlers import project_crawler

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
    (b"", PAGE),
    (b"gzip", b""),
    (b"gzip", b"no gzip"),
    (b"deflate", b"no deflate"),
    (b"br", b"no brotli"),
    (b"zstd", b"no zstd"),
]


def outcome(kind: Any, encoding: Any, body: bytes, **options: Any) -> tuple[Any, ...]:
    """All that can be seen of what a middleware does."""
    method, meta = options.pop("method", "GET"), options.pop("meta", {})
    crawler = project_crawler(**{"DOWNLOAD_MAXSIZE": 100_000, **options})
    request = Request("http://h.test/page", method=method, meta=meta)
    headers = {"Content-Type": "text/html", "Set-Cookie": ["a", "b"], "Content-Encoding": encoding}
    given = Response(request.url, 203, headers, body, ["flag"], request, b"cert", None, "HTTP/1.1")
    try:
        got = kind.from_crawler(crawler).process_response(request, given)
    except Exception as error:  # noqa: BLE001 - which one it is is compared
        return type(error), str(error)
    assert got.request is request
    seen = [getattr(got, name) for name in Response.attributes if name != "request"]
    stats = {k: v for k, v in crawler.stats.get_stats().items() if k.startswith("httpcompression")}
    return type(got), *seen, stats


@pytest.mark.parametrize("encoding", PACKED)
def test_a_body_is_unpacked(encoding: bytes) -> None:
    found = outcome(Decompression, encoding, PACKED[encoding])
    assert found[0] is HtmlResponse
    assert PAGE in found
    assert {
        "httpcompression/response_bytes": len(PAGE),
        "httpcompression/response_count": 1,
    } in found
    assert found == outcome(HttpCompressionMiddleware, encoding, PACKED[encoding])


@pytest.mark.parametrize(("encoding", "body"), ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("options", [{}, {"method": "HEAD"}], ids=["GET", "HEAD"])
def test_what_is_odd_is_as_with_scrapy(encoding: Any, body: bytes, options: dict[str, Any]) -> None:
    ours = outcome(Decompression, encoding, body, **options)
    assert ours == outcome(HttpCompressionMiddleware, encoding, body, **options)


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
def test_sizes_are_bounded_as_with_scrapy(
    encoding: bytes, options: dict[str, Any], fits: bool
) -> None:
    ours = outcome(Decompression, encoding, PACKED[encoding], **options)
    assert (ours[0] is HtmlResponse) is fits
    if not fits:
        assert ours[0] is TooBigUnpacked
        assert "DOWNLOAD_MAXSIZE" in ours[1]


@pytest.mark.parametrize("encoding", PACKED)
def test_a_big_one_is_warned_of(encoding: bytes, caplog: pytest.LogCaptureFixture) -> None:
    outcome(Decompression, encoding, PACKED[encoding], DOWNLOAD_WARNSIZE=len(PAGE) + 1)
    assert not caplog.records
    outcome(Decompression, encoding, PACKED[encoding], DOWNLOAD_WARNSIZE=len(PAGE))
    assert "download warning size" in caplog.text


@pytest.mark.parametrize("encoding", PACKED)
def test_a_bomb_is_not_unpacked_beyond_its_limit(encoding: bytes) -> None:
    assert unpacked(encoding, PACKED[encoding], len(PAGE)) == PAGE
    assert unpacked(encoding, PACKED[encoding], len(PAGE) - 1) is None


def test_what_is_not_packed_passes_by() -> None:
    response = Response("http://h.test/", headers={"Content-Type": "text/html"}, body=PAGE)
    middleware = Decompression.from_crawler(project_crawler())
    assert middleware.process_response(Request("http://h.test/"), response) is response
