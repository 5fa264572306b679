"""Make the page of a visit: from a response, without reading its body, or from a failure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from crawler.download.errors import Forbidden
from crawler.download.receiver import TYPE_NOT_ACCEPTED
from crawler.download.response_parser import Truncated
from crawler.items import NOT_MODIFIED, Page, parent_hash
from crawler.parsing.document import Directives, of_headers
from crawler.util.request_meta import LEASE

if TYPE_CHECKING:
    from scrapy.http import Response

    from crawler.frontier import Lease

# Scrapy's flags for a body that ended too early, and ours; the second one tells why.
_FLAGS = {"dataloss": "truncated"} | {
    f"dataloss:{cause}": f"truncated:{cause}" for cause in Truncated.CAUSES
}
# Spelled as in Scrapy's headers, and read from their dict: their own lookup takes 1 µs more.
_KEPT_HEADERS = {
    name.title().encode(): name.lower()
    for name in (
        *("Content-Type", "Content-Language", "Cache-Control", "ETag", "Last-Modified"),
        *("Server", "Date"),
    )
}
_ROBOTS_TAG = b"X-Robots-Tag"
_NOTHING = Directives()


def page_of(response: Response) -> Page:
    """Return the page of a response, without what its body says."""
    meta, body, status = response.meta, response.body, response.status
    lease: Lease | None = meta.get(LEASE)
    headers = {
        name: values[-1].decode("latin-1")
        for key, name in _KEPT_HEADERS.items()
        if (values := dict.get(response.headers, key))
    }
    page = Page(
        # The canonical form, of which the fingerprint was made.
        url=lease.entry.url if lease is not None else response.url,
        final_url=response.url,
        status=status,
        crawled_at=datetime.now(UTC),
        fetch_ms=meta.get("fetch_ms", 0),
        depth=meta.get("depth", 0),
        parent=parent_hash(lease.entry) if lease is not None else "",
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
    if lease is not None:
        page.lease = lease
        page.priority = lease.entry.queue
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


def page_without_response(lease: Lease, reason: str) -> Page:
    """Return the page of a URL that failed for this reason, or was forbidden."""
    entry = lease.entry
    error = "" if reason in Forbidden.REASONS else reason
    return Page(
        url=entry.url,
        final_url=entry.written_url,
        status=0,
        crawled_at=datetime.now(UTC),
        depth=entry.depth,
        priority=entry.queue,
        parent=parent_hash(entry),
        stored=False,
        reason=reason,
        error_count=entry.attempts + bool(error),
        last_error=error,
        robots_allowed=reason != Forbidden.BY_ROBOTS,
    )


def no_page_stat(response: Response) -> str:
    """Return the stat that counts a final response whose status is not 2xx."""
    if NOT_MODIFIED in response.flags:
        return "pages/not_modified"
    return f"failed/status_{response.status}"


def asked_by_headers(response: Response, crawler_name: str) -> Directives:
    """Return what X-Robots-Tag headers ask of the crawler with this name."""
    values = dict.get(response.headers, _ROBOTS_TAG)
    if not values:
        return _NOTHING
    return of_headers([value.decode("latin-1") for value in values], crawler_name)
