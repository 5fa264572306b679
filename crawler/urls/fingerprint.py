"""Fingerprints that identify requests in URL-seen, of folded URLs if so configured. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

import xxhash

# Used as a method, so that a sitemap is read even if its URL was fetched as a page.
SITEMAP = "SITEMAP"
_INDEX = re.compile(r"/(?:index|default)\.(?:html?|xhtml|php|aspx?|jsp|cgi)$", re.IGNORECASE)


def fingerprint(url: str, method: str = "GET", body: bytes = b"") -> int:
    """Compute 64 bits that identify a request: its method, canonical URL and body."""
    if method == "GET" and not body:
        return xxhash.xxh3_64_intdigest(b"GET %b\n" % url.encode())
    return xxhash.xxh3_64_intdigest(f"{method} {url}\n".encode() + body)


def fingerprints(urls: Iterable[str]) -> list[int]:
    """Compute the fingerprints of GET requests for many URLs."""
    digest = xxhash.xxh3_64_intdigest
    return [digest(b"GET %b\n" % url.encode()) for url in urls]


def folded(url: str, folds: AbstractSet[str]) -> str:
    """Make similar canonical URLs equal; the result is for fingerprints only.

    scheme: http and https.  www: with or without www.  slash: with or without one at the end.
    index: /index.html and its like, and their folder.  case: of the path and query.
    """
    location, mark, query = url.partition("?")
    scheme, _, rest = location.partition("://")
    host, _, path = rest.partition("/")
    if "scheme" in folds:
        scheme = "http"
    if "www" in folds:
        host = host.removeprefix("www.")
    path = "/" + path
    if "index" in folds:
        path = _INDEX.sub("/", path)
    if "slash" in folds:
        path = path.rstrip("/")
    if "case" in folds:
        path, query = path.lower(), query.lower()
    return f"{scheme}://{host}{path}{mark}{query}"
