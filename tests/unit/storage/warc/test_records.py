"""WARC records of pages, as an outside reader (warcio) finds them."""

import gzip
import zlib
from io import BytesIO
from typing import Any

import pytest
import zstandard
from warcio.archiveiterator import ArchiveIterator

from crawler.items import NOT_MODIFIED, Page
from crawler.storage.warc.records import (
    Original,
    RecordMaker,
    archived_head,
    capture_of,
    rebuilt_head,
)
from tests.unit.storage.warc.pages import AT, HEAD, REQUEST, exchange, page


def read(found: Page, *, metadata: bool = False, **known: Original) -> dict[str, Any]:
    """The records of a page by their type, read by warcio, with their blocks as `block`."""
    capture = capture_of(found, metadata=metadata)
    assert capture is not None
    digests = {name.replace("_", ":"): original for name, original in known.items()}
    records = RecordMaker("gzip", 2, what="a test").records(capture, digests)
    read: dict[str, Any] = {}
    for record in ArchiveIterator(BytesIO(records.data), check_digests="raise"):
        record.content_stream().read()
    for record in ArchiveIterator(BytesIO(records.data), no_record_parse=True):
        record.block = record.raw_stream.read()
        read[record.rec_type] = record
        header = record.rec_headers.get_header
        assert header("WARC-Crawl") == found.crawl
        assert header("WARC-URL-Hash") == found.url_hash
        assert header("WARC-Visit") == f"{int(AT.timestamp())}-{found.visits}"
        assert header("WARC-Date") == "2026-11-18T04:25:30Z"
    # The last one can be read by its place alone.
    assert gzip.decompress(records.data[-records.length :]).startswith(b"WARC/1.1\r\nWARC-Type: re")
    return read


def test_a_response_is_stored_as_it_came() -> None:
    head = b"HTTP/1.0 200 Fine\r\nx-oDD: a\r\nX-Odd:b\r\nCONTENT-type: text/html\r\n\r\n"
    packed = gzip.compress(b"<p>hello</p>")
    found = read(page(wire=exchange(head=head, body=packed), body=b"<p>hello</p>"))
    response = found["response"]
    assert response.block == head + packed
    header = response.rec_headers.get_header
    assert header("Content-Type") == "application/http;msgtype=response"
    assert header("WARC-Target-URI") == "http://a.test/"
    assert header("WARC-IP-Address") == "127.0.0.1"
    assert header("WARC-Protocol") == "http/1.1"
    assert header("WARC-Identified-Payload-Type") == "text/html"
    assert header("WARC-Truncated") is None
    assert header("WARC-Payload-Digest").startswith("sha1:")


def test_the_request_is_stored_without_credentials() -> None:
    sent = REQUEST.replace(b"\r\n\r\n", b"\r\nCookie: a=b\r\nAuthorization: Basic eA==\r\n\r\n")
    posted = b"a\r\nCookie: of the body\r\n"
    request = read(page(wire=exchange(request=sent + posted)))["request"]
    assert request.block == REQUEST + posted
    response = read(page())["response"].rec_headers.get_header("WARC-Record-ID")
    assert response
    assert request.rec_headers.get_header("WARC-Concurrent-To").startswith("<urn:uuid:")


@pytest.mark.parametrize(
    ("head", "stored"),
    [
        (b"HTTP/1.1 200\r\nA: b\r\n\r\n", b"HTTP/1.1 200\r\nA: b\r\n\r\n"),
        (
            b"HTTP/1.1 200\r\ntransfer-encoding: chunked\r\nA: b\r\n\r\n",
            b"HTTP/1.1 200\r\nX-Crawler-transfer-encoding: chunked\r\nA: b\r\n\r\n",
        ),
        # Only chunks are undone: a packed body says how it is packed.
        (
            b"OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            b"OK\r\nX-Crawler-Transfer-Encoding: gzip, chunked\r\nContent-Encoding: gzip\r\n\r\n",
        ),
    ],
)
def test_transfer_encodings_are_renamed(head: bytes, stored: bytes) -> None:
    assert archived_head(head) == stored


@pytest.mark.parametrize(
    ("body", "identified"),
    [
        (b"\xef\xbb\xbf \n<!-- x --> <!DOCTYPE html>", "text/html"),
        (b"<?xml version='1.0'?><!DOCTYPE html>", "application/xhtml+xml"),
        (b"<?xml version='1.0'?><rss/>", "application/xml"),
        (b"%PDF-1.7", "application/pdf"),
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"plain <p>", None),
        (b"<!--" * 500, None),
        (b"", None),
    ],
)
def test_the_type_that_a_body_shows_is_named_whatever_the_server_says(
    body: bytes, identified: str | None
) -> None:
    response = read(page(wire=exchange(body=body), content_type="text/plain"))["response"]
    assert response.rec_headers.get_header("WARC-Identified-Payload-Type") == identified


@pytest.mark.parametrize("reason", ["length", "disconnect", "unspecified"])
def test_a_cut_body_says_why(reason: str) -> None:
    response = read(page(wire=exchange(truncated=reason)))["response"]
    assert response.rec_headers.get_header("WARC-Truncated") == reason


def test_a_page_with_a_known_payload_refers_to_it() -> None:
    digest = read(page())["response"].rec_headers.get_header("WARC-Payload-Digest")
    original = Original("http://a.test/first", "2026-11-18T04:20:00Z")
    found = read(page("http://a.test/2"), **{digest.replace(":", "_"): original})
    header = found["revisit"].rec_headers.get_header
    assert header("WARC-Profile").endswith("/identical-payload-digest")
    assert header("WARC-Payload-Digest") == digest
    assert header("WARC-Refers-To-Target-URI") == original.uri
    assert header("WARC-Refers-To-Date") == original.date
    assert found["revisit"].block == HEAD
    assert "response" not in found


def test_a_cut_page_and_a_tiny_one_refer_to_nothing() -> None:
    for wire in (exchange(truncated="length"), exchange(body=b"tiny")):
        digest = read(page(wire=wire))["response"].rec_headers.get_header("WARC-Payload-Digest")
        original = Original("http://a.test/first", "2026-11-18T04:20:00Z")
        assert "response" in read(page(wire=wire), **{digest.replace(":", "_"): original})


def test_a_page_that_is_not_modified_is_a_revisit() -> None:
    head = b'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n'
    wire = exchange(head=head, body=b"")
    found = read(page(wire=wire, status=304, flags=[NOT_MODIFIED], visits=2, content_type=""))
    revisit = found["revisit"]
    assert revisit.block == head
    assert revisit.rec_headers.get_header("WARC-Profile").endswith("/server-not-modified")
    assert revisit.rec_headers.get_header("WARC-Refers-To-Target-URI") == "http://a.test/"
    assert revisit.rec_headers.get_header("WARC-Payload-Digest") is None


def test_metadata_are_stored_if_wished() -> None:
    links = ["http://a.test/1", "http://b.test/\nx: y"]
    given = page(depth=3, fetch_ms=12, links=links, parent_url="http://a.test/up")
    lines = read(given, metadata=True)["metadata"].block.decode().splitlines()
    assert lines == [
        "depth: 3",
        "fetchTimeMs: 12",
        "via: http://a.test/up",
        "outlink: http://a.test/1 L a/@href",
        "outlink: http://b.test/ x: y L a/@href",
    ]
    assert "metadata" not in read(given)


def test_a_rendered_page_has_a_record_of_what_its_browser_showed() -> None:
    shown = b"<html><p>made by a script"
    given = page(wire=exchange(url="http://a.test/?sent"), rendered=True, body=shown)
    found = read(given)
    assert list(found) == ["request", "conversion", "response"]
    header = found["conversion"].rec_headers.get_header
    assert found["conversion"].block == shown
    assert header("WARC-Refers-To") == found["response"].rec_headers.get_header("WARC-Record-ID")
    assert header("Content-Type") == "text/html; charset=utf-8"
    # What the server sent, for the URL that was requested; its type is not that of the page.
    assert found["response"].block == HEAD + exchange().body
    assert {each.rec_headers.get_header("WARC-Target-URI") for each in found.values()} == {
        "http://a.test/?sent"
    }
    identified = found["response"].rec_headers.get_header("WARC-Identified-Payload-Type")
    assert identified is None
    assert "conversion" not in read(page())


def test_a_rendered_page_whose_bytes_are_not_known_is_a_response() -> None:
    found = page(rendered=True, body=b"<html>shown")
    found.exchange = None
    records = read(found)
    assert list(records) == ["response"]
    assert records["response"].block.endswith(b"\r\n\r\n<html>shown")


def test_a_page_that_asks_not_to_be_kept_is_not_archived() -> None:
    assert capture_of(page(reason="noindex", stored=False)) is None


def test_a_url_without_a_response_is_not_archived() -> None:
    found = page(status=0, reason="timeout", stored=False)
    found.exchange = None
    assert capture_of(found) is None


def test_a_response_of_another_client_gets_a_head_of_its_own() -> None:
    headers = {"content-type": "text/html", "set-cookie": "a=1\nb=2", "content-encoding": "gzip"}
    found = page(headers=headers, body=b"unpacked", status=404)
    found.exchange = None
    response = read(found)["response"]
    assert response.block == (
        b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nSet-Cookie: a=1\r\n"
        b"Set-Cookie: b=2\r\nContent-Length: 8\r\n\r\nunpacked"
    )
    assert rebuilt_head(999, {}, 0) == b"HTTP/1.1 999 \r\nContent-Length: 0\r\n\r\n"


def test_a_redirect_has_the_status_and_type_of_its_head() -> None:
    head = b"HTTP/1.1 301 Moved\r\nLocation: /b\r\nContent-Type: Text/HTML; x=1\r\n\r\n"
    capture = capture_of(page(wire=exchange(head=head), status=0, content_type=""))
    assert capture is not None
    assert (capture.status, capture.content_type) == (301, "text/html")


@pytest.mark.parametrize("level", [1, 2, 3, 4, 9])
def test_each_record_is_a_gzip_member(level: int) -> None:
    capture = capture_of(page())
    assert capture is not None
    records = RecordMaker("gzip", level, what="a test").records(capture, {})
    members, data = [], records.data
    while data:
        unpack = zlib.decompressobj(31)
        members.append(unpack.decompress(data))
        assert unpack.eof
        data = unpack.unused_data
    assert [member.partition(b"\r\n")[0] for member in members] == [b"WARC/1.1"] * 2
    assert all(member.endswith(b"\r\n\r\n") for member in members)


def test_each_record_is_a_zstd_frame() -> None:
    capture = capture_of(page())
    assert capture is not None
    records = RecordMaker("zstd", 3, what="a test").records(capture, {})
    last = zstandard.ZstdDecompressor().decompress(records.data[-records.length :])
    assert last.startswith(b"WARC/1.1\r\nWARC-Type: response")
    # Readers may ask for the size before they unpack.
    size = zstandard.get_frame_parameters(records.data[-records.length :]).content_size
    assert size == len(last)
