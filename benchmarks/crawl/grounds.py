"""The grounds that crawlers are compared on: which pages, from how many hosts, over which protocol.

small  plain HTTP, 26 KB with hardly any markup: what a crawler costs beside its parser
usual  plain HTTP, 26 KB with the markup of real sites: 330 tags, 60 links
web    the web as it is: 140 KB on average, compressed, over TLS 1.3, some hosts slow
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.crawl import markup, pages
from benchmarks.crawl.pages import Size
from benchmarks.crawl.real_pages import RealPages

# Number of a page, the web's size, its port and scheme.
MakePage = Callable[[int, Size, int, str], bytes]


@dataclass(frozen=True, slots=True)
class Ground:
    """Web to crawl. Shares are those of hosts; which ones they are depends on their names alone."""

    name: str
    page: MakePage
    full: Size
    quick: Size
    # Contenders of a quick measurement, unless others are asked for.
    quick_contenders: tuple[str, ...]
    scheme: str = "http"
    # Content-Encoding and its share; the rest goes unencoded.
    encodings: tuple[tuple[str, float], ...] = ()
    # Hosts that answer late, each by a latency of its own between these.
    slow_share: float = 0.0
    slow_ms: tuple[int, int] = (50, 500)
    # Hosts that close the connection after each response.
    closing_share: float = 0.0
    # Hosts that send their length as they go.
    chunked_share: float = 0.0
    # Whether any path of a host has a page, not only those of the generator.
    any_path: bool = False
    content_type: str = "text/html; charset=utf-8"
    # Fields that every response has beside those that its body needs.
    fields: tuple[str, ...] = ("Server: demo",)
    # Where the pages are, if they are real ones.
    folder: Path | None = None


def _small(number: int, size: Size, port: int, scheme: str) -> bytes:
    del scheme
    return pages.page(number, size, port)


def _usual(number: int, size: Size, port: int, scheme: str) -> bytes:
    return pages.marked_up(number, markup.USUAL, size, port, scheme)


def _web(number: int, size: Size, port: int, scheme: str) -> bytes:
    return pages.marked_up(number, markup.web_shape(number), size, port, scheme)


SMALL = Ground(
    "small",
    _small,
    full=Size(seeds=2000, hosts=250),
    quick=Size(seeds=640, hosts=80),
    quick_contenders=("scrapy", "ours"),
)
USUAL = Ground(
    "usual",
    _usual,
    full=Size(seeds=8000, hosts=1000),
    quick=Size(seeds=800, hosts=100),
    quick_contenders=("scrapy", "scrapy_redis", "crawlee", "ours", "bare"),
)
WEB = Ground(
    "web",
    _web,
    full=Size(seeds=4000, hosts=1000),
    quick=Size(seeds=400, hosts=100),
    quick_contenders=("scrapy", "ours", "bare"),
    scheme="https",
    encodings=(("gzip", 0.75), ("br", 0.18)),
    slow_share=0.2,
    closing_share=0.1,
    chunked_share=0.5,
    fields=(
        "Server: nginx",
        "Date: Wed, 18 Nov 2026 09:00:00 GMT",
        "Vary: Accept-Encoding, Cookie",
        "X-Powered-By: PHP/8.3.1",
        'Link: </wp-json/>; rel="https://api.w.org/", </?p=17>; rel=shortlink',
        "Set-Cookie: visit=7d1c2b9e6f; path=/; Max-Age=3600; Secure; HttpOnly; SameSite=Lax",
        "Cache-Control: public, max-age=300, stale-while-revalidate=60",
        "Last-Modified: Wed, 18 Nov 2026 08:12:44 GMT",
        'ETag: W/"1f2e3d-65a8c1"',
        "X-Cache: HIT, MISS",
        "X-Served-By: cache-1, cache-2",
        "Strict-Transport-Security: max-age=31536000; includeSubDomains",
        "X-Content-Type-Options: nosniff",
        "X-Frame-Options: SAMEORIGIN",
        "Referrer-Policy: strict-origin-when-cross-origin",
        "Content-Security-Policy: upgrade-insecure-requests; frame-ancestors 'self'",
    ),
)
GROUNDS = {ground.name: ground for ground in (SMALL, USUAL, WEB)}


def of_real_pages(folder: Path) -> Ground:
    """Return the ground `web` with the pages of a folder, which name their encodings themselves."""
    return replace(
        WEB,
        name="web_real",
        page=RealPages(folder),
        any_path=True,
        content_type="text/html",
        folder=folder,
    )
