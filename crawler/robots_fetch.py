"""Fetch a robots.txt and follow its redirects, also to other hosts. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from scrapy import Request
from scrapy.exceptions import DownloadCancelledError
from scrapy.http import Headers
from w3lib.url import safe_url_string

from crawler.policy.robots import MAX_BYTES, MAX_REDIRECTS

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

# For each of its requests; less if DOWNLOAD_TIMEOUT is.
TIMEOUT_S = 10.0
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Fetched:
    """The last answer. Without a status there was none, and `error` says why."""

    status: int | None
    body: bytes = b""
    headers: Headers = field(default_factory=Headers)
    error: str = ""


async def fetch(
    crawler: Crawler, authority: str, meta: dict[str, Any], before: Callable[[], Awaitable[None]]
) -> Fetched:
    """The answer for an authority; raises DownloadCancelledError if it is never connected to.

    What redirects too often, or to nowhere, ends with the status of a redirect. A host that is
    redirected to is contacted at once, whatever its clock says: it is asked for rules, not pages.
    `before` is awaited before each request that follows a redirect.
    """
    url = f"{authority}/robots.txt"
    assert crawler.engine is not None
    timeout_s = min(TIMEOUT_S, crawler.settings.getfloat("DOWNLOAD_TIMEOUT"))
    for hop in range(MAX_REDIRECTS + 1):
        request = Request(
            url,
            # Not for filters such as the offsite one: its page passed them.
            dont_filter=True,
            meta={
                **meta,
                "dont_redirect": True,
                "download_timeout": timeout_s,
                "download_cut": MAX_BYTES + 1,
            },
        )
        if hop:
            await before()
        try:
            response = await crawler.engine.download_async(request)
        except DownloadCancelledError as error:
            if hop == 0:
                raise
            return Fetched(None, error=type(error).__name__)
        except Exception as error:  # noqa: BLE001 - whatever it was, the rules are not known
            return Fetched(None, error=type(error).__name__)
        location = response.headers.get("Location")
        if response.status not in _REDIRECTS or not location:
            break
        target = urljoin(url, safe_url_string(location))
        if not target.startswith(("http://", "https://")):
            break
        url = target
    return Fetched(response.status, response.body, response.headers)
