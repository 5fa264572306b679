"""Canonical URLs, their fingerprints and host keys. Pure, total: any string gives an answer."""

from __future__ import annotations

import re
from dataclasses import dataclass

import can_ada
import xxhash

MAX_LENGTH = 2048
# Parameters that say where a visitor came from, not what the page is.
_TRACKING_PREFIXES = ("utm_",)
_TRACKING = frozenset({"gclid", "fbclid", "msclkid", "dclid", "yclid", "mc_eid", "igshid"})
# WHATWG leaves these as they are, Scrapy escapes them on the way out: one spelling is fetched.
_ESCAPES = str.maketrans({char: f"%{ord(char):02X}" for char in "[]^`{|}\\"})
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
# What a browser cuts off around a link, and out of it.
_BLANKS = "".join(map(chr, range(0x21)))
_LINE_BREAKS = re.compile(r"[\t\r\n]")


@dataclass(frozen=True, slots=True)
class Rejected:
    """A string that is no URL to crawl, and why."""

    reason: str


def canonical(url: str, *, max_length: int = MAX_LENGTH) -> str | Rejected:
    """The one spelling of an absolute URL: WHATWG parsing, no fragment, no tracking parameters."""
    try:
        parsed = can_ada.parse(url)
    except (ValueError, TypeError):
        # TypeError: a lone surrogate, which no encoding has.
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
    location = f"{parsed.pathname}{search}".translate(_ESCAPES)
    found = f"{parsed.protocol}//{parsed.host}{location}"
    if len(found) > max_length:
        return Rejected("too_long")
    return found


def join(base: str, link: str) -> str:
    """A link on a page at the canonical URL `base`, made absolute. `canonical` does the rest."""
    link = _LINE_BREAKS.sub("", link.strip(_BLANKS))
    scheme = _SCHEME.match(link)
    if scheme is not None:
        rest = link[scheme.end() :]
        if rest.startswith("//") or scheme[1].lower() != base[: base.index(":")]:
            return link
        link = rest  # "http:page" on an http page is a relative link
    first, second = link[:1], link[1:2]
    if first in ("/", "\\"):
        if second in ("/", "\\"):
            return base[: base.index("/")] + link
        return authority_of(base) + link
    page = base.partition("#")[0]
    if first in ("", "#"):
        return page
    page = page.partition("?")[0]
    return page + link if first == "?" else page[: page.rindex("/") + 1] + link


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
