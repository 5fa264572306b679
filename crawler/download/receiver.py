"""Receive a response: check its type by its head and its size as it comes, send Scrapy's signals.

`make_response` builds the response of the class that Scrapy would choose, without a copy of its
headers.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Self

from pydispatch.dispatcher import getAllReceivers  # type: ignore[import-untyped]
from scrapy import signals
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes
from scrapy.utils._download_handlers import check_stop_download, get_warnsize_msg

from crawler import config
from crawler.discovery.scope import DOCUMENTS, extension
from crawler.download.errors import TooBig, TooManyDocuments
from crawler.frontier.entry import DOCUMENTS as DOCUMENT_QUEUE
from crawler.items import Exchange
from crawler.parsing.documents import HEAVY_NAMES
from crawler.parsing.sniff import declared_type, says_nothing
from crawler.reading.pool import DocumentPool
from crawler.storage.sinks import has_archive
from crawler.util.request_meta import ARCHIVED, EXCHANGE, LEASE

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.exceptions import StopDownload

    from crawler.frontier import Lease

logger = logging.getLogger(__name__)


# Scrapy's flag of a response whose body is not whole. A second flag adds the cause.
DATALOSS = "dataloss"
# Flag of a response whose type is not one of ACCEPT_TYPES. It has headers only.
TYPE_NOT_ACCEPTED = "type_not_accepted"
# Responses without a body; their Content-Length is that of the page.
_WITHOUT_BODY = frozenset({204, 304})
_TRANSFER, _CONTENT = b"Transfer-Encoding", b"Content-Encoding"
# Ending of the file's name in a Content-Disposition header in lower case.
_FILE_ENDING = re.compile(
    r"""filename\*?\s*=\s*(?:"[^"]*\.([a-z0-9]+)\s*"|[^;"]*\.([a-z0-9]+)\s*(?:;|$))"""
)
# Characters of it that are read: searching takes time with their square.
_DISPOSITION_CHARS = 1000
# More parts than this are joined: each part of a few bytes costs forty more as an object, and a
# hundred while all of them are joined.
_PARTS_MAX = 256


@dataclass(frozen=True, slots=True)
class DownloadLimits:
    """Limits for all responses of a crawl."""

    crawler: Crawler
    max_bytes: int
    warn_bytes: int
    types: AcceptedTypes
    documents: DocumentPool
    # Whether files are accepted that are documents only by their names.
    follows_documents: bool = False
    # Whether a sink archives what goes over the wire.
    keeps_exchanges: bool = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        documents = DocumentPool.of(crawler)
        accepted = config.value(settings, "ACCEPT_TYPES")
        follows_documents = config.value(settings, "FOLLOW_DOCUMENTS")
        more = [*documents.own, *(HEAVY_NAMES if follows_documents else ())]
        return cls(
            crawler,
            max_bytes=settings.getint("DOWNLOAD_MAXSIZE"),
            warn_bytes=settings.getint("DOWNLOAD_WARNSIZE"),
            # None at all: every type.
            types=AcceptedTypes([*accepted, *more] if accepted else ()),
            documents=documents,
            follows_documents=follows_documents,
            keeps_exchanges=has_archive(settings),
        )

    def count(self, name: str) -> None:
        assert self.crawler.stats is not None
        self.crawler.stats.inc_value(name)

    def postpone_document(self, request: Request) -> None:
        """Raise TooManyDocuments before a contact if a URL is known to be one too many."""
        lease: Lease | None = request.meta.get(LEASE)
        if self.documents.is_full and lease is not None and lease.entry.queue == DOCUMENT_QUEUE:
            self.refuse_document(request)

    def refuse_document(self, request: Request) -> None:
        self.count("documents/postponed")
        raise TooManyDocuments(f"{request.url}: too many documents wait to be read")


class Receiver:
    """Receiver of one response; `head` and `body` return whether more is wanted, or raise."""

    def __init__(self, request: Request, limits: DownloadLimits) -> None:
        meta = request.meta
        self.status = 0
        self.version = ""
        self.headers = Headers()
        # The address of the server, or of the proxy.
        self.address: IPv4Address | IPv6Address | None = None
        self.certificate: bytes | None = None
        self.flags: list[str] = []
        # Raised by a handler of a signal.
        self.stop: StopDownload | None = None
        self._request = request
        self._limits = limits
        self._started = monotonic()
        # Bytes after which the rest is not read: the begin of a robots.txt is enough.
        self._cut: int = meta.get("download_cut") or 0
        self._max = 0 if self._cut else meta.get("download_maxsize", limits.max_bytes)
        self._warn = meta.get("download_warnsize", limits.warn_bytes)
        # The body is `_gathered` and then `_parts`.
        self._gathered = bytearray()
        self._parts: list[bytes] = []
        self._size = 0
        self._is_heard = False
        # For sinks that archive it: the request as it was sent, the version of TLS, the raw head.
        self.sent = b""
        self.tls = ""
        self._keeps_exchange = limits.keeps_exchanges and (LEASE in meta or ARCHIVED in meta)
        self._raw_head = b""
        self._is_cut = False

    @property
    def _url(self) -> str:
        # Without the fragment, as in Scrapy's own handlers.
        url: str = self._request.url.partition("#")[0]
        return url

    @property
    def content(self) -> bytes:
        """Body so far."""
        parts = self._parts
        if len(parts) == 1 and not self._gathered:
            return parts[0]
        return b"".join((self._gathered, *parts))

    def head(self, status: int, version: str, headers: Headers, raw: bytes) -> bool:
        request, crawler = self._request, self._limits.crawler
        if self._keeps_exchange:
            self._raw_head = raw
        request.meta["download_latency"] = monotonic() - self._started
        self.status, self.version, self.headers = status, version, headers
        if (codings := dict.get(headers, _TRANSFER)) and codings != [b"chunked"]:
            _move_codings(headers, codings)
        length = None
        has_body = request.method != "HEAD" and status not in _WITHOUT_BODY
        if has_body and (lengths := dict.get(headers, b"Content-Length")):
            length = int(lengths[-1])
        if _is_listened_to(crawler, signals.headers_received):
            self.stop = check_stop_download(
                signals.headers_received, crawler, request, headers=headers, body_length=length
            )
            if self.stop is not None:
                return False
        if self._is_unwanted(headers):
            self._limits.count("download/type_not_accepted")
            self.flags.append(TYPE_NOT_ACCEPTED)
            return False
        self._check_room(headers)
        if length is not None:
            self._check_size(length, expected=True)
        self._is_heard = _is_listened_to(crawler, signals.bytes_received)
        return True

    def body(self, data: bytes) -> bool:
        parts = self._parts
        parts.append(data)
        if len(parts) > _PARTS_MAX:
            self._gathered += b"".join(parts)
            parts.clear()
        self._size += len(data)
        if self._is_heard:
            self.stop = check_stop_download(
                signals.bytes_received, self._limits.crawler, self._request, data=data
            )
            if self.stop is not None:
                return False
        if self._cut and self._size >= self._cut:
            self._is_cut = True
            return False
        self._check_size(self._size, expected=False)
        return True

    def response(self) -> Response:
        """Make Scrapy's response; raises StopDownload if a handler of a signal wants an error."""
        content = self.content
        if self._keeps_exchange:
            self._request.meta[EXCHANGE] = self._exchange(content)
        response = make_response(
            self._url,
            self.headers,
            content,
            status=self.status,
            flags=self.flags,
            certificate=self.certificate,
            ip_address=self.address,
            protocol=f"HTTP/{self.version}" if self.version else None,
        )
        if self.stop is not None:
            response.flags.append("download_stopped")
            if self.stop.fail:
                self.stop.response = response
                raise self.stop
        return response

    def _exchange(self, content: bytes) -> Exchange:
        if DATALOSS in self.flags:
            truncated = "disconnect"
        elif self._is_cut:
            truncated = "length"
        else:
            is_partial = self.stop is not None or TYPE_NOT_ACCEPTED in self.flags
            truncated = "unspecified" if is_partial else ""
        protocols = [f"http/{self.version}"] if self.version else []
        if self.tls:
            name = self.tls.lower().replace("v", "/")
            protocols.append(name if "." in name else f"{name}.0")
        return Exchange(
            request=self.sent,
            head=self._raw_head,
            body=content,
            # The wall clock, for people; the other one cannot be set back.
            began_s=time() - (monotonic() - self._started),
            address=str(self.address or ""),
            protocols=tuple(protocols),
            truncated=truncated,
            url=self._url,
        )

    def _check_size(self, size: int, *, expected: bool) -> None:
        """Raise TooBig, or log a warning, if a body of `size` bytes is too big."""
        if self._max and size > self._max:
            self._limits.count("download/too_big")
            raise TooBig(
                f"{self._request.url} has {size} bytes or more; DOWNLOAD_MAXSIZE is {self._max}"
            )
        if self._warn and size > self._warn:
            logger.warning(get_warnsize_msg(size, self._warn, self._request, expected=expected))
            self._warn = 0

    def _check_room(self, headers: Headers) -> None:
        """Raise TooManyDocuments if this is one, and too many wait to be read."""
        documents = self._limits.documents
        if not documents.is_full or LEASE not in self._request.meta or not 200 <= self.status < 300:
            return
        kinds = dict.get(headers, b"Content-Type")
        declared = kinds[-1].decode("latin-1") if kinds else ""
        if documents.takes(declared) or self._is_named_document(headers, declared):
            self._limits.refuse_document(self._request)

    def _is_unwanted(self, headers: Headers) -> bool:
        meta = self._request.meta
        # A request without a lease is not for a page but, for example, for robots.txt.
        if LEASE not in meta or 300 <= self.status < 400:
            return False
        # Sitemaps come with many types.
        if meta.get("download_any_type"):
            return False
        kinds = dict.get(headers, b"Content-Type")
        if kinds is None:
            return False
        # The last of several, as in Scrapy and in the page's record.
        declared = kinds[-1].decode("latin-1")
        return declared not in self._limits.types and not (
            self._limits.follows_documents and self._is_named_document(headers, declared)
        )

    def _is_named_document(self, headers: Headers, declared: str) -> bool:
        """Return whether a file of no declared type has the name of a document."""
        if not says_nothing(declared):
            return False
        given = dict.get(headers, b"Content-Disposition") or (b"",)
        name = _FILE_ENDING.search(given[-1][:_DISPOSITION_CHARS].decode("latin-1").lower())
        return (name[1] or name[2] if name else extension(self._request.url)) in DOCUMENTS


def _move_codings(headers: Headers, codings: list[bytes]) -> None:
    """Turn transfer codings into content encodings, so that the middleware unpacks them."""
    names = [name.strip().lower() for value in codings for name in value.split(b",")]
    packed = [name for name in names if name not in (b"", b"identity", b"chunked")]
    if packed:
        dict.__setitem__(headers, _CONTENT, [*(dict.get(headers, _CONTENT) or ()), *packed])
        dict.__setitem__(headers, _TRANSFER, [b"chunked"])


def _is_listened_to(crawler: Crawler, signal: object) -> bool:
    """Return whether a signal has receivers: sending one costs 20 µs even without them."""
    return any(True for _ in getAllReceivers(crawler, signal))


def make_response(url: str, headers: Headers, body: bytes, **facts: Any) -> Response:
    """Make a response with these headers; `facts` are further arguments of Response."""
    response = _kind(url, headers, body)(url, body=body, **facts)
    # The constructor would build each name and value anew.
    response.headers = headers
    return response


def _kind(url: str, headers: Headers, body: bytes) -> type[Response]:
    types = dict.get(headers, b"Content-Type")
    if types and not dict.get(headers, b"Content-Encoding"):
        kind = _kind_of_type(types[-1])
        if kind is not Response:
            return kind
    return responsetypes.from_args(headers=headers, url=url, body=body)


@lru_cache(256)
def _kind_of_type(content_type: bytes) -> type[Response]:
    return responsetypes.from_content_type(content_type)


class AcceptedTypes:
    """Set of types such as "text/html", or "text/*" for all of a kind. Empty: every type."""

    def __init__(self, types: Iterable[str]) -> None:
        wanted = {name.strip().lower() for name in types}
        self._all = not wanted or "*/*" in wanted
        self._kinds = tuple(name[:-1] for name in wanted if name.endswith("/*"))
        self._types = frozenset(wanted)

    def __contains__(self, header: str) -> bool:
        """Return whether a Content-Type is accepted. Without a valid one a page may be anything."""
        if self._all:
            return True
        found = declared_type(header)
        return not found or found in self._types or found.startswith(self._kinds)
