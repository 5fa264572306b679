"""Serve real pages as pages of the benchmark's web. Pure, but for reading them.

Nothing may lead out of the benchmark's web, so the host of every URL in a page becomes one of its
hosts: the page's own host that of the page, every other one always the same. Paths, texts and
everything else stay, and any path of the web has a page, so a crawl goes on by the pages' own
links.

There are more pages than files. A copy has all letters of its text exchanged for others, so that it
is as long and as hard to compress, but shares no words: otherwise crawlers that know duplicates
would be spared the work that they do on the web. Pages above 250 KB are left out, as on the ground
`web`.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from zlib import crc32

from benchmarks.crawl.pages import Size, host_of_page
from benchmarks.crawl.shape import read_pages
from crawler.errors import CrawlerError

# Some links of real pages have a scheme twice, or a host without a dot.
_URL = re.compile(
    rb"(?:(?:https?://)+([a-z0-9-]+(?:\.[a-z0-9-]+)*)|//([a-z0-9-]+(?:\.[a-z0-9-]+)+))(?::\d+)?",
    re.IGNORECASE,
)
_ANCHOR_HOST = re.compile(rb"<a\s[^>]*?href=[\"']?(?:https?:)?//([a-z0-9.-]+)", re.IGNORECASE)
# A page that says it is a copy of another one would count as that.
_CANONICAL = re.compile(rb"rel=([\"']?)canonical", re.IGNORECASE)
# What is not text.
_MARKUP = re.compile(
    rb"(<script\b.*?</script\s*>|<style\b.*?</style\s*>|<!--.*?-->|<[^>]*>|&#?\w+;)",
    re.IGNORECASE | re.DOTALL,
)
_MAX_BYTES = 250 * 1024
_VOWELS, _CONSONANTS = "aeiou", "bcdfghjklmnpqrstvwxyz"


class RealPages:
    """Pages of a folder, as many as are asked for."""

    def __init__(self, folder: Path) -> None:
        self._files = [
            _CANONICAL.sub(rb"rel=\1original", html)
            for html in read_pages(folder)
            if len(html) <= _MAX_BYTES
        ]
        if not self._files:
            raise CrawlerError(f"All pages of {folder} have more than 250 KB.")
        self._own = [_own_host(html) for html in self._files]

    def __call__(self, number: int, size: Size, port: int, scheme: str) -> bytes:
        """Return the HTML of a page."""
        copy, at = divmod(number, len(self._files))
        here, own = host_of_page(number, size), self._own[at]

        def moved(found: re.Match[bytes]) -> bytes:
            name = (found[1] or found[2]).lower()
            host = here if name == own else host_of_page(crc32(name), size)
            return f"{scheme}://{host}:{port}".encode()

        return _URL.sub(moved, reworded(self._files[at], copy))


def _own_host(html: bytes) -> bytes:
    """Return the host that most of a page's links lead to."""
    hosts = Counter(name.lower() for name in _ANCHOR_HOST.findall(html))
    return max(hosts, key=hosts.__getitem__, default=b"")


def reworded(html: bytes, copy: int) -> bytes:
    """Return a page with other words; copy 0 is the page itself."""
    letters = "".join(
        group[copy % len(group) :] + group[: copy % len(group)] for group in (_VOWELS, _CONSONANTS)
    )
    plain = _VOWELS + _CONSONANTS
    table = bytes.maketrans((plain + plain.upper()).encode(), (letters + letters.upper()).encode())
    parts = _MARKUP.split(html)
    parts[::2] = [text.translate(table) for text in parts[::2]]
    return b"".join(parts)
