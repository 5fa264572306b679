"""Make the page of a visit: of a response, without reading its body, or of a failure."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from crawler.config.values import header_names, value
from crawler.discovery.parents import ParentUrls
from crawler.download.errors import Forbidden
from crawler.download.receiver import TYPE_NOT_ACCEPTED
from crawler.download.response_parser import Truncated
from crawler.items import Exchange, Page, parent_hash
from crawler.parsing import rights
from crawler.urls import fingerprint
from crawler.util.per_crawler import shared
from crawler.util.request_meta import EXCHANGE, LEASE, RENDERING, USAGE

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Headers, Response

    from crawler.frontier import Entry, Lease

# Scrapy's flags for a body that ended too early, and ours; the second one tells why.
_FLAGS = {"dataloss": "truncated"} | {
    f"dataloss:{cause}": f"truncated:{cause}" for cause in Truncated.CAUSES
}
# Headers that every page has, if the response does: the crawler reads most of them. Spelled as in
# Scrapy's headers, and read from their dict: their own lookup takes 1 µs more.
_NEEDED = {
    name.title().encode(): name.lower()
    for name in (
        *("Content-Type", "Content-Language", "Cache-Control", "ETag", "Last-Modified"),
        *("Server", "Date"),
    )
}
# What servers usually send fits: most refuse to send more than 8 or 16 KB. The client accepts
# 256 KB, of which a page would have more than of its text.
MAX_NAMES = 100
MAX_BYTES = 16_384
MAX_VALUE_BYTES = 4096


class PageMaker:
    """Maker of the pages of a crawl.

    `headers` are the names of response headers to keep beside the needed ones; None means all.
    """

    def __init__(
        self, headers: Collection[str] | None = None, parents: ParentUrls | None = None
    ) -> None:
        # As Scrapy's headers spell them.
        self._kept = None if headers is None else {name.title().encode() for name in headers}
        self._parents = parents or ParentUrls()

    @classmethod
    def of(cls, crawler: Crawler) -> Self:
        """Return the maker that all components of a crawl share."""
        names = value(crawler.settings, "PAGES_HEADERS")
        return shared(cls, crawler, lambda: cls(header_names(names), ParentUrls.of(crawler)))

    def page_of(self, response: Response) -> Page:
        """Return the page of a response, without what its body says."""
        meta, body, status = response.meta, response.body, response.status
        lease: Lease | None = meta.get(LEASE)
        headers = self._headers(response.headers)
        page = Page(
            **(_named(response) if lease is None else self._known(lease.entry)),
            final_url=response.url,
            status=status,
            crawled_at=datetime.now(UTC),
            fetch_ms=meta.get("fetch_ms", 0),
            depth=meta.get("depth", 0),
            redirects=list(meta.get("redirect_urls", ())),
            redirect_statuses=list(meta.get("redirect_reasons", ())),
            flags=[_FLAGS.get(flag, flag) for flag in response.flags],
            content_type=headers.get("content-type", "").partition(";")[0].strip().lower(),
            headers=headers,
            etag=headers.get("etag", ""),
            last_modified=headers.get("last-modified", ""),
            size_bytes=len(body),
            body=body,
        )
        page.exchange = meta.get(EXCHANGE)
        if (rendering := meta.get(RENDERING)) is not None:
            page.rendered = True
            page.extra["rendering"] = rendering.record()
        if said := rights.by_headers(response.headers):
            page.rights[rights.BY_HEADERS] = said
        if usage := meta.get(USAGE):
            page.rights[rights.BY_ROBOTS_TXT] = list(usage)
        if lease is None:
            page.discovered_at = page.crawled_at
        else:
            page.lease = lease
            page.error_count = lease.entry.attempts
            history = lease.entry.tail.get("history")
            page.last_error = history[-1][0] if history else ""
        if not 200 <= status < 300:
            page.stored, page.reason = False, f"status_{status}"
            if status >= 400:
                page.error_count += 1
                page.last_error = page.reason
        elif TYPE_NOT_ACCEPTED in response.flags:
            page.stored, page.reason = False, TYPE_NOT_ACCEPTED
        return page

    def page_of_replaced(self, lease: Lease, exchange: Exchange) -> Page:
        """Return the page of a response that led to another request, as a redirect, to archive."""
        page = Page(
            **self._known(lease.entry),
            final_url=lease.entry.written_url.partition("#")[0],
            status=0,
            crawled_at=datetime.now(UTC),
            depth=lease.entry.depth,
        )
        page.exchange = exchange
        return page

    def page_without_response(self, lease: Lease, reason: str) -> Page:
        """Return the page of a URL that failed for this reason, or was forbidden."""
        entry = lease.entry
        error = "" if reason in Forbidden.REASONS else reason
        return Page(
            **self._known(entry),
            final_url=entry.written_url,
            status=0,
            crawled_at=datetime.now(UTC),
            depth=entry.depth,
            stored=False,
            reason=reason,
            error_count=entry.attempts + bool(error),
            last_error=error,
            robots_allowed=reason != Forbidden.BY_ROBOTS,
        )

    def _known(self, entry: Entry) -> dict[str, Any]:
        """Return the fields that the frontier knows."""
        tail, discovered_s = entry.tail, entry.discovered_s
        return {
            # The canonical form, of which the fingerprint was made.
            "url": entry.url,
            # By its URL alone, unless it is no plain GET: two POSTs to one URL are two pages.
            "url_hash": f"{entry.id:016x}" if "method" in tail or "body" in tail else "",
            "priority": entry.queue,
            "parent": parent_hash(entry),
            "parent_url": self._parents.url_of(entry.parent),
            "discovered_at": datetime.fromtimestamp(discovered_s, UTC) if discovered_s else None,
        }

    def _headers(self, headers: Headers) -> dict[str, str]:
        """Return the headers to keep, by names in lower case; runs for every page.

        Of the needed ones that are repeated the last value counts; the values of others are joined
        by newlines. Those that are too many or too long are left out, the last ones first.
        """
        found: dict[str, str] = {}
        room = MAX_BYTES
        for key, name in _NEEDED.items():
            if values := dict.get(headers, key):
                value = values[-1][:MAX_VALUE_BYTES].decode("latin-1")
                room -= len(name) + len(value)
                if room < 0:
                    return found
                found[name] = value
        kept = self._kept
        for key, values in dict.items(headers):
            if key in _NEEDED or not values or (kept is not None and key not in kept):
                continue
            name = key.decode("latin-1").lower()
            joined = values[0] if len(values) == 1 else b"\n".join(values)
            value = joined[:MAX_VALUE_BYTES].decode("latin-1")
            room -= len(name) + len(value)
            if room < 0 or len(found) == MAX_NAMES:
                break
            found[name] = value
        return found


def _named(response: Response) -> dict[str, str]:
    """Return what identifies the page of a response without a lease: its URL, method and body."""
    request = response.request
    assert request is not None
    id_ = fingerprint(response.url, request.method, request.body)
    return {"url": response.url, "url_hash": f"{id_:016x}"}
