"""Targets that read what servers send: responses whole and in pieces, headers, packed bodies."""

from __future__ import annotations

import asyncio
import ipaddress
import random
import socket
import zlib
from functools import partial
from itertools import pairwise
from typing import Any

import brotli  # type: ignore[import-untyped]
import dns.exception
import dns.message
import dns.rrset
import zstandard
from dns.asyncbackend import Backend, DatagramSocket
from scrapy import Request
from scrapy.exceptions import DownloadCancelledError, DownloadFailedError
from scrapy.http import Headers
from scrapy.utils.test import get_crawler

from crawler import settings as ours
from crawler.dns.addresses import may_connect
from crawler.dns.lookup import DnsFailed, Lookup, NoSuchHost
from crawler.download.receiver import DownloadLimits, Receiver
from crawler.download.response_parser import BadChunks, Chunks, ResponseParser, Truncated
from crawler.items import Page
from crawler.politeness.host_delays import retry_after_s
from crawler.scheduling.page_maker import PageMaker
from crawler.storage.documents import as_json, body_fields, page_fields
from crawler.storage.kafka.messages import page_message
from crawler.storage.warc.reader import unpacked, unpacked_body
from crawler.storage.warc.records import RecordMaker, capture_of
from crawler.util import decompress
from crawler.util.request_meta import ARCHIVED
from fuzzing.target import Target, expect

_LOOP = asyncio.new_event_loop()
_MAX_BYTES = 100_000


class _Body:
    """Receiver that wants everything."""

    def __init__(self) -> None:
        self.head_of: tuple[Any, ...] = ()
        self.data = b""

    def head(self, status: int, version: str, headers: Headers, raw: bytes) -> bool:
        self.head_of = (status, version, dict(headers), raw)
        return True

    def body(self, data: bytes) -> bool:
        self.data += data
        return True


async def _parsed(pieces: list[bytes], receiver: Any, *, only_head: bool) -> tuple[Any, ...]:
    parser = ResponseParser(receiver, only_head=only_head)
    for piece in pieces:
        parser.feed(piece)
    keeps = parser.keeps
    parser.closed(None)
    error = parser.done.exception()
    if not isinstance(error, Truncated | DownloadFailedError | DownloadCancelledError | None):
        raise error
    parser.leave()
    return type(error), keeps and error is None


def _cuts(data: bytes) -> list[bytes]:
    chance = random.Random(zlib.crc32(data))
    number = chance.choice((1, 2, 5, len(data)))
    places = sorted(
        {0, len(data), *(chance.randint(0, len(data)) for _ in range(min(number, 400)))}
    )
    return [data[start:end] for start, end in pairwise(places)]


def _response(data: bytes) -> None:
    """Read a response whole and in pieces: both must give the same."""
    only_head = data[:1] == b"\1"
    data = data[1:]
    whole, pieces = _Body(), _Body()
    found = _LOOP.run_until_complete(_parsed([data] if data else [], whole, only_head=only_head))
    again = _LOOP.run_until_complete(_parsed(_cuts(data), pieces, only_head=only_head))
    expect((found, whole.head_of, whole.data) == (again, pieces.head_of, pieces.data),
           (found, whole.head_of, whole.data, again, pieces.head_of, pieces.data))  # fmt: skip


def _chunks(data: bytes) -> None:
    def read(pieces: list[bytes]) -> tuple[Any, ...]:
        chunks, body = Chunks(), b""
        try:
            for piece in pieces:
                for part in chunks.feed(piece):
                    body += part
        except BadChunks as error:
            return body, str(error)
        return body, chunks.is_last, chunks.is_ended, chunks.is_whole(at_close=True)

    expect(read([data]) == read(_cuts(data)), (read([data]), read(_cuts(data))))


def _limits() -> DownloadLimits:
    values = {name: getattr(ours, name) for name in dir(ours) if name.isupper()}
    values |= {"EXTENSIONS": {}, "TWISTED_REACTOR_ENABLED": False, "LOG_LEVEL": "ERROR"}
    values |= {"DOWNLOAD_MAXSIZE": _MAX_BYTES, "SINKS": "warc:/nowhere"}
    return DownloadLimits.from_crawler(get_crawler(settings_dict=values))


class _Received:
    """Everything that is done with a response before its body is read, and after it."""

    def __init__(self) -> None:
        self._limits: DownloadLimits | None = None
        self._pages = PageMaker()
        self._records = RecordMaker("gzip", 1, what="fuzzing")

    def __call__(self, data: bytes) -> None:
        self._limits = self._limits or _limits()
        request = Request("http://example.com/page?a=b", meta={ARCHIVED: True})
        receiver = Receiver(request, self._limits)
        _LOOP.run_until_complete(_parsed([data] if data else [], receiver, only_head=False))
        if not receiver.status:
            return
        response = receiver.response()
        response.request = request
        retry_after_s(response.headers.get("Retry-After"), now_s=0.0)
        page = self._pages.page_of(response)
        self._stored(page)

    def _stored(self, page: Page) -> None:
        page.crawl = "web"
        as_json({**page_fields(page), **body_fields(page.body, page.charset)}).encode()
        page_message(page, with_body=True, max_bytes=50_000, places={}).value.decode()
        for exchange in (page.exchange, None):
            page.exchange = exchange
            capture = capture_of(page, metadata=True)
            if capture is None:
                continue
            records = self._records.records(capture, {})
            record = unpacked(records.data[-records.length :], "a.warc.gz")
            expect(record.headers.get("WARC-Target-URI") == page.final_url, record.headers)
            unpacked_body(capture.head, capture.body)


_CODINGS = (b"gzip", b"deflate", b"br", b"zstd")


def _packed(data: bytes) -> None:
    """Unpack a body; the first byte chooses how it is packed."""
    if not data:
        return
    coding, packed = _CODINGS[data[0] % len(_CODINGS)], data[1:]
    decompress.is_whole(coding, packed, _MAX_BYTES)
    begun = decompress.unpacking(coding, packed)
    try:
        while begun is not None and not begun.is_whole and (part := begun.more(4096)):
            expect(len(part) <= 4096 + 65_536, len(part))
            if coding == b"br":
                break
    except decompress.NotPacked:
        pass
    if coding in decompress.IN_PARTS:
        unpack = partial(decompress.unpack_parts, coding)
    elif coding == b"br":
        unpack = decompress.before_tail
    else:
        return
    try:
        found = unpack(packed, _MAX_BYTES)
    except decompress.NotPacked:
        return
    expect(len(found) <= _MAX_BYTES + (1 << 20), len(found))


class _Socket(DatagramSocket):
    """Socket of a DNS server that answers every query with the same bytes."""

    def __init__(self, answer: bytes) -> None:
        super().__init__(socket.AF_INET, socket.SOCK_DGRAM)
        self._answers = [answer]
        self._id = b""

    async def sendto(self, what: bytes, destination: Any, *_: Any) -> int:
        # The answer has the query's number; the rest is as given.
        self._id, self._server = what[:2], destination
        return len(what)

    async def recvfrom(self, *_: Any) -> tuple[bytes, Any]:
        if not self._answers:
            raise dns.exception.Timeout
        return self._id + self._answers.pop(), self._server


class _Backend(Backend):
    """Backend of dnspython without a network. Instead of asking again, it gives up."""

    def __init__(self, answer: bytes) -> None:
        self._answer, self._asked = answer, 0

    async def make_socket(self, _af: int, socktype: int, *_: Any) -> Any:
        self._asked += 1
        if socktype != socket.SOCK_DGRAM or self._asked > 1:
            raise dns.exception.Timeout
        return _Socket(self._answer)

    async def sleep(self, _interval: float) -> None:
        raise dns.exception.Timeout


_LOOKUP = Lookup(["127.0.0.1"], ipv6=False)


def _dns(data: bytes) -> None:
    _LOOKUP._backend = _Backend(data)
    try:
        found = _LOOP.run_until_complete(_LOOKUP.ask("a.example.com"))
    except (NoSuchHost, DnsFailed):
        return
    for address in found.addresses:
        ipaddress.ip_address(address)
        may_connect(address, ())
    expect(found.ttl_s >= 0, found)


def _dns_answer(*records: str) -> bytes:
    query = dns.message.make_query("a.example.com", "A")
    answer = dns.message.make_response(query)
    answer.answer = [dns.rrset.from_text(*record.split(" ")) for record in records]
    return answer.to_wire()[2:]


_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 5\r\n\r\nhello"
)
_CHUNKED = (
    b"\0HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nKeep-Alive: timeout=5\r\n\r\n"
    b"5\r\nhello\r\n0\r\nA: b\r\n\r\n"
)
_SLOW = (
    b"\0HTTP/1.1 429 Slow\r\nRetry-After: Mon, 02 Nov 2026 10:00:00 GMT\r\nX-Robots-Tag: none\r\n"
    b'Content-Disposition: attachment; filename="a.pdf"\r\nContent-Encoding: gzip, br\r\n\r\nab'
)
_RESPONSES = (
    *(b"\0" + _HEAD, _CHUNKED, _SLOW),
    b"\1HTTP/1.0 404 Not Found\r\nServer: x\r\n\r\n",
    b'\0HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\nHTTP/1.1 304 Not Modified\r\nETag: "a"\r\n\r\n',
    b"\0garbage\nHTTP/1.1 200 OK\nContent-Length: 3, 3\nno header\n folded\n\nabc",
    b"\0HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\n\r\n",
)
_HEADERS = (
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b"\r\n\r\n",
        b"\n\n",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 100 C\r\n\r\n",
    ),
    *(
        b"Content-Length: ",
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip\r\n",
        b": ",
    ),
    *(
        b"Content-Type: ",
        b"Content-Encoding: br\r\n",
        b"Connection: close\r\n",
        b"0\r\n\r\n",
        b"a\r\n",
    ),
    *(b"ffffffffffffffff", b"0000", b";ext=", b"\0", b" \t", b"identity", b"Set-Cookie: a=b\r\n"),
    *(b"Retry-After: ", b"Location: //", b"HTTP/", b"HTTP/2 200", b"icy 200 ok", b"\x80"),
)
_PAGE = b"<p>hello hello hello hello"
TARGETS = (
    Target("http1", _response, _RESPONSES, _HEADERS, large_s=2.0),
    Target(
        "chunks",
        _chunks,
        (b"5\r\nhello\r\n0\r\n\r\n", b"5;a=b\nhello\n00\nTrailer: x\n\n"),
        (b"\r\n", b"\n", b"0\r\n\r\n", b"5\r\nhello\r\n", b";", b"f", b"FFFFFFFF\r\n"),
        large_s=2.0,
    ),
    Target("received", _Received(), tuple(each[1:] for each in _RESPONSES), _HEADERS, large_s=2.0),
    Target(
        "dns",
        _dns,
        (
            _dns_answer("a.example.com. 60 IN A 192.0.2.1"),
            _dns_answer(
                "a.example.com. 60 IN CNAME b.example.com.", "b.example.com. 5 IN A 192.0.2.2"
            ),
            _dns_answer(),
        ),
        (
            b"\xc0\x0c",
            b"\0\1\0\1",
            b"\0\5\0\1",
            b"\x80\0",
            b"\x81\x83",
            b"\7example\3com\0",
            b"\0\0\0\x3c",
            b"\xff\xff",
        ),
        max_bytes=600,
    ),
    Target(
        "packed",
        _packed,
        (
            b"\0" + zlib.compress(_PAGE, wbits=31),
            b"\1" + zlib.compress(_PAGE),
            b"\2" + brotli.compress(_PAGE),
            b"\3" + zstandard.compress(_PAGE),
        ),
        (b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"\x78\x9c"),
        large_s=2.0,
    ),
)
