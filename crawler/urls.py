"""Canonical URLs, their fingerprints and host keys. Pure, total: any string gives an answer."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urljoin

import can_ada
import xxhash

MAX_LENGTH = 2048
# Parameters that say where a visitor came from, not what the page is.
_TRACKING_PREFIXES = ("utm_",)
_TRACKING = frozenset({"gclid", "fbclid", "msclkid", "dclid", "yclid", "mc_eid", "igshid"})


@dataclass(frozen=True, slots=True)
class Rejected:
    """A string that is no URL to crawl, and why."""

    reason: str


def canonical(url: str, *, max_length: int = MAX_LENGTH) -> str | Rejected:
    """The one spelling of an absolute URL: WHATWG parsing, no fragment, no tracking parameters."""
    try:
        parsed = can_ada.parse(url)
    except ValueError:
        return Rejected("malformed" if "://" in url else "no_scheme")
    if parsed.protocol not in ("http:", "https:"):
        return Rejected("scheme")
    if parsed.has_credentials():
        return Rejected("credentials")
    search = parsed.search
    if len(search) > 1:
        search = _without_tracking(search)
    else:
        search = ""
    found = f"{parsed.protocol}//{parsed.host}{parsed.pathname}{search}"
    if len(found) > max_length:
        return Rejected("too_long")
    return found


def join(base: str, link: str) -> str:
    """A link found on a page as an absolute URL (not yet canonical)."""
    link = link.strip()
    head = link[:8].lower()
    if head.startswith(("http://", "https://")):
        return link
    if link.startswith("/") and not link.startswith("//"):
        return base[: base.index("/", base.index("//") + 2)] + link
    try:
        return urljoin(base, link)
    except ValueError:
        return link


def fingerprint(url: str, method: str = "GET", body: bytes = b"") -> int:
    """64 bits that stand for a request: its method, canonical URL and body."""
    return xxhash.xxh3_64_intdigest(f"{method} {url}\n".encode() + body)


def host_of(url: str) -> str:
    """Host of a canonical URL, with its port where that is not the scheme's own."""
    start = url.index("//") + 2
    return url[start : url.index("/", start)]


def authority_of(url: str) -> str:
    """Scheme and host of a canonical URL: what one robots.txt speaks for."""
    return url[: url.index("/", url.index("//") + 2)]


def _without_tracking(search: str) -> str:
    kept = [
        part
        for part in search[1:].split("&")
        if not part.startswith(_TRACKING_PREFIXES) and part.partition("=")[0] not in _TRACKING
    ]
    return "?" + "&".join(kept) if kept and kept != [""] else ""
