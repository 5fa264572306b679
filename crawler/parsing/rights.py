"""Statements of sites about the use of their pages, kept word for word. Pure.

They are stored and not obeyed: what a statement means for a use is for whoever uses the pages. The
lines of robots.txt are read in robots/rules.py.

    noai, noimageai, noml          in X-Robots-Tag and robots meta tags
    TDM-Reservation, TDM-Policy    of the TDM Reservation Protocol, as headers and meta tags
    Content-Usage, Content-Signal  of IETF's AI Preferences and of contentsignals.org, as headers
"""

from __future__ import annotations

import re
from collections.abc import Sequence

# Keys of a page's rights: where a statement was made.
BY_ROBOTS_TXT, BY_HEADERS, BY_HTML = "robots.txt", "headers", "html"
# Statements kept of one place, and their characters.
MAX_STATEMENTS = 20
MAX_CHARS = 500
_WORDS = re.compile(r"\b(?:noai|noimageai|noml)\b", re.IGNORECASE)
_TAG = "X-Robots-Tag"
# As Scrapy spells the names.
_HEADERS = {
    b"X-Robots-Tag": _TAG,
    b"Tdm-Reservation": "TDM-Reservation",
    b"Tdm-Policy": "TDM-Policy",
    b"Content-Usage": "Content-Usage",
    b"Content-Signal": "Content-Signal",
}
_METAS = frozenset({"tdm-reservation", "tdm-policy"})


def by_headers(headers: dict[bytes, list[bytes]]) -> list[str]:
    """List the statements in the headers of a response, as "Name: value"."""
    # Scrapy's headers are a dict; its own lookup takes 1 µs more.
    said = [
        f"{name}: {value.decode('latin-1').strip()}"
        for key, name in _HEADERS.items()
        for value in dict.get(headers, key, ())
    ]
    return bounded([text for text in said if not text.startswith(_TAG) or _WORDS.search(text)])


def by_meta(name: str, content: str) -> str:
    """Return the statement of a meta tag, as "name: content"; empty if it makes none.

    `name` is in lower case.
    """
    if name in _METAS or _WORDS.search(content):
        return f"{name}: {content.strip()}"
    return ""


def bounded(statements: Sequence[str]) -> list[str]:
    """Return the first statements, each cut to what is kept of it."""
    return [statement[:MAX_CHARS] for statement in statements[:MAX_STATEMENTS]]
