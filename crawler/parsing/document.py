"""The document that parsing makes of a page, its directives and its canonical links. Pure."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import quote

from crawler.urls import Base, Rejected, Urls

_UNICODE = frozenset({"utf-8", "utf-16", "utf-16-le", "utf-16-be"})
_REFERENCES = "crawler.references"
_PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
# Characters that all links of a page may have together, rejected ones included. The base of a
# hostile page has 2,000, which are read again for each of its links.
_CHARS, _CHARS_A_LINK = 100_000, 170
# The longest escape of one character.
_ESCAPED_CHARS = 16


def canonical_links(
    hrefs: Sequence[str], *, urls: Urls, base: Base, charset: str, max_links: int
) -> tuple[list[str | None], dict[str, str]]:
    """Resolve the links of a page to at most `max_links` different canonical URLs.

    Returns the URL of each link, or None, and how URLs are written (by URL) if the page does not
    write them in canonical form; of several spellings the first.
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
    """Escape the query of a link in the encoding of its page, as browsers do."""
    if charset in _UNICODE or href.isascii():
        return href
    path, mark, query = href.partition("?")
    return path + mark + quote(query.encode(charset, _REFERENCES), safe=_PRINTABLE)


def _references(error: UnicodeError) -> tuple[str, int]:
    """Write letters that the encoding does not have as browsers do. Handler for codecs."""
    assert isinstance(error, UnicodeEncodeError)
    letters = error.object[error.start : error.end]
    return "".join(f"%26%23{ord(letter)}%3B" for letter in letters), error.end


codecs.register_error(_REFERENCES, _references)

# A directive and the first word of its value, in which "none" has another meaning. The other words
# of a date are no directives.
_WITH_VALUE = re.compile(
    r"\b(?:unavailable_after|max-snippet|max-image-preview|max-video-preview)\s*:\s*[^\s,]*"
)
# The name of a crawler, "*" for all. A colon before two digits is part of a time.
_NAMED = re.compile(r"([^:]+):(?!\d\d)")


@dataclass(frozen=True, slots=True)
class Directives:
    """Directives of a page for crawlers: do not keep it, do not follow its links."""

    noindex: bool = False
    nofollow: bool = False

    def __or__(self, other: Directives) -> Directives:
        return Directives(self.noindex or other.noindex, self.nofollow or other.nofollow)


def of_meta(content: str) -> Directives:
    """Read the content of a meta robots tag."""
    return _asked_by(_parts(content))


def of_headers(values: Iterable[str], crawler_name: str) -> Directives:
    """Read X-Robots-Tag headers, as far as they are for all crawlers or for the one named."""
    asked: set[str] = set()
    names = ("*", crawler_name.lower())
    for value in values:
        is_addressed = True
        for part in _parts(value):
            named = _NAMED.match(part)
            if named is not None:
                # A name holds for all directives that follow in this header.
                is_addressed = named[1].strip() in names
            if is_addressed:
                asked.update((part[named.end() :] if named is not None else part).split())
    return _asked_by(asked)


def _parts(text: str) -> list[str]:
    """Split at commas, without the directives that have values."""
    return _WITH_VALUE.sub(" ", text.lower()).split(",")


def _asked_by(parts: Iterable[str]) -> Directives:
    words = {word for part in parts for word in part.split()}
    everything = "none" in words
    return Directives(everything or "noindex" in words, everything or "nofollow" in words)


# Characters and entries that are kept: hostile pages have megabytes, and all is stored.
MAX_TITLE, MAX_DESCRIPTION, MAX_LANGUAGE = 2000, 10_000, 100
MAX_FEEDS, MAX_LANGUAGES = 100, 500


@dataclass(frozen=True, slots=True)
class Link:
    """Link with the attributes and the text of its anchor."""

    url: str
    rel: str = ""
    text: str = ""


@dataclass(slots=True)
class Document:
    """Page that was parsed. All its URLs are canonical."""

    # Type by which it was read.
    media_type: str = ""
    charset: str = ""
    title: str = ""
    description: str = ""
    language: str = ""
    author: str = ""
    published_at: datetime | None = None
    updated_at: datetime | None = None
    # Each as a line of Markdown.
    headings: list[str] = field(default_factory=list)
    # Statements of its meta tags about its use.
    rights: list[str] = field(default_factory=list)
    canonical: str = ""
    noindex: bool = False
    nofollow: bool = False
    # The text that visitors read.
    text: str = ""
    # Text without menus and the like, and the same as Markdown; only if the reader makes them.
    main_text: str = ""
    markdown: str = ""
    # The pieces of text by which the page is compared, without boilerplate; None: all of its text.
    blocks: list[str] | None = None
    # Paragraphs of its main text, by which similar pages are found; None: its blocks.
    article: list[str] | None = None
    # Outlinks to follow, each once: of the head, of anchors in page order, of frames. `anchors`
    # describes those of anchors, if wanted.
    links: list[str] = field(default_factory=list)
    anchors: list[Link] = field(default_factory=list)
    # How links are written, for those that are not written in canonical form.
    written: dict[str, str] = field(default_factory=dict)
    # When pages that it links to changed, in unix seconds, if it is a feed that says so.
    link_times: dict[str, float] = field(default_factory=dict)
    feeds: list[str] = field(default_factory=list)
    # The page in other languages: language to URL.
    languages: dict[str, str] = field(default_factory=dict)
    # What was left out at a limit: "pages", "text", "links", "unpacked"; empty if nothing was.
    cut: str = ""


# Pieces of a text by which a page is compared.
MAX_BLOCKS = 100_000


def cut_text(document: Document, most_chars: int) -> None:
    """Leave out the end of texts that are longer than this, and say so in `cut`."""
    for name in ("text", "main_text", "markdown"):
        text = getattr(document, name)
        if len(text) > most_chars:
            setattr(document, name, text[:most_chars])
            document.cut = "text"
    for name in ("blocks", "article"):
        blocks = getattr(document, name)
        if blocks is None:
            continue
        kept, left = [], most_chars
        for block in blocks[:MAX_BLOCKS]:
            if left <= 0:
                break
            kept.append(block[:left])
            left -= len(block)
        if len(kept) < len(blocks) or left < 0:
            setattr(document, name, kept)
            document.cut = "text"


def time_of(text: str) -> datetime | None:
    """Read a date as documents have it, perhaps a year or a month only; None for anything else."""
    text = text.strip()
    if len(text) <= len("2024-01"):
        text += "-01-01"[: len("2024-01-01") - len(text)]
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return in_utc(found)


def in_utc(time: datetime) -> datetime | None:
    """Return a time in UTC, which it is in if it names no zone; None if UTC has no such year."""
    if time.tzinfo is None:
        return time.replace(tzinfo=UTC)
    try:
        return time.astimezone(UTC)
    except OverflowError:
        return None


class Unreadable(Exception):
    """A body that its reader cannot read. The page is stored with its bytes and this reason.

    Reasons are words that do not change: "encrypted", "damaged", "too_large", "too_many_entries",
    "too_deep", "unsupported" (a form of the format that is not read), "missing_reader" (an optional
    package is not installed).
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """Limits of reading one document; what is beyond them is left out, as `Document.cut` says."""

    # Pages of a PDF, sheets of a workbook, slides, chapters of a book.
    max_pages: int = 500
    # Characters of its text. Sinks keep no more of a page.
    max_text_chars: int = 1_000_000
    # Addresses, repeated ones included.
    max_links: int = 6000
    # Entries of its ZIP file; a file with more is not read at all.
    max_entries: int = 10_000
    # Bytes that are unpacked of all entries together.
    max_unpacked_bytes: int = 100_000_000
