"""Targets that read records of Redis, of disks and of worker processes, which may be damaged."""

from __future__ import annotations

import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

import msgpack
import zstandard
from scrapy import Spider

from crawler.dns import resolver
from crawler.dns.lookup import _read_hosts
from crawler.frontier.entry import DamagedEntry, Entry, Kind, decode, encode, host_in
from crawler.parsing.document import Document, DocumentLimits, Link
from crawler.reading import messages
from crawler.rendering import messages as rendering
from crawler.robots import records as robots
from crawler.scheduling.recrawl_policy import Visit
from crawler.storage import disk_log
from crawler.storage.warc import files, index
from fuzzing.target import Target, expect, text_of

_SPIDER = Spider(name="web")


def _entry(data: bytes) -> None:
    try:
        entry = decode(data)
    except DamagedEntry:
        return
    packed = encode(entry)
    # Compared as bytes: a tail may hold NaN, which equals nothing.
    expect(encode(decode(packed)) == packed, entry)
    expect(host_in(data) == entry.host.encode(), entry)
    entry.retried("timeout", now_s=1.0)
    Visit.unpacked(entry.tail.get("visit"), 0)


def _visit(data: bytes) -> None:
    try:
        values = msgpack.unpackb(data)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return
    visit = Visit.unpacked(values, 5)
    if visit is not None:
        again = Visit.unpacked(msgpack.unpackb(msgpack.packb(visit.packed())), 5)
        expect(again is not None, (visit, again))


def _robots(data: bytes) -> None:
    for left_ms in (1000, 10**12):
        record = robots.unpacked(data, left_ms)
        if record is not None:
            expect(isinstance(record.reason, str), record)
            expect(isinstance(record.failures + record.status + record.left_ms, int), record)
        if record is not None and record.body is not None:
            expect(len(record.body) <= 2 * 512 * 1024, len(record.body))
    robots.mark_of(data)


def _dns_record(data: bytes) -> None:
    found = resolver._shared_answer(data, 100_000)
    if found is not None:
        expect(all(isinstance(each, str) for each in found.addresses), found)
    _read_hosts(text_of(data))


def _message(data: bytes) -> None:
    """Read the messages of worker processes, which documents and pages may have taken over."""
    try:
        answer, _ = messages.answer_in(data)
        if isinstance(answer, Document):
            messages.bounded(answer, DocumentLimits())
    except messages.Garbage:
        pass
    try:
        message = messages.unpacked(data)
        if isinstance(message, dict):
            for read in (rendering.part_in, rendering.outcome_in):
                try:
                    read(message)
                except messages.Garbage:
                    continue
    except messages.Garbage:
        return


_FOLDER = tempfile.TemporaryDirectory(prefix="fuzzing-")
_WARC_NAME = files.WarcName("web-1", ".gz", is_open=False)


def _warc(data: bytes) -> None:
    """Scan an archive file without an index; the first byte chooses how it is packed."""
    if not data:
        return
    packed = ("", ".gz", ".zst")[data[0] % 3]
    body = data[1:]
    at = 0
    for start, end, content in files.members(BytesIO(body), packed):
        expect(at == start < end <= len(body), (at, start, end))
        at = end
        record = files.read_record(content)
        if record is not None and (line := files._captured(record, _WARC_NAME, start, end)):
            expect(index.Line.decoded(line.encoded()) == line, line)
    files.read_record(body)


def _cdxj(data: bytes) -> None:
    for line in data.split(b"\n"):
        try:
            found = index.Line.decoded(line)
            places = (found.offset, found.length, found.visit)
        except ValueError:
            continue
        expect(len(places) == 3, found)
    path = Path(_FOLDER.name) / "index.cdxj"
    path.write_bytes(data)
    if files.is_readable(path):
        index.write_sorted(index.whole_lines(path), path.with_suffix(".sorted"))


def _disk_log(data: bytes) -> None:
    path = Path(_FOLDER.name) / "segment.log"
    path.write_bytes(data)
    segment = disk_log._scan(path)
    for payload in disk_log.records(segment):
        expect(len(payload) <= len(data), len(payload))
    path.with_suffix(".damaged").unlink(missing_ok=True)


def _packed(value: Any) -> bytes:
    data: bytes = msgpack.packb(value)
    return data


_ENTRIES = (
    encode(Entry(id=1, url="http://example.com/a")),
    encode(Entry(id=2, url="https://a.example.com/a?b=c", written="?c=d", group_skip=2,
                 kind=Kind.SITEMAP, discovered_s=5)),
    encode(Entry(id=3, url="http://example.com/", tail={
        "method": "POST", "body": b"a=b", "meta": {"x": [1, None]}, "history": [["timeout", 5]],
        "visit": [3600, b"12345678", 7, b"", 1, 0, 0, 0]})),
    encode(Entry(id=4, url="http://example.com/", written="/a%2fb",
                 tail={"url": "http://example.com/x", "callback": "parse_sitemap"})),
)  # fmt: skip
_ROBOTS = _packed({
    "body": zstandard.compress(b"User-agent: *\nDisallow: /a"), "withheld": False, "reason": "",
    "failures": 0, "status": 200, "ttl_ms": 5000, "kept_ms": 5000, "asked_ms": 0,
})  # fmt: skip
_ANSWER = messages.packed_answer(
    Document(title="T", text="x", links=["http://a.test/"], anchors=[Link("http://a.test/")])
)[4:]
_PART = _packed({"part": 1, "url": "http://a.test/", "method": "GET", "kind": "script",
                 "headers": {"a": "b"}, "body": b""})  # fmt: skip
_RENDERED = _packed({
    "rendered": {"url": "http://a.test/", "html": b"<p>", "redirect": "", "routes": ["http://a.test/b"],
                 "settled": True, "console_errors": 0, "left_out": {}, "screenshot": b""},
    "last": False,
})  # fmt: skip
_WARC = (
    b"WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.test/\r\nWARC-Date: "
    b"2026-11-18T04:25:30Z\r\nWARC-Record-ID: <urn:uuid:1>\r\nContent-Type: application/http;"
    b"msgtype=response\r\nContent-Length: 43\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\n\r\nhello\r\n\r\n"
)
_LINE = index.line_of(
    "http://a.test/", "2026-11-18T04:25:30Z", length=5, offset=0, filename="a.warc"
).encoded()
_MSGPACK = (
    *(b"\x80", b"\x90", b"\xc0", b"\xc2", b"\xc3", b"\xca\x7f\x80\0\0", b"\xcf" + b"\xff" * 8),
    *(b"\xd3\x80" + b"\0" * 7, b"\xc7\x0c\xff" + b"\xff" * 12, b"\xdd\xff\xff\xff\xff", b"\xa1a"),
    *(b"\xd6\xff\0\0\0\0", b"\xc4\1a", b"\xd9\x03\xed\xa0\x80", b"\x91" * 30, b"\xcd\xff\xff"),
)
TARGETS = (
    Target(
        "entry",
        _entry,
        _ENTRIES,
        (*_MSGPACK, b"\n", b"\n%", b"\n/", b"\n?", b"\xa3url", b"\xa5visit"),
    ),
    Target(
        "visit",
        _visit,
        (
            _packed([3600, b"12345678", 7, b"", 1, 0, 0, 0]),
            _packed([60, b"1" * 8, None, b"", 2, 1, 0, 0, 9, b"123456789012"]),
        ),
        _MSGPACK,
    ),
    Target(
        "robots_record",
        _robots,
        (_ROBOTS, _packed("0" * 32)),
        (*_MSGPACK, b"\xa4body", b"\xa6reason", b"\x28\xb5\x2f\xfd"),
    ),
    Target(
        "dns_record",
        _dns_record,
        (_packed(["127.0.0.1", "::1"]), b"", b"127.0.0.1 localhost a.test\n"),
        _MSGPACK,
    ),
    Target(
        "worker_message",
        _message,
        (
            _ANSWER,
            _PART,
            _RENDERED,
            _packed({"unread": "damaged", "last": True}),
            _packed({"failed": "x", "text": "y"}),
        ),
        _MSGPACK,
        large_s=1.0,
    ),
    Target(
        "warc",
        _warc,
        (b"\0" + _WARC * 2,),
        (
            b"WARC/1.1\r\n",
            b"\r\n\r\n",
            b"Content-Length: ",
            b"WARC-Type: ",
            b"revisit",
            b"WARC-Date: ",
            b"\n",
        ),
        large_s=2.0,
    ),
    Target(
        "cdxj",
        _cdxj,
        (_LINE, _LINE * 2),
        (
            b'"offset": ',
            b'"',
            b"{",
            b"}",
            b"null",
            b"[",
            b" ",
            b"1e9",
            b"\n",
            b'"crawl": [], "urlhash": 1, "visit": 2',
        ),
    ),
    Target("disk_log", _disk_log, (disk_log._record(b"hello", 2), disk_log._record(b"", 0) * 2)),
)
