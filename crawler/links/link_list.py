"""Collect the links of one page in canonical form, within bounds. Pure."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from urllib.parse import quote

from crawler.urls import Base, Rejected, Urls

_UNICODE = frozenset({"utf-8", "utf-16", "utf-16-le", "utf-16-be"})
_REFERENCES = "crawler.references"
_PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
# Characters that the links of a page may have in sum, those that lead nowhere included. The base of
# a hostile page has 2,000, which stand before each of its links and have to be read.
_CHARS, _CHARS_A_LINK = 100_000, 170


class LinkList:
    """Canonical links of a page, each once, up to a number of them."""

    def __init__(self, urls: Urls, base: Base, charset: str, max_links: int) -> None:
        self.found: dict[str, None] = {}
        self._resolve = urls.resolve
        self._base = base
        self._charset = charset
        self._unicode = charset in _UNICODE
        self._max_links = max_links
        # As the page writes them.
        self._known: set[str] = set()
        self._chars_left = _CHARS + _CHARS_A_LINK * max_links

    def add(self, href: str | None) -> str:
        """Add a link as the page writes it; returns it if it is a new one."""
        known = len(self.found)
        self.add_all((href,))
        return next(reversed(self.found)) if len(self.found) > known else ""

    def add_all(self, hrefs: Iterable[str | None]) -> None:
        """Add links as the page writes them."""
        found, most, is_unicode = self.found, self._max_links, self._unicode
        resolve, base, known = self._resolve, self._base, self._known
        left = self._chars_left
        for href in hrefs:
            if not href or href in known or href[0] == "#":
                continue
            if left < 0 or len(found) >= most:
                break
            known.add(href)
            if not is_unicode and not href.isascii():
                href = _in_charset(href, self._charset)  # noqa: PLW2901 - as browsers write it
            link = resolve(base, href)
            if isinstance(link, Rejected):
                left -= len(base.folder) + len(href)
            else:
                left -= len(link)
                found[link] = None
        self._chars_left = left


def _in_charset(href: str, charset: str) -> str:
    """A link whose query is escaped as browsers do: in the encoding of its page."""
    path, mark, query = href.partition("?")
    return path + mark + quote(query.encode(charset, _REFERENCES), safe=_PRINTABLE)


def _references(error: UnicodeError) -> tuple[str, int]:
    """What browsers write for letters that the encoding of the page does not have."""
    assert isinstance(error, UnicodeEncodeError)
    letters = error.object[error.start : error.end]
    return "".join(f"%26%23{ord(letter)}%3B" for letter in letters), error.end


codecs.register_error(_REFERENCES, _references)
