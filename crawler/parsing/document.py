"""What a page says of itself: metadata, directives for crawlers, canonical links. Pure."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
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

# A directive and the first word of its value, where "none" has another meaning. The rest of a date
# asks for nothing.
_WITH_VALUE = re.compile(
    r"\b(?:unavailable_after|max-snippet|max-image-preview|max-video-preview)\s*:\s*[^\s,]*"
)
# The name of a crawler, "*" for all; a colon before minutes is of a date.
_NAMED = re.compile(r"([^:]+):(?!\d\d)")


@dataclass(frozen=True, slots=True)
class Directives:
    """Whether a page wants not to be kept, and its links not to be followed."""

    noindex: bool = False
    nofollow: bool = False

    def __or__(self, other: Directives) -> Directives:
        return Directives(self.noindex or other.noindex, self.nofollow or other.nofollow)


def of_meta(content: str) -> Directives:
    """What the content of a meta robots tag asks for."""
    return _asked_by(_parts(content))


def of_headers(values: Iterable[str], crawler_name: str) -> Directives:
    """What X-Robots-Tag headers ask of all crawlers, and of the one with this name."""
    asked: set[str] = set()
    names = ("*", crawler_name.lower())
    for value in values:
        meant = True
        for part in _parts(value):
            named = _NAMED.match(part)
            if named is not None:
                # It holds for all that follow in this header.
                meant = named[1].strip() in names
            if meant:
                asked.update((part[named.end() :] if named is not None else part).split())
    return _asked_by(asked)


def _parts(text: str) -> list[str]:
    """What is between commas, without the directives that have values."""
    return _WITH_VALUE.sub(" ", text.lower()).split(",")


def _asked_by(parts: Iterable[str]) -> Directives:
    words = {word for part in parts for word in part.split()}
    everything = "none" in words
    return Directives(everything or "noindex" in words, everything or "nofollow" in words)


# What is kept of each, since it is stored with the page: hostile pages have megabytes of it.
MAX_TITLE, MAX_DESCRIPTION, MAX_LANGUAGE = 2000, 10_000, 100
MAX_FEEDS, MAX_LANGUAGES = 100, 500


@dataclass(frozen=True, slots=True)
class Link:
    """A link as its page presents it."""

    url: str
    rel: str = ""
    text: str = ""


@dataclass(slots=True)
class Document:
    """A page that was read. All URLs are canonical; `written` has the links that are not so."""

    charset: str = ""
    title: str = ""
    description: str = ""
    language: str = ""
    canonical: str = ""
    noindex: bool = False
    nofollow: bool = False
    # What a visitor reads.
    text: str = ""
    # The pieces of it that the page is compared by, without its frame; None: all of it.
    blocks: list[str] | None = None
    # Outlinks to follow, each once: of the head, of anchors in page order, of frames. `anchors` has
    # more of the same, if wanted.
    links: list[str] = field(default_factory=list)
    anchors: list[Link] = field(default_factory=list)
    # How links are written, those that are not written as their canonical form.
    written: dict[str, str] = field(default_factory=dict)
    feeds: list[str] = field(default_factory=list)
    # The page in other languages: language to URL.
    languages: dict[str, str] = field(default_factory=dict)
