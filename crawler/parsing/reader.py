"""Read a body by its type: HTML, feeds, text, Markdown, JSON. Pure.

Bodies of other types give an empty document; documents.py reads those in HEAVY.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from crawler.parsing import sniff
from crawler.parsing.document import Document, DocumentLimits, canonical_links
from crawler.parsing.documents import HEAVY, LIGHT, read_document
from crawler.parsing.encoding import as_utf8
from crawler.parsing.feeds import read_feed
from crawler.parsing.html import HtmlReader
from crawler.parsing.limits import number_of_tags
from crawler.urls import DEFAULT, Base, UrlRules, Urls
from crawler.urls.canonical import Parameters

# Pages with so few bytes and tags are read in 4 ms, nearly all of them in 3. Shorter ones have no
# room for more tags. Hostile ones take up to 0.1 s: that many names may be in one of the parser's
# lists.
_SMALL_BYTES = 10_000
_LIGHT_BYTES = 40_000
_LIGHT_TAGS = 3_500
# Finding the main text takes up to 3 µs for each tag.
_LIGHT_TAGS_WITH_MAIN_TEXT = 1_500
# Native code keeps the interpreter's lock while it works on a text: up to 0.2 ms for each KB.
_LARGE_BYTES = 400_000
_HTML = frozenset({"", sniff.HTML, sniff.XHTML})
_FEEDS = frozenset({sniff.RSS, sniff.ATOM, sniff.RDF})
_SNIFFED = 1024


class DocumentReader:
    """Reader of bodies of any type, with the options of one crawl."""

    def __init__(
        self,
        html: HtmlReader,
        *,
        max_links: int,
        urls: Urls = DEFAULT,
        limits: DocumentLimits | None = None,
    ) -> None:
        self._html = html
        self.finds_main_text = html.finds_main_text
        self._max_links = max_links
        self._urls = urls
        self._limits = limits or DocumentLimits(max_links=max_links)

    def read(
        self, body: bytes, url: str, *, content_type: str = "", nofollow: bool = False
    ) -> Document:
        """Read the body of the page at `url`; with `nofollow` its links are not wanted.

        Bodies of the types in HEAVY are not read here, for that is not safe: read_document reads
        them in a process of their own, and `with_canonical_links` takes the result.
        """
        kind = sniff.sniff(body, content_type, url)
        if kind in HEAVY:
            return Document(media_type=kind)
        if kind in LIGHT:
            found = read_document(kind, body, url, limits=self._limits, content_type=content_type)
            return self.with_canonical_links(found, url, nofollow=nofollow)
        if kind.endswith(("/xml", "+xml")) and kind not in _HTML:
            max_links = 0 if nofollow else self._max_links
            feed = read_feed(body, url, max_links=max_links, urls=self._urls)
            if feed is not None:
                feed.media_type = kind
                return feed
            if b"<html" not in body[:_SNIFFED].lower():
                return Document()
        elif kind not in _HTML:
            return Document()
        html, charset = as_utf8(body, content_type, url)
        document = self._html.read(html, url, charset=charset, nofollow=nofollow)
        document.charset = charset
        document.media_type = kind if kind in _HTML and kind else sniff.HTML
        return document

    def with_canonical_links(
        self, document: Document, url: str, *, nofollow: bool = False
    ) -> Document:
        """Return a document of read_document with the links that this crawl may follow."""
        base = self._urls.base(url)
        if nofollow or self._max_links <= 0 or not isinstance(base, Base):
            document.links = []
        elif document.links:
            found, document.written = canonical_links(
                document.links,
                urls=self._urls,
                base=base,
                charset="utf-8",
                max_links=self._max_links,
            )
            document.links = list(dict.fromkeys(filter(None, found)))
        return document


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """Options of a reader, of which another process can make the same one.

    `html` has arguments of HtmlReader, but `urls`.
    """

    html: Mapping[str, Any]
    rules: UrlRules

    def reader(self, urls: Urls | None = None) -> DocumentReader:
        """Make the reader; `urls` are those of the same rules, if there are some."""
        urls = urls or Urls(self.rules)
        html = HtmlReader(**self.html, urls=urls)
        return DocumentReader(html, max_links=self.html["max_links"], urls=urls)

    def to_record(self) -> dict[str, Any]:
        """Return the options as JSON has them."""
        dropped = {name: sorted(value) for name, value in asdict(self.rules.dropped).items()}
        rules = {**asdict(self.rules), "fold": sorted(self.rules.fold), "dropped": dropped}
        return {"html": dict(self.html), "rules": rules}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Return the options of such a record."""
        rules, dropped = record["rules"], record["rules"]["dropped"]
        parameters = Parameters(
            frozenset(dropped["names"]), tuple(dropped["prefixes"]), frozenset(dropped["sessions"])
        )
        given = {**rules, "fold": frozenset(rules["fold"]), "dropped": parameters}
        return cls(record["html"], UrlRules(**given))


def is_large(body: bytes) -> bool:
    """Whether reading a hostile body of this size would hold up all threads of the process."""
    return len(body) > _LARGE_BYTES


def is_light(body: bytes, media_type: str = "", *, with_main_text: bool = False) -> bool:
    """Whether a body of this type is read in a few milliseconds at most, unless it is hostile."""
    if not body or (len(body) <= _SMALL_BYTES and (not with_main_text or media_type in LIGHT)):
        return True
    # A body that is no markup takes up to 0.3 µs a byte, in which it shows no tags.
    if media_type in LIGHT or len(body) > _LIGHT_BYTES:
        return False
    most = _LIGHT_TAGS_WITH_MAIN_TEXT if with_main_text else _LIGHT_TAGS
    return number_of_tags(body) <= most
