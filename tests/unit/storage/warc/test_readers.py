"""Records as other programs read them: FastWARC and warcio."""

from datetime import UTC, datetime
from io import BytesIO

import pytest
from fastwarc.warc import ArchiveIterator
from hypothesis import given
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator as WarcioIterator

from crawler.storage.warc.records import Capture, Original, RecordMaker, digest_of

MAKER = RecordMaker("gzip", 2, what="a test")
AT = datetime(2026, 11, 18, 4, 25, tzinfo=UTC)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"


def capture(body: bytes, uri: str = "http://a.test/", crawl: str = "web") -> Capture:
    return Capture(
        uri=uri,
        crawl=crawl,
        url_hash="00c0ffee00c0ffee",
        visit="1794198300-1",
        at=AT,
        status=200,
        content_type="text/html",
        head=HEAD,
        body=body,
        request=b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
        address="127.0.0.1",
        protocols=("http/1.1", "tls/1.3"),
        metadata=[("outlink", "http://a.test/b L a/@href")],
    )


@given(st.binary(max_size=2000))
def test_both_readers_find_the_same_records_and_right_digests(body: bytes) -> None:
    data = MAKER.info("a.warc.gz", {"software": "test"}, AT)
    data += MAKER.records(capture(body), {}).data
    blocks = {}
    for record in ArchiveIterator(BytesIO(data), parse_http=False, strict_mode=True):
        block = blocks[str(record.record_type)] = record.reader.read()
        assert record.headers["WARC-Block-Digest"] == digest_of(block)
    assert list(blocks) == ["warcinfo", "request", "metadata", "response"]
    assert blocks["response"] == HEAD + body
    payloads = {
        record.rec_type: record.raw_stream.read()
        for record in WarcioIterator(BytesIO(data), check_digests="raise")
    }
    assert list(payloads) == list(blocks)
    assert payloads["response"] == body


@pytest.mark.parametrize("uri", ["http://a.test/\r\nWARC-Type:other", "http://a.test/é\n\n"])
def test_a_value_never_becomes_another_header(uri: str) -> None:
    data = MAKER.records(capture(b"", uri, crawl="we\r\n\r\nb"), {}).data
    records = list(WarcioIterator(BytesIO(data), no_record_parse=True))
    assert [record.rec_type for record in records] == ["request", "metadata", "response"]
    assert {record.rec_headers["WARC-Crawl"] for record in records} == {"we b"}
    # warcio escapes blanks.
    found = {record.rec_headers["WARC-Target-URI"] for record in records}
    assert found == {"%20".join(uri.split())}


def test_a_revisit_refers_to_the_first_capture() -> None:
    body = b"x" * 1000
    known = {digest_of(body): Original("http://b.test/", "2026-11-17T00:00:00Z")}
    *_, last = WarcioIterator(
        BytesIO(MAKER.records(capture(body), known).data), check_digests="raise"
    )
    assert last.rec_type == "revisit"
    assert last.rec_headers["WARC-Refers-To-Target-URI"] == "http://b.test/"
    assert last.raw_stream.read() == b""
