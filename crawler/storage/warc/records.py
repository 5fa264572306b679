"""Make the WARC records of a page: response or revisit, request, metadata, conversion. No I/O.

The block of a response is its head as it came, and its body without chunking and with its
Content-Encoding. As in other archives, the header Transfer-Encoding is renamed then. Each record is
compressed on its own, so that it can be read by its offset. Records are written here, in less time
than by a library (docs/adr/0027-warc.md), and read by FastWARC.

Headers of our own, in every record of a page: WARC-Crawl, WARC-URL-Hash and WARC-Visit (the time of
discovery and the number of the visit) tell which visit of which page a capture is of.
"""

from __future__ import annotations

import re
import zlib
from base64 import b32encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha1
from http import HTTPStatus
from threading import local
from typing import Any, NamedTuple
from uuid import uuid4

import zstandard

from crawler.items import NOT_MODIFIED, Page
from crawler.util.extras import optional

CODECS = {"gzip": ".gz", "zstd": ".zst", "none": ""}
EXTRA = "warc"
# Type of revisits in indexes.
REVISIT = "warc/revisit"
# Up to this level gzip is done by ISA-L, in a third of zlib's time.
_ISAL_MAX = 3
_HTTP = "application/http;msgtype="
_FIELDS = "application/warc-fields"
_HTML = "text/html; charset=utf-8"
_PROFILE = "http://netpreserve.org/warc/1.1/revisit/"
_IDENTICAL, _UNMODIFIED = f"{_PROFILE}identical-payload-digest", f"{_PROFILE}server-not-modified"
_TRANSFER = re.compile(
    rb"^(Transfer-Encoding)([ \t]*:[ \t]*)([^\r\n]*)", re.IGNORECASE | re.MULTILINE
)
# What crawlers that undo a transfer coding call it (Nutch, StormCrawler, Common Crawl).
_RENAMED = rb"X-Crawler-\1\2\3"
_NO_CODING = frozenset({b"", b"identity", b"chunked"})
# Headers of a request that may have credentials.
_SECRETS = re.compile(
    rb"^(?:Authorization|Proxy-Authorization|Cookie)[ \t]*:[^\n]*\n", re.IGNORECASE | re.MULTILINE
)
_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)
# How bodies of frequent types begin, after blanks and a byte order mark.
_SNIFFED_BYTES, _BLANKS = 2000, b"\xef\xbb\xbf \t\r\n\f"
_MARKS = {
    "text/html": re.compile(
        rb"(?:<!--.*?-->\s*)*+<(?:!doctype html|html|head|body|title|meta|script|style|p|div|h1|a)"
        rb"[\s>]",
        re.IGNORECASE | re.DOTALL,
    ),
    "application/xhtml+xml": re.compile(rb"<\?xml[^>]*>\s*(?:<!doctype html|<html)", re.IGNORECASE),
    "application/xml": re.compile(rb"<\?xml\s"),
    "application/pdf": re.compile(rb"%PDF-"),
    "image/png": re.compile(rb"\x89PNG\r\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
}
_TYPE_HEADER = re.compile(rb"^Content-Type[ \t]*:[ \t]*([^;\s]+)", re.IGNORECASE | re.MULTILINE)
# Headers that are not true of a body that was unpacked.
_OF_TRANSFER = frozenset({"content-encoding", "transfer-encoding", "content-length"})
# Shorter bodies are cheaper to repeat than to refer to.
_REVISIT_MIN_BYTES = 256


class Original(NamedTuple):
    """Capture that has the same payload."""

    uri: str
    date: str


@dataclass(frozen=True, slots=True)
class Capture:
    """Response to archive."""

    uri: str
    crawl: str
    url_hash: str
    visit: str
    at: datetime
    status: int
    # As the server names it; empty if it does not.
    content_type: str
    head: bytes
    body: bytes
    # Empty if it is not known.
    request: bytes = b""
    address: str = ""
    protocols: Sequence[str] = ()
    truncated: str = ""
    is_not_modified: bool = False
    # As its body shows it; empty if it does not.
    identified_type: str = ""
    # Lines of a metadata record; none: there is no such record.
    metadata: Sequence[tuple[str, str]] = ()
    # HTML of the page as a browser shows it, in UTF-8; empty if it was not rendered.
    rendered: bytes = b""

    @property
    def date(self) -> str:
        return f"{self.at.isoformat()[:19]}Z"


@dataclass(frozen=True, slots=True)
class Records:
    """Records of a page, ready to be appended to a file.

    The capture itself is the last one. The conversion, if there is one, is right before it.
    """

    data: bytes
    # Bytes of the last record, and of the conversion.
    length: int
    converted_length: int
    capture: Capture
    digest: str
    mime: str

    @property
    def size_bytes(self) -> int:
        return len(self.data)


def capture_of(page: Page, *, metadata: bool = False) -> Capture | None:
    """Return what is archived of a page; None without a response, or if it asks not to be kept."""
    exchange = page.exchange
    uri, rendered = page.final_url, b""
    if page.reason == "noindex" or (exchange is None and not page.status):
        return None
    at, status = page.crawled_at, page.status
    if exchange is not None:
        head, body = archived_head(exchange.head), exchange.body
        at = datetime.fromtimestamp(exchange.began_s, UTC)
        status = status or _status_of(head)
        uri, rendered = exchange.url or uri, page.body if page.rendered else b""
        wire: dict[str, Any] = {
            "request": _without_secrets(exchange.request),
            "address": exchange.address,
            "protocols": exchange.protocols,
            "truncated": exchange.truncated,
        }
    else:
        head, body = rebuilt_head(status, page.headers, len(page.body)), page.body
        is_partial = "truncated" in page.flags or page.reason == "type_not_accepted"
        wire = {"truncated": "unspecified" if is_partial else ""}
    found = int(page.discovered_at.timestamp()) if page.discovered_at is not None else 0
    return Capture(
        uri=uri,
        crawl=page.crawl,
        url_hash=page.url_hash,
        visit=f"{found}-{page.visits}",
        at=at,
        status=status,
        # That of a rendered page is the browser's.
        content_type=_type_of("" if rendered else page.content_type, head),
        identified_type="" if rendered else _identified(page.body),
        head=head,
        body=body,
        is_not_modified=NOT_MODIFIED in page.flags,
        metadata=_metadata(page) if metadata else (),
        rendered=rendered,
        **wire,
    )


def archived_head(head: bytes) -> bytes:
    """Return the head of a body that has no transfer coding any more."""
    codings = _TRANSFER.findall(head)
    if not codings:
        return head
    head = _TRANSFER.sub(_RENAMED, head)
    names = [name.strip().lower() for _, _, value in codings for name in value.split(b",")]
    packed = [name for name in names if name not in _NO_CODING]
    if packed:
        # Only the chunks are undone.
        end = head.rstrip(b"\r\n")
        head = b"%b\r\nContent-Encoding: %b\r\n\r\n" % (end, b", ".join(packed))
    return head


def rebuilt_head(status: int, headers: Mapping[str, str], body_bytes: int) -> bytes:
    """Make the head of a page whose own is not known, for its unpacked body."""
    try:
        reason = HTTPStatus(status).phrase
    except ValueError:
        reason = ""
    lines = [f"HTTP/1.1 {status} {reason}"]
    for name, values in headers.items():
        if name not in _OF_TRANSFER:
            lines += [f"{name.title()}: {value}" for value in values.split("\n")]
    lines += [f"Content-Length: {body_bytes}", "", ""]
    return "\r\n".join(lines).encode("latin-1", "replace")


def _without_secrets(request: bytes) -> bytes:
    head, end, body = request.partition(b"\r\n\r\n")
    return _SECRETS.sub(b"", head + b"\r\n")[:-2] + end + body


def _identified(body: bytes) -> str:
    """Return the type that the first bytes of a body show; empty if they show none."""
    start = body[:_SNIFFED_BYTES].lstrip(_BLANKS)
    for kind, mark in _MARKS.items():
        if mark.match(start):
            return kind
    return ""


def _type_of(content_type: str, head: bytes) -> str:
    """Return the media type of a page, or that in its head; empty if it is none."""
    found = _TYPE_HEADER.search(head) if not content_type else None
    text = found[1].decode("latin-1").lower() if found else content_type
    return text if _TYPE.fullmatch(text) else ""


def _status_of(head: bytes) -> int:
    found = re.search(rb"HTTP\S*[ \t]+([1-9][0-9]{2})", head)
    return int(found[1]) if found else 0


def _metadata(page: Page) -> list[tuple[str, str]]:
    lines = [("depth", str(page.depth)), ("fetchTimeMs", str(page.fetch_ms))]
    if page.parent_url:
        lines.append(("via", page.parent_url))
    return [*lines, *(("outlink", f"{link} L a/@href") for link in page.links)]


Compress = Callable[[bytes], bytes]
Fields = Iterable[tuple[str, str]]


def compressor(codec: str, level: int, what: str) -> Compress:
    """Make a function that compresses a record; it serves one thread at a time.

    `what` is the setting or option that needs the extra.
    """
    if codec == "none":
        return bytes
    if codec == "zstd":
        return zstandard.ZstdCompressor(level=level).compress
    if level <= _ISAL_MAX:
        isal = optional("isal.igzip_lib", extra=EXTRA, what=what)
        return lambda data: bytes(isal.compress(data, level, isal.COMP_GZIP))
    return lambda data: zlib.compress(data, level, wbits=31)


class RecordMaker:
    """Maker of compressed records. `what` is the setting or option that needs the extra."""

    def __init__(self, codec: str, level: int, *, what: str) -> None:
        compressor(codec, level, what)
        self._codec, self._level, self._what = codec, level, what
        self._threads = local()

    def info(self, filename: str, fields: Mapping[str, str], at: datetime) -> bytes:
        """Make the record that a file begins with."""
        headers = [("WARC-Date", f"{at:%Y-%m-%dT%H:%M:%SZ}"), ("WARC-Filename", filename)]
        return self._packed("warcinfo", _new_id(), headers, _FIELDS, _lines(fields.items()))

    def records(self, capture: Capture, known: Mapping[str, Original]) -> Records:
        """Make the records of a capture.

        `known` has the captures of payloads by their digest, and of pages by their url_hash.
        """
        body = capture.body
        digest = digest_of(body)
        key = capture.url_hash if capture.is_not_modified else digest
        is_worth = capture.is_not_modified or len(body) >= _REVISIT_MIN_BYTES
        original = known.get(key) if is_worth else None
        is_revisit = capture.is_not_modified or (original is not None and not capture.truncated)
        of_page = [
            ("WARC-Date", capture.date),
            ("WARC-Target-URI", capture.uri),
            ("WARC-Crawl", capture.crawl),
            ("WARC-URL-Hash", capture.url_hash),
            ("WARC-Visit", capture.visit),
        ]
        headers, block = of_page.copy(), capture.head
        if not is_revisit:
            block += body
            headers.append(("WARC-Payload-Digest", digest))
            if capture.identified_type:
                headers.append(("WARC-Identified-Payload-Type", capture.identified_type))
            if capture.truncated:
                headers.append(("WARC-Truncated", capture.truncated))
        elif capture.is_not_modified:
            headers.append(("WARC-Profile", _UNMODIFIED))
            headers.append(("WARC-Refers-To-Target-URI", capture.uri))
            if original is not None:
                headers.append(("WARC-Refers-To-Date", original.date))
        else:
            assert original is not None
            headers.append(("WARC-Profile", _IDENTICAL))
            headers.append(("WARC-Payload-Digest", digest))
            headers.append(("WARC-Refers-To-Target-URI", original.uri))
            headers.append(("WARC-Refers-To-Date", original.date))
        headers += [("WARC-Protocol", protocol) for protocol in capture.protocols]
        if capture.address:
            headers.append(("WARC-IP-Address", capture.address))
        own_id, before = _new_id(), []
        if capture.request:
            sent = [*of_page, ("WARC-Concurrent-To", own_id)]
            packed = self._packed("request", _new_id(), sent, f"{_HTTP}request", capture.request)
            before.append(packed)
        if capture.metadata:
            about = [*of_page, ("WARC-Refers-To", own_id)]
            lines = _lines(capture.metadata)
            before.append(self._packed("metadata", _new_id(), about, _FIELDS, lines))
        converted = b""
        if capture.rendered:
            about = [*of_page, ("WARC-Refers-To", own_id)]
            converted = self._packed("conversion", _new_id(), about, _HTML, capture.rendered)
        kind = "revisit" if is_revisit else "response"
        packed = self._packed(kind, own_id, headers, f"{_HTTP}response", block)
        return Records(
            data=b"".join((*before, converted, packed)),
            length=len(packed),
            converted_length=len(converted),
            capture=capture,
            digest="" if capture.is_not_modified else digest,
            mime=REVISIT if is_revisit else capture.content_type,
        )

    def _packed(
        self, kind: str, own_id: str, headers: Fields, content_type: str, block: bytes
    ) -> bytes:
        head = _lines(
            [
                ("WARC-Type", kind),
                ("WARC-Record-ID", own_id),
                *headers,
                ("WARC-Block-Digest", digest_of(block)),
                ("Content-Type", content_type),
                ("Content-Length", str(len(block))),
            ]
        )
        compress: Compress | None = getattr(self._threads, "compress", None)
        if compress is None:
            compress = compressor(self._codec, self._level, self._what)
            self._threads.compress = compress
        return compress(b"".join((b"WARC/1.1\r\n", head, b"\r\n", block, b"\r\n\r\n")))


def _new_id() -> str:
    return f"<{uuid4().urn}>"


def _lines(fields: Fields) -> bytes:
    """Format headers, or the fields of a warcinfo or metadata record, each in one line."""
    lines = [f"{name}: {value}\r\n" for name, value in fields]
    text = "".join(lines)
    if not len(lines) == text.count("\r") == text.count("\n"):
        text = "".join(f"{' '.join(line.split())}\r\n" for line in lines)
    return text.encode("utf-8", "replace")


def digest_of(data: bytes) -> str:
    """Return the digest of a payload or block, as in headers and indexes."""
    # Not for security: what other archives use, and readers compare.
    return "sha1:" + b32encode(sha1(data, usedforsecurity=False).digest()).decode("ascii")
