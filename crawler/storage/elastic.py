"""Write pages to Elasticsearch or OpenSearch, for search: SINKS="elasticsearch://host:9200/index".

A page is one document, whose id is `<crawl>:<url_hash>` and whose version is the time of its visit
in milliseconds. The server keeps the newest version whatever the order of writes, so each write may
be repeated. A page that is gone or must not be kept replaces its document by one without words: a
deletion would be forgotten after a minute, and an earlier version could come back.

Requests are made by http.client in a thread: they are few and large, and the thread also compresses
them. Both servers speak the same protocol here.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import ssl
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from http.client import HTTPConnection, HTTPException, HTTPSConnection, RemoteDisconnected
from math import inf
from time import perf_counter
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from crawler import config
from crawler.errors import ConfigurationError, CrawlerError, ServerAway, SinkAway
from crawler.items import NOT_MODIFIED, Page
from crawler.storage.documents import as_json, texts_of
from crawler.storage.sink import Results, Sink, SinkContext, SinkReport
from crawler.urls import host_of, registered_domain
from crawler.util.format import size
from crawler.util.secrets import without_secrets

logger = logging.getLogger(__name__)

_PORT = 9200
# Of a request, from its first byte to the last one of its answer, and of a connection.
_TIMEOUT_S, _CONNECT_S = 60.0, 5.0
# An answer has about 100 bytes for each page, and a few hundred for one that is refused.
_ANSWER_MAX_BYTES = 16_000_000
_SHOWN_CHARS = 300
# Texts shrink to a quarter in 0.1 ms a page; level 6 takes six times as long for a seventh less.
_LEVEL = 1
# Not all that the servers allow, but what needs no escapes.
_INDEX = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
# Lucene takes no terms of more than 32,766 bytes: longer values are stored, but not indexed.
_TEXT = {"type": "text"}
_KEYWORD = {"type": "keyword", "ignore_above": 8000}
_PROPERTIES: dict[str, dict[str, Any]] = {
    "title": _TEXT,
    "description": _TEXT,
    "text": _TEXT,
    "main_text": _TEXT,
    # Not searched: its words are those of the main text.
    "markdown": {**_TEXT, "index": False},
    "crawl": _KEYWORD,
    "url_hash": _KEYWORD,
    "url": _KEYWORD,
    "final_url": _KEYWORD,
    "host": _KEYWORD,
    "domain": _KEYWORD,
    "language": _KEYWORD,
    "text_language": _KEYWORD,
    "content_type": _KEYWORD,
    "content_hash": _KEYWORD,
    "simhash": _KEYWORD,
    "duplicate_of": _KEYWORD,
    "reason": _KEYWORD,
    "crawled_at": {"type": "date"},
    "status": {"type": "integer"},
    "depth": {"type": "integer"},
    "relevance": {"type": "float"},
    "size_bytes": {"type": "long"},
    "stored": {"type": "boolean"},
    "rendered": {"type": "boolean"},
}
# Only these fields of the answer to a batch are sent.
_WANTED = "items.*._id,items.*.status,items.*.error.type,items.*.error.reason"
_TOO_LARGE, _CONFLICT = 413, 409
# Statuses below 500 that people or time can mend: credentials, permissions, a deleted index, load.
_PASSING = frozenset({401, 403, 404, 408, 429})
# Statuses of pages that have disappeared.
_GONE = frozenset({404, 410})


@dataclass(slots=True)
class Document:
    """Document of one page, ready to be sent: the line of the action and that of the document."""

    id: str
    lines: bytes
    # Whether the server has it, or a newer one, or refuses it. Then it is not sent again.
    is_settled: bool = False
    refusal: CrawlerError | None = None

    @property
    def size_bytes(self) -> int:
        return len(self.lines)


def document_of(page: Page) -> Document | None:
    """Make the document of a page; None if the visit leaves what is known as it is."""
    has_words = page.stored and not page.duplicate_of
    is_replaced = page.is_success or page.status in _GONE
    if NOT_MODIFIED in page.flags or not (has_words or is_replaced):
        return None
    host = host_of(page.url)
    fields: dict[str, Any] = {
        "crawl": page.crawl,
        "url_hash": page.url_hash,
        "url": page.url,
        "final_url": page.final_url,
        "host": host,
        "domain": registered_domain(host),
        "status": page.status,
        "stored": page.stored,
        "crawled_at": page.crawled_at.astimezone(UTC).isoformat(timespec="milliseconds"),
        "depth": page.depth,
    }
    if page.reason:
        fields["reason"] = page.reason
    if page.duplicate_of:
        fields["duplicate_of"] = page.duplicate_of
    if has_words:
        fields |= {
            "title": page.title,
            "description": page.description,
            **texts_of(page),
            "language": page.language,
            "text_language": page.text_language,
            "content_type": page.content_type,
            "content_hash": page.content_hash,
            "simhash": page.simhash,
            "size_bytes": page.size_bytes,
        }
        if page.relevance is not None:
            fields["relevance"] = page.relevance
        if page.rendered:
            fields["rendered"] = True
    name = f"{page.crawl}:{page.url_hash}"
    action = {
        "_id": name,
        "version": int(page.crawled_at.timestamp() * 1000),
        "version_type": "external_gte",
    }
    lines = f"{as_json({'index': action})}\n{as_json(fields)}\n"
    # Halves of surrogate pairs are no text for anybody.
    return Document(name, lines.encode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class Address:
    """Server and index of a URL, and the credentials for them as a header."""

    scheme: str
    host: str
    port: int
    index: str
    tls: bool
    authorization: str

    @classmethod
    def from_url(cls, url: str, api_key: str | None) -> Self:
        """Read the URL in SINKS. The API key counts if the URL has no user."""
        shown = without_secrets(url)
        try:
            parts = urlsplit(url)
            port = parts.port or _PORT
            options = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
        except ValueError as error:
            raise ConfigurationError(f"SINKS has {shown!r}, which is no URL ({error}).") from error
        usage = f"use {parts.scheme}://user:…@host:{_PORT}/index"
        if not parts.hostname:
            raise ConfigurationError(f"SINKS has {shown!r}, without a server; {usage}.")
        index = unquote(parts.path.strip("/"))
        if not _INDEX.fullmatch(index):
            raise ConfigurationError(
                f"SINKS has {shown!r}, whose index is {index!r}; {usage}, with a name of the index "
                "in small letters, digits and hyphens."
            )
        tls = options.pop("tls", "0")
        if options or parts.fragment or tls not in ("0", "1"):
            raise ConfigurationError(
                f"SINKS has {shown!r}; the only option of {parts.scheme} is ?tls=1, for HTTPS."
            )
        authorization = f"ApiKey {api_key}" if api_key else ""
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            authorization = f"Basic {b64encode(user.encode()).decode('ascii')}"
        if not (authorization.isascii() and authorization.isprintable()):
            raise ConfigurationError(
                "ELASTICSEARCH_API_KEY is no line of ASCII; give the encoded key as it was shown "
                "when it was made."
            )
        return cls(parts.scheme, parts.hostname, port, index, tls == "1", authorization)

    @property
    def shown(self) -> str:
        """Address for people, without credentials."""
        return f"{self.scheme}://{self.host}:{self.port}/{self.index}"


class Answer(NamedTuple):
    """Status and content of an answer."""

    status: int
    content: bytes

    def json(self) -> Any:
        """Read the content; SinkAway if it is no JSON: something else answers there."""
        try:
            return json.loads(self.content)
        except ValueError as error:
            start = self.content[:_SHOWN_CHARS]
            raise SinkAway(f"the answer {self.status} is no JSON: {start!r}") from error

    def reason(self) -> str:
        """Describe an error in a line."""
        try:
            error = json.loads(self.content)["error"]
        except (ValueError, TypeError, KeyError):
            error = self.content.decode("utf-8", "replace")
        return f"{self.status} {_explained(error)}".strip()


def _explained(error: Any) -> str:
    if isinstance(error, Mapping):
        error = f"{error.get('type', '')}: {error.get('reason', '')}"
    return without_secrets(" ".join(str(error).split()))[:_SHOWN_CHARS]


class Client:
    """Connection to a server, kept open between requests. One request is made at a time."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._tls = ssl.create_default_context() if address.tls else None
        self._connection: HTTPConnection | None = None

    async def request(
        self, method: str, path: str, body: bytes = b"", kind: str = "application/json"
    ) -> Answer:
        """Send a request and return its answer, whatever its status; OSError if there is none."""
        was_open = self._connection is not None
        try:
            return await self._attempt(method, path, body, kind)
        except (ConnectionResetError, BrokenPipeError):
            # A server closes connections that were idle for long. A repeated write is harmless.
            if not was_open:
                raise
            return await self._attempt(method, path, body, kind)

    async def _attempt(self, method: str, path: str, body: bytes, kind: str) -> Answer:
        connection, self._connection = self._connection or self._new(), None
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                answer = await asyncio.to_thread(self._send, connection, method, path, body, kind)
        except BaseException:
            # Ends the thread, too, if it still waits.
            _cut(connection)
            raise
        self._connection = connection
        return answer

    def close(self) -> None:
        if self._connection is not None:
            _cut(self._connection)
            self._connection = None

    def _new(self) -> HTTPConnection:
        host, port = self._address.host, self._address.port
        connection = (
            HTTPConnection(host, port, timeout=_CONNECT_S)
            if self._tls is None
            else HTTPSConnection(host, port, timeout=_CONNECT_S, context=self._tls)
        )
        # A thread whose connection was cut must not open it again.
        connection.auto_open = 0
        return connection

    def _send(
        self, connection: HTTPConnection, method: str, path: str, body: bytes, kind: str
    ) -> Answer:
        headers = {"Accept": "application/json"}
        if self._address.authorization:
            headers["Authorization"] = self._address.authorization
        if body:
            packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
            body = packer.compress(body) + packer.flush()
            headers |= {"Content-Type": kind, "Content-Encoding": "gzip"}
        if connection.sock is None:
            connection.connect()
            sock: Any = connection.sock
            sock.settimeout(_TIMEOUT_S)
        try:
            connection.request(method, path, body or None, headers)
            response = connection.getresponse()
            content = response.read(_ANSWER_MAX_BYTES)
            if not response.isclosed():
                # What is left of it would be taken for the next answer.
                connection.close()
        except RemoteDisconnected:
            raise
        except HTTPException as error:
            raise SinkAway(f"the answer is no HTTP ({error or type(error).__name__})") from error
        if secret := self._address.authorization.partition(" ")[2]:
            # A server, or a proxy before it, may repeat what it got.
            content = content.replace(secret.encode(), b"***")
        return Answer(response.status, content)


def _cut(connection: HTTPConnection) -> None:
    """Close a connection, in the middle of a request too."""
    sock = connection.sock
    with suppress(OSError, AttributeError):
        sock.shutdown(socket.SHUT_RDWR)
    connection.close()


class ElasticSink(Sink):
    """Sink that keeps one document for each page in an index."""

    def __init__(self, url: str, api_key: str | None = None) -> None:
        super().__init__(url)
        self._address = Address.from_url(url, api_key)
        self._client = Client(self._address)
        # Known after the server has refused a request for its size.
        self._request_max_bytes = inf

    @classmethod
    def from_context(cls, context: SinkContext) -> Self:
        return cls(context.target, config.value(context.settings, "ELASTICSEARCH_API_KEY"))

    async def open(self) -> None:
        """Make the index if there is none, and fields that it lacks; others stay as they are."""
        try:
            await self._prepare_index()
        except BaseException:
            self._client.close()
            raise

    async def _prepare_index(self) -> None:
        where, index = self._address.shown, f"/{self._address.index}"
        try:
            answer = await self._client.request("GET", f"{index}/_mapping")
            if answer.status == 404:
                mapping = {"mappings": {"dynamic": False, "properties": _PROPERTIES}}
                answer = await self._client.request("PUT", index, as_json(mapping).encode())
                if answer.status == 400 and b"resource_already_exists" in answer.content:
                    # Another process was faster.
                    return
            elif answer.status == 200 and (missing := _missing(answer.json())):
                path, fields = f"{index}/_mapping", {"properties": missing}
                answer = await self._client.request("PUT", path, as_json(fields).encode())
        except (OSError, SinkAway) as error:
            hint = "" if self._address.tls else "; if it wants HTTPS, add ?tls=1"
            if isinstance(error, ssl.SSLCertVerificationError):
                hint = "; name the file with the certificate of its authority as SSL_CERT_FILE"
            brief = without_secrets(str(error)) or type(error).__name__
            raise ServerAway(f"{where} cannot be reached ({brief}){hint}.") from error
        if answer.status in (401, 403):
            raise ConfigurationError(
                f"{where} refuses the credentials ({answer.reason()}); correct user and password "
                "in SINKS, or ELASTICSEARCH_API_KEY, or grant them the rights in docs/sinks.md."
            )
        if answer.status != 200:
            text = f"{where} cannot be used ({answer.reason()})"
            if answer.status >= 500 or answer.status in _PASSING:
                raise ServerAway(f"{text}.")
            hint = " Is this Elasticsearch or OpenSearch?" if answer.status in (404, 405) else ""
            raise ConfigurationError(f"{text}.{hint}")

    async def close(self) -> None:
        self._client.close()

    def prepare(self, page: Page) -> Document | None:
        return document_of(page)

    async def write(self, batch: Sequence[Document | None]) -> Results:
        """Send a batch. What the server rejects for now stays unsettled: only that is repeated."""
        waiting = [each for each in batch if each is not None and not each.is_settled]
        rejected: list[str] = []
        while waiting:
            chunk = self._first(waiting)
            size_bytes = sum(each.size_bytes for each in chunk)
            path = f"/{self._address.index}/_bulk?filter_path={_WANTED}"
            lines = b"".join(each.lines for each in chunk)
            answer = await self._client.request("POST", path, lines, "application/x-ndjson")
            if answer.status == _TOO_LARGE and len(chunk) > 1:
                self._request_max_bytes = size_bytes // 2
                logger.info(
                    "%s takes no request of %s; batches are smaller now",
                    *(self._address.shown, size(size_bytes)),
                )
                continue
            rejected += self._settle(chunk, answer)
            waiting = waiting[len(chunk) :]
        if rejected:
            raise SinkAway(f"{len(rejected)} of {len(batch)} pages were rejected: {rejected[0]}")
        found = enumerate(batch)
        return {i: each.refusal for i, each in found if each is not None and each.refusal}

    async def check(self) -> SinkReport:
        await self.open()
        started_s = perf_counter()
        answer = await self._client.request("GET", f"/{self._address.index}/_mapping")
        spent_ms = (perf_counter() - started_s) * 1000
        self._client.close()
        if answer.status != 200:
            raise ServerAway(f"{self._address.shown} cannot be used ({answer.reason()}).")
        return SinkReport(f"{self._address.shown}, {spent_ms:.0f} ms per round trip", {})

    def _first(self, waiting: Sequence[Document]) -> Sequence[Document]:
        """Return as many of the first documents as fit into a request, and one at least."""
        left_bytes = self._request_max_bytes
        for count, each in enumerate(waiting):
            left_bytes -= each.size_bytes
            if left_bytes < 0 and count:
                return waiting[:count]
        return waiting

    def _settle(self, chunk: Sequence[Document], answer: Answer) -> list[str]:
        """Note what became of each document; return why some must be sent again."""
        if answer.status == _TOO_LARGE:
            _refuse(chunk[0], f"{answer.reason()}; raise http.max_content_length of the server")
            return []
        if answer.status != 200:
            is_refused = 400 <= answer.status < 500 and answer.status not in _PASSING
            kind = CrawlerError if is_refused else SinkAway
            raise kind(f"The server refuses the request: {answer.reason()}")
        rejected = []
        for each, result in zip(chunk, _results(answer, chunk), strict=True):
            status = result["status"]
            reason = f"{status} {_explained(result.get('error', ''))}"
            # A conflict of versions: what is there is newer.
            each.is_settled = 200 <= status < 300 or status == _CONFLICT
            if each.is_settled:
                continue
            if 400 <= status < 500 and status not in _PASSING:
                _refuse(each, reason)
            else:
                rejected.append(reason)
        return rejected


def _refuse(document: Document, reason: str) -> None:
    document.is_settled = True
    document.refusal = CrawlerError(f"The server refuses the document {document.id}: {reason}")


def _results(answer: Answer, chunk: Sequence[Document]) -> list[dict[str, Any]]:
    """Read the result of each document; SinkAway if these are not the results of this batch."""
    try:
        results = [item["index"] for item in answer.json()["items"]]
        if [result["_id"] for result in results] != [each.id for each in chunk]:
            raise ValueError("other ids")
        if not all(isinstance(result["status"], int) for result in results):
            raise ValueError("no statuses")
    except (ValueError, KeyError, TypeError) as error:
        raise SinkAway(f"the answer does not tell what became of the batch ({error!r})") from error
    return results


def _missing(mappings: Any) -> dict[str, dict[str, Any]]:
    """Return our fields that an index lacks, or one of those behind an alias."""
    try:
        known = [each["mappings"].get("properties", {}) for each in mappings.values()]
    except (AttributeError, KeyError, TypeError) as error:
        raise SinkAway(f"the answer is no mapping ({error!r})") from error
    return {
        name: kind for name, kind in _PROPERTIES.items() if not all(name in each for each in known)
    }
