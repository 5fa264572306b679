"""A server with the part of Elasticsearch's protocol that the sink uses, strict about its form.

It keeps documents by the rules of external versions, and answers as it is told. Requests that break
a rule get an error and are noted in `faults`. It serves in threads, so that crawlers in other
processes can use it while a test waits for them.
"""

from __future__ import annotations

import gzip
import json
import re
import socket
import ssl
import struct
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

INDEX = re.compile(r"/([a-z0-9][a-z0-9._-]*)(/_bulk|/_mapping)?")
ID = re.compile(r"[^{}: \n]+:[0-9a-f]{16}")
TYPES = {"text", "keyword", "date", "integer", "long", "float", "boolean"}
INTEGERS = {"integer": 31, "long": 63}
VERSION = "external_gte"

Answer = tuple[int, Any]


@dataclass
class Stored:
    """Document with its version."""

    version: int
    source: dict[str, Any]


@dataclass
class Index:
    """Index: its fields, and the documents by their ids."""

    properties: dict[str, dict[str, Any]]
    documents: dict[str, Stored] = field(default_factory=dict)


class Broken(Exception):
    """A request that breaks a rule of the protocol."""


def error(status: int, kind: str, reason: str) -> Answer:
    """The answer of a request that failed."""
    return status, {"error": {"type": kind, "reason": reason}, "status": status}


@dataclass
class ElasticServer:
    """The server, and what tests tell it."""

    user: str | None = None
    api_key: str | None = None
    indexes: dict[str, Index] = field(default_factory=dict)
    # Rules that requests broke.
    faults: list[str] = field(default_factory=list)
    # Methods and paths, and the number of documents of each batch.
    requests: list[tuple[str, str]] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    # How often each document was sent.
    sent: Counter[str] = field(default_factory=Counter)
    # Answers to the next requests, instead of doing them, or what gets the method and may answer.
    answers: list[Answer | Callable[[str], Answer | None]] = field(default_factory=list)
    # Statuses of the next times that a document is written, by its id.
    items: dict[str, list[int]] = field(default_factory=dict)
    # Which of the next batches are cut: False before they are done, True afterwards, None not.
    cuts: list[bool | None] = field(default_factory=list)
    max_bytes: int = 100_000_000
    # Set when the server ends.
    is_free: Event = field(default_factory=Event)
    lock: Lock = field(default_factory=Lock)
    port: int = 0

    def url(self, credentials: str = "", scheme: str = "elasticsearch", rest: str = "") -> str:
        at = f"{credentials}@" if credentials else ""
        return f"{scheme}://{at}127.0.0.1:{self.port}/pages{rest}"

    @property
    def documents(self) -> dict[str, dict[str, Any]]:
        """Documents of the index `pages`, by their URLs."""
        with self.lock:
            found = self.indexes["pages"].documents.values()
            return {each.source["url"]: each.source for each in found}

    def silent(self, method: str) -> None:
        """Wait until the server ends."""
        self.is_free.wait(60)

    # --- requests ---------------------------------------------------------------------------------

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        with self.lock:
            self.requests.append((method, path))
            told = self.answers.pop(0) if self.answers else None
        # It may wait.
        found = told(method) if callable(told) else told
        if found is not None:
            return found
        with self.lock:
            try:
                return self._do(method, path, headers, body)
            except Broken as fault:
                self.faults.append(f"{method} {path}: {fault}")
                return error(400, "broken_request", str(fault))

    def _do(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        if denied := self._denied(headers):
            return denied
        parts = urlsplit(path)
        found = INDEX.fullmatch(parts.path)
        if not found:
            raise Broken("this is no path of an index")
        if headers.get("accept") != "application/json":
            raise Broken("JSON is not accepted")
        name, verb = found[1], found[2]
        if verb == "/_bulk" and method == "POST":
            return self._bulk(name, parts.query, headers, body)
        if parts.query:
            raise Broken("options")
        if method == "GET" and verb == "/_mapping":
            if body:
                raise Broken("GET with a body")
            return self._mapping(name)
        if method == "PUT" and verb in (None, "/_mapping"):
            given = self._unpacked(headers, body, "application/json")
            return self._put(name, verb, json.loads(given))
        raise Broken("unknown request")

    def _denied(self, headers: dict[str, str]) -> Answer | None:
        given = headers.get("authorization", "")
        kind, _, value = given.partition(" ")
        if given and kind not in ("Basic", "ApiKey"):
            raise Broken(f"Authorization by {kind}")
        good = self.user is None and self.api_key is None
        good |= kind == "Basic" and b64decode(value, validate=True).decode() == self.user
        good |= kind == "ApiKey" and value == self.api_key
        reason = f"unable to authenticate user for REST request [{given}]"
        return None if good else error(401, "security_exception", reason)

    def _unpacked(self, headers: dict[str, str], body: bytes, kind: str) -> bytes:
        if headers.get("content-type") != kind:
            raise Broken(f"Content-Type is {headers.get('content-type')}, not {kind}")
        if headers.get("content-encoding") != "gzip":
            raise Broken("the body is not compressed")
        return gzip.decompress(body)

    def _mapping(self, name: str) -> Answer:
        if name not in self.indexes:
            return error(404, "index_not_found_exception", f"no such index [{name}]")
        return 200, {name: {"mappings": {"properties": self.indexes[name].properties}}}

    def _put(self, name: str, verb: str | None, body: dict[str, Any]) -> Answer:
        if verb is None:
            if body.keys() != {"mappings"} or body["mappings"].keys() != {"dynamic", "properties"}:
                raise Broken("the body of an index")
            if name in self.indexes:
                kind = "resource_already_exists_exception"
                return error(400, kind, f"index [{name}] already exists")
            properties = body["mappings"]["properties"]
        else:
            if body.keys() != {"properties"}:
                raise Broken("the body of a mapping")
            if name not in self.indexes:
                return error(404, "index_not_found_exception", f"no such index [{name}]")
            properties = body["properties"]
        for each in properties.values():
            if each["type"] not in TYPES or not each.keys() <= {"type", "ignore_above", "index"}:
                raise Broken(f"field {each}")
        known = self.indexes.setdefault(name, Index({})).properties
        for field_name, each in properties.items():
            if known.get(field_name, each)["type"] != each["type"]:
                reason = f"mapper [{field_name}] cannot be changed"
                return error(400, "illegal_argument_exception", reason)
        known.update(properties)
        return 200, {"acknowledged": True}

    # --- batches ----------------------------------------------------------------------------------

    def _bulk(self, name: str, query: str, headers: dict[str, str], body: bytes) -> Answer:
        if parse_qs(query, strict_parsing=True).keys() != {"filter_path"}:
            raise Broken("options of a batch")
        given = self._unpacked(headers, body, "application/x-ndjson")
        if len(given) > self.max_bytes:
            return 413, "Request Entity Too Large"
        if not given.endswith(b"\n"):
            raise Broken("the last line has no end")
        lines = given[:-1].split(b"\n")
        if len(lines) % 2:
            raise Broken("an action without a document")
        actions = [json.loads(line) for line in lines]
        pairs = list(zip(actions[::2], actions[1::2], strict=True))
        self.batches.append(len(pairs))
        return 200, {"items": [{"index": self._index(name, *pair)} for pair in pairs]}

    def _index(self, name: str, action: dict[str, Any], source: dict[str, Any]) -> dict[str, Any]:
        if action.keys() != {"index"} or action["index"].keys() != {
            *("_id", "version", "version_type")
        }:
            raise Broken(f"action {action}")
        meta = action["index"]
        number, version = meta["_id"], meta["version"]
        if not ID.fullmatch(number) or number != f"{source['crawl']}:{source['url_hash']}":
            raise Broken(f"id {number}")
        at = datetime.fromisoformat(source["crawled_at"])
        if type(version) is not int or version != int(at.timestamp() * 1000):
            raise Broken(f"version {version}")
        if meta["version_type"] != VERSION:
            raise Broken(f"version_type {meta['version_type']}")
        self.sent[number] += 1
        told = self.items.get(number)
        status = told.pop(0) if told else 0
        if status:
            reason = {"type": "as_told", "reason": "it was told so"}
            return {"_id": number, "status": status, "error": reason}
        if name not in self.indexes:
            reason = {"type": "index_not_found_exception", "reason": f"no such index [{name}]"}
            return {"_id": number, "status": 404, "error": reason}
        index = self.indexes[name]
        if fault := mismatch(index, source):
            reason = {"type": "document_parsing_exception", "reason": fault}
            return {"_id": number, "status": 400, "error": reason}
        known = index.documents.get(number)
        if known is not None and known.version > version:
            reason = {"type": "version_conflict_engine_exception", "reason": "a newer one"}
            return {"_id": number, "status": 409, "error": reason}
        index.documents[number] = Stored(version, source)
        return {"_id": number, "status": 201 if known is None else 200}


def mismatch(index: Index, source: dict[str, Any]) -> str:
    """Why a document does not fit the fields of its index; empty if it does."""
    for name, value in source.items():
        kind = index.properties[name]["type"] if name in index.properties else None
        if kind is None:
            raise Broken(f"the field {name} is not mapped")
        if kind in INTEGERS:
            good = type(value) is int and abs(value) < 1 << INTEGERS[kind]
        elif kind == "boolean":
            good = type(value) is bool
        elif kind == "date":
            good = bool(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", value))
        else:
            good = type(value) is str
        if not good:
            return f"failed to parse field [{name}] of type [{kind}]"
    return ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # An answer in two segments would wait for the client's delayed acknowledgement.
    wbufsize = -1
    disable_nagle_algorithm = True
    server: _Listener

    def handle_request(self) -> None:
        owner = self.server.owner
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        cut = owner.cuts.pop(0) if owner.cuts and self.command == "POST" else None
        if cut is False:
            return self._reset()
        status, content = owner.answer(self.command, self.path, headers, body)
        if cut:
            return self._reset()
        data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        return None

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_request  # noqa: N815

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def log_message(self, *args: Any) -> None:
        """Write nothing."""


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    # Threads that wait for a client are not waited for.
    block_on_close = False
    owner: ElasticServer

    def handle_error(self, *args: Any) -> None:
        """Write nothing: clients are killed."""


@contextmanager
def serving(
    tls: ssl.SSLContext | None = None, port: int = 0, **options: Any
) -> Iterator[ElasticServer]:
    """Serve inside the block; no request may break a rule."""
    server = ElasticServer(**options)
    with listening(server, tls, port):
        yield server
    assert not server.faults


@contextmanager
def listening(
    server: ElasticServer, tls: ssl.SSLContext | None = None, port: int = 0
) -> Iterator[None]:
    """Listen inside the block: a server that is started again has what it had."""
    listener = _Listener(("127.0.0.1", port), _Handler)
    listener.owner = server
    server.port = listener.server_port
    if tls is not None:
        listener.socket = tls.wrap_socket(listener.socket, server_side=True)
    thread = Thread(target=listener.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.is_free.set()
        listener.shutdown()
        listener.server_close()
        thread.join()
