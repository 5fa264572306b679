"""Messages for Kafka: their JSON, their keys, and the partition of a domain. Pure.

Each message has the name and version of its schema in `schema`; the files in schemas/ and
docs/streams.md describe the fields. A version gets new fields, but loses none and changes none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from crawler.items import NOT_MODIFIED, Page
from crawler.storage.documents import MADE, as_json, body_fields, page_fields, texts_of
from crawler.storage.sink import Discovered, RejectedMessage
from crawler.urls import host_of, registered_domain

DOCUMENT, ERROR, DISCOVERED, COMPLETED = "document/1", "error/1", "discovered/1", "completed/1"
# Fields of a page that an error has, too.
_ERROR_FIELDS = (
    *("crawl", "url", "url_hash", "final_url", "status", "reason", "crawled_at"),
    *("error_count", "last_error", "depth", "priority", "parent", "parent_url", "discovered_at"),
    *("fetch_ms", "redirects", "robots_allowed", "flags", "visits", "next_crawl", "worker"),
)
# Parts of a document that are left out, one group after the other, until it fits into a message.
_LARGE = (
    ("body", "body_base64", "text", *MADE),
    ("links",),
    ("items", "extra"),
    ("headers", "languages"),
)
# Domains whose hashes are remembered.
_DOMAINS_KEPT = 100_000


@dataclass(frozen=True, slots=True)
class Message:
    """Message for the topic of its kind ("documents", "errors", "discovered", "completed")."""

    kind: str
    key: str
    value: bytes
    # By which its partition is chosen; empty: by its key.
    domain: str

    @property
    def size_bytes(self) -> int:
        return len(self.value)

    def by_key(self) -> Message:
        """Return the message for the partition of its key, not of its domain."""
        return replace(self, domain="")


def is_error(page: Page) -> bool:
    """Return whether a URL ended without a page. An unchanged page (304) is one."""
    return not (page.is_success or NOT_MODIFIED in page.flags)


def page_message(
    page: Page, *, with_body: bool, max_bytes: int, places: Mapping[str, Any]
) -> Message:
    """Return the message of a visit; `places` are further places where its body lies."""
    if is_error(page):
        return _error(page)
    document: dict[str, Any] = {"schema": DOCUMENT, **page_fields(page)}
    document["parent_url"] = page.parent_url
    document["stored"] = page.stored
    if places:
        document["places"] = {**document.get("places", {}), **places}
    if with_body and page.stored:
        texts = texts_of(page)
        if len(page.body) + sum(map(len, texts.values())) > max_bytes:
            document["omitted"] = ["body", *texts]
        else:
            document |= {**texts, **body_fields(page.body, page.charset)}
    return _fitted(
        Message("documents", page.url_hash, b"", document["domain"]), document, max_bytes
    )


def _fitted(message: Message, document: dict[str, Any], max_bytes: int) -> Message:
    """Encode a document, and leave large parts out until it fits; the rest is below 100 KB."""
    value = _encoded(document)
    for names in _LARGE:
        if len(value) <= max_bytes:
            break
        left_out = [name for name in names if document.pop(name, None)]
        omitted = ["body" if name == "body_base64" else name for name in left_out]
        document["omitted"] = [*document.get("omitted", ()), *omitted]
        value = _encoded(document)
    return replace(message, value=value)


def smaller(message: Message) -> Message | None:
    """Return a document without its body, for brokers that take no large ones; None: has none."""
    if message.kind != "documents":
        return None
    document = json.loads(message.value)
    if not any(name in document for name in _LARGE[0]):
        return None
    document["omitted"] = ["body", "text", *(name for name in MADE if name in document)]
    for name in _LARGE[0]:
        document.pop(name, None)
    return replace(message, value=_encoded(document))


def _error(page: Page) -> Message:
    host = host_of(page.url)
    domain = registered_domain(host)
    fields = {name: getattr(page, name) for name in _ERROR_FIELDS}
    # Failed attempts in a row; a URL that is forbidden or dropped has none.
    fields["attempts"] = fields.pop("error_count")
    value = {"schema": ERROR, **fields, "host": host, "domain": domain}
    return Message("errors", domain, _encoded(value), domain)


def rejection_message(crawl: str, rejected: RejectedMessage, *, at: datetime) -> Message:
    """Return the message of an input that is no URL of the crawl."""
    value = {
        "schema": ERROR,
        "crawl": crawl,
        "url": None,
        "reason": rejected.reason,
        "status": 0,
        "crawled_at": at,
        "attempts": 0,
        "last_error": rejected.last_error,
        "text": rejected.text,
        "source": {
            "topic": rejected.topic,
            "partition": rejected.partition,
            "offset": rejected.offset,
        },
    }
    return Message("errors", rejected.topic, _encoded(value), "")


def discovered_message(found: Discovered, crawl: str) -> Message:
    """Return the message of a new URL."""
    entry = found.entry
    host = host_of(entry.url)
    domain = registered_domain(host)
    value = {
        "schema": DISCOVERED,
        "crawl": crawl,
        "url": entry.written_url,
        "url_hash": f"{entry.id:016x}",
        "host": host,
        "domain": domain,
        "score": found.score,
        "priority": entry.queue,
        "depth": entry.depth,
        "parent": f"{entry.parent:016x}" if entry.parent else "",
        "parent_url": found.parent_url,
        "discovered_at": datetime.fromtimestamp(entry.discovered_s, UTC),
    }
    return Message("discovered", domain, _encoded(value), domain)


def completed_message(crawl: str, summary: Mapping[str, Any], at: datetime) -> Message:
    """Return the message of the end of a crawl."""
    value = {"schema": COMPLETED, "crawl": crawl, "ended_at": at, "summary": summary}
    return Message("completed", crawl, _encoded(value), "")


def _encoded(value: Mapping[str, Any]) -> bytes:
    # Half a surrogate pair becomes an escape of JSON.
    return as_json(value).encode("utf-8", "backslashreplace")


def partition_of(text: str, count: int) -> int:
    """Return the partition of a key, as Kafka's own Java client and `murmur2` choose it."""
    return (_murmur2(text) & 0x7FFFFFFF) % count


@lru_cache(maxsize=_DOMAINS_KEPT)
def _murmur2(text: str) -> int:
    """Return the 32 bits of MurmurHash2 of a text, with the seed that Kafka has."""
    data = text.encode("utf-8", "backslashreplace")
    multiplier, mask = 0x5BD1E995, 0xFFFFFFFF
    result = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        part = int.from_bytes(data[at : at + 4], "little") * multiplier & mask
        part = (part ^ part >> 24) * multiplier & mask
        result = (result * multiplier & mask) ^ part
    if rest := data[whole:]:
        result = (result ^ int.from_bytes(rest, "little")) * multiplier & mask
    result = (result ^ result >> 13) * multiplier & mask
    return result ^ result >> 15
