"""Pages, the items of a crawl, and the flags that they may have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crawler.frontier import Entry, Lease

NOT_MODIFIED = "not_modified"


def parent_of(entry: Entry) -> str:
    """The url_hash of the page that a URL was found on; empty for seeds."""
    return f"{entry.parent:016x}" if entry.parent else ""


def _text(body: bytes) -> str:
    """A body as feeds write it; the stored one keeps its bytes."""
    return body.decode("utf-8", "replace")


class _OnTheWay:
    """What a page carries from its spider to the pipelines; no field, so no feed writes it."""

    # The pieces of text that a page is compared by; None: all of its text, or nothing compares it.
    blocks: list[str] | None = None
    # Content hash and SimHash that the URL had when it was fetched before, if that is known and
    # they are others now.
    earlier: tuple[str, str] | None = None
    # How links are written, those that are not written as their canonical form.
    written: Mapping[str, str] = MappingProxyType({})
    # The lease that it was fetched by.
    lease: Lease | None = None


@dataclass(slots=True, repr=False)
class Page(_OnTheWay):
    """One URL and what came of it. `links` are its outlinks to follow, canonical and in order."""

    url: str
    final_url: str
    status: int
    crawled_at: datetime
    fetch_ms: int = 0
    depth: int = 0
    # The front queue it came from, 1 (first) to 5.
    priority: int = 0
    parent: str = ""
    # Name of the instance that fetched it.
    worker: str = ""
    redirects: list[str] = field(default_factory=list)
    # Of each redirect on the way; after a 301 or 308 the final URL is the one to ask for.
    redirect_statuses: list[int] = field(default_factory=list)
    # What is special: "truncated" (and why: "truncated:length", ":chunks", ":reset"),
    # "not_modified", "redirect_loop", "too_many_redirects" …
    flags: list[str] = field(default_factory=list)
    content_type: str = ""
    charset: str = ""
    language: str = ""
    title: str = ""
    description: str = ""
    canonical: str = ""
    # Feeds that the page offers, and the page in other languages (hreflang): language to URL.
    feeds: list[str] = field(default_factory=list)
    languages: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    size_bytes: int = 0
    content_hash: str = ""
    simhash: str = ""
    duplicate_of: str = ""
    duplicate_distance: int | None = None
    # False for pages that ask not to be kept (noindex) and for what is no page (404 …); why, is in
    # `reason`.
    stored: bool = True
    reason: str = ""
    # Failed attempts in a row, and the last failure.
    error_count: int = 0
    last_error: str = ""
    robots_allowed: bool = True
    etag: str = ""
    last_modified: str = ""
    # How often it was fetched, how often it had changed, and when it is due again.
    visits: int = 1
    changes: int = 0
    next_crawl: datetime | None = None
    links: list[str] = field(default_factory=list)
    text: str = ""
    body: bytes = field(default=b"", metadata={"serializer": _text})
    # What `extract` of a subclass of the web spider adds.
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    def __repr__(self) -> str:
        # Short: Scrapy logs items that fail, and a page may have megabytes.
        return f"<Page {self.status} {self.url}>"
