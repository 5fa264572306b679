"""Make the links of one page canonical, within bounds. Pure."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from urllib.parse import quote

from crawler.urls import Base, Rejected, Urls

_UNICODE = frozenset({"utf-8", "utf-16", "utf-16-le", "utf-16-be"})
_REFERENCES = "crawler.references"
_PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
# Characters that the links of a page may have in sum, those that lead nowhere included. The base of
# a hostile page has 2,000, which stand before each of its links and have to be read.
_CHARS, _CHARS_A_LINK = 100_000, 170
# No character has more when it is escaped.
_ESCAPED_CHARS = 16


def canonical_links(
    hrefs: Sequence[str], *, urls: Urls, base: Base, charset: str, max_links: int
) -> tuple[list[str | None], dict[str, str]]:
    """Links of a page in canonical form, so many different ones; None for all others.

    Then how those are written that are not written so, of several spellings the first.
    """
    chars_left = _CHARS + _CHARS_A_LINK * max_links
    most_chars = sum(map(len, hrefs)) * _ESCAPED_CHARS + len(base.folder) * len(hrefs)
    if len(hrefs) <= max_links and most_chars <= chars_left:
        if charset not in _UNICODE:
            hrefs = [_spelled(href, charset) for href in hrefs]
        return urls.resolve_all(base, hrefs)
    found: dict[str, str] = {}
    written: dict[str, str] = {}
    different: set[str] = set()
    for href in dict.fromkeys(hrefs):
        if not href or href[0] == "#":
            continue
        if chars_left < 0 or len(different) >= max_links:
            break
        spelled = _spelled(href, charset)
        link = urls.resolve(base, spelled)
        if isinstance(link, Rejected):
            chars_left -= len(base.folder) + len(spelled)
        else:
            url, part = link
            chars_left -= len(url)
            if part and url not in different:
                written[url] = part
            different.add(url)
            found[href] = url
    return [found.get(href) for href in hrefs], written


def _spelled(href: str, charset: str) -> str:
    """A link as browsers spell it on a page in this encoding."""
    return href if charset in _UNICODE or href.isascii() else _in_charset(href, charset)


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
