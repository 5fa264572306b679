"""Read an HTML page in one pass of lexbor. Pure, bounded in time, total: any text is a page.

The text by which pages are compared is without boilerplate: without the elements made for frames,
and without lists of links (three links or more with no more than a word between two of them). A
link inside a sentence stays. What the pages of a host have in common besides is left out by those
who know its other pages (dedup/boilerplate.py).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from selectolax.lexbor import LexborHTMLParser, LexborNode, create_tag

from crawler.parsing.document import (
    MAX_DESCRIPTION,
    MAX_FEEDS,
    MAX_LANGUAGE,
    MAX_LANGUAGES,
    MAX_TITLE,
    Document,
    Link,
    canonical_links,
    of_meta,
)
from crawler.parsing.limits import bounded
from crawler.urls import DEFAULT, Base, Rejected, Urls

Attributes = dict[str, str | None]

# Not part of what a visitor reads.
_UNREAD = ("script", "style", "noscript", "template", "iframe")
_HEAD = ("title", "base", "meta", "link")
_ANCHORS = ("a", "area")
_FRAMES = ("iframe", "frame")
_MEDIA = ("img", "source", "video", "audio", "embed")
_PAGE_TYPES = frozenset({"", "text/html", "application/xhtml+xml"})
_FEED_TYPES = frozenset({"application/rss+xml", "application/atom+xml", "application/rdf+xml"})
_REFRESH = re.compile(
    r"[\s\d.]*[;,\s]\s*(?:url\s*=\s*)?(?:\"([^\"]*)|'([^']*)|(.*))", re.IGNORECASE | re.DOTALL
)
_BETWEEN_SOURCES = re.compile(r",\s+")
_ANCHOR_CHARS = 200
# Of all links of a page, beyond which they have none.
_ANCHORS_CHARS = 10_000_000


@dataclass(slots=True)
class _Head:
    """Addresses in the head of a page, as it writes them."""

    base: str | None = None
    refresh: str = ""
    links: list[Attributes] = field(default_factory=list)


class HtmlReader:
    """Reads pages as one crawl wants them read."""

    def __init__(
        self,
        *,
        max_links: int,
        urls: Urls = DEFAULT,
        obey_nofollow: bool = True,
        media: bool = False,
        anchors: bool = False,
        crawler_name: str = "robots",
        unread: Iterable[str] = (),
        blocks: bool = True,
    ) -> None:
        """Of `unread` elements the text is left out, as of scripts; their links are not.

        Without `blocks` there are none, which saves a fifth of the time.
        """
        self._max_links = max_links
        self._urls = urls
        self._obey_nofollow = obey_nofollow
        self._anchors = anchors
        # Without a name it would be spoken to by every tag that has none.
        self._robots_names = frozenset({"robots", crawler_name.lower()} - {""})
        self._embeddings = _FRAMES + _MEDIA if media else _FRAMES
        self._finder = Finder({*_HEAD, *_ANCHORS, *self._embeddings, *_UNREAD, *FRAME})
        self._unread = list(unread)
        self._blocks = blocks

    def read(
        self, html: str, url: str, *, charset: str = "utf-8", nofollow: bool = False
    ) -> Document:
        """Read the page that came from `url`; with `nofollow` its links are not wanted."""
        tree = LexborHTMLParser(bounded(html))
        elements = self._finder.find(tree)
        document = Document(nofollow=nofollow)
        root = tree.root
        if root is not None:
            document.language = (root.attributes.get("lang") or "")[:MAX_LANGUAGE]
        head = self._read_head(elements, document)
        base = self._urls.base(url)
        if isinstance(base, Base):
            self._find_links(elements, document, head, base, charset)
        _cut(elements, _UNREAD)
        if self._unread:
            tree.strip_tags(self._unread)
        texts = texts_of(tree)
        document.text = joined(texts)
        if self._blocks:
            if any(elements[name] for name in FRAME):
                _cut(elements, FRAME)
                texts = texts_of(tree)
            document.blocks = blocks_of(texts, tree)
        return document

    def _read_head(self, elements: Elements, document: Document) -> _Head:
        head = _Head()
        for node in elements["title"]:
            if _is_of_page(node):
                document.title = " ".join(node.text().split())[:MAX_TITLE]
                break
        for node in elements["base"]:
            head.base = node.attributes.get("href")
            if head.base is not None:
                break
        for node in elements["meta"]:
            self._read_meta(document, head, node.attributes)
        head.links = [node.attributes for node in elements["link"]]
        return head

    def _read_meta(self, document: Document, head: _Head, attributes: Attributes) -> None:
        name = (attributes.get("name") or "").lower()
        content = attributes.get("content") or ""
        if name == "description":
            document.description = document.description or content.strip()[:MAX_DESCRIPTION]
        elif name in self._robots_names:
            asked = of_meta(content)
            document.noindex |= asked.noindex
            document.nofollow |= asked.nofollow
        elif (attributes.get("http-equiv") or "").lower() == "refresh":
            target = _REFRESH.match(content)
            if target is not None and not head.refresh:
                head.refresh = target[1] or target[2] or target[3] or ""

    def _find_links(
        self, elements: Elements, document: Document, head: _Head, base: Base, charset: str
    ) -> None:
        if head.base:
            moved = self._urls.base(base.join(head.base))
            if isinstance(moved, Base):
                base = moved
        followed = [self._read_link(document, base, attributes) for attributes in head.links]
        if self._max_links <= 0 or (document.nofollow and self._obey_nofollow):
            return
        nodes = elements["a"] + elements["area"]
        hrefs = [head.refresh, *followed]
        in_head = len(hrefs)
        hrefs += self._hrefs(nodes)
        for tag in self._embeddings:
            for node in elements[tag]:
                attributes = node.attributes
                hrefs += (attributes.get("src") or "", *_sources(attributes.get("srcset")))
        links, document.written = canonical_links(
            hrefs, urls=self._urls, base=base, charset=charset, max_links=self._max_links
        )
        document.links = list(dict.fromkeys(filter(None, links)))
        if self._anchors:
            document.anchors = _described(nodes, links[in_head:], known=set(links[:in_head]))

    def _read_link(self, document: Document, base: Base, attributes: Attributes) -> str:
        """Read a link element; returns its address if it is one to follow."""
        href, rel = attributes.get("href"), (attributes.get("rel") or "").lower()
        if not href:
            return ""
        words = rel.split()
        if "canonical" in words and not document.canonical:
            document.canonical = self._canonical(base, href) or ""
        if "alternate" in words and "stylesheet" not in words:
            kind = (attributes.get("type") or "").partition(";")[0].strip().lower()
            if kind not in _PAGE_TYPES and kind not in _FEED_TYPES:
                return ""
            self._note_alternate(document, base, attributes, is_feed=kind in _FEED_TYPES)
            return href
        return href if "next" in words or "prev" in words else ""

    def _note_alternate(
        self, document: Document, base: Base, attributes: Attributes, *, is_feed: bool
    ) -> None:
        """Remember the page as a feed or in another language, unless there are too many of them."""
        language = (attributes.get("hreflang") or "")[:MAX_LANGUAGE]
        if is_feed:
            has_room = len(document.feeds) < MAX_FEEDS
        else:
            has_room = bool(language) and len(document.languages) < MAX_LANGUAGES
        found = self._canonical(base, attributes.get("href") or "") if has_room else None
        if found is not None:
            if is_feed:
                document.feeds.append(found)
            else:
                document.languages[language] = found

    def _canonical(self, base: Base, link: str) -> str | None:
        found = self._urls.resolve(base, link)
        return None if isinstance(found, Rejected) else found[0]

    def _hrefs(self, nodes: list[LexborNode]) -> list[str]:
        """Where anchors lead to; empty for those that are not followed."""
        obey = self._obey_nofollow
        hrefs = []
        for node in nodes:
            attributes = node.attributes
            rel = attributes.get("rel")
            if rel and obey and "nofollow" in rel.lower().replace(",", " ").split():
                hrefs.append("")
            else:
                hrefs.append(attributes.get("href") or "")
        return hrefs


def _described(
    nodes: Iterable[LexborNode], links: Iterable[str | None], *, known: set[str | None]
) -> list[Link]:
    """Links as their anchors present them, each once, without those that are known."""
    found, left = [], _ANCHORS_CHARS
    for node, link in zip(nodes, links, strict=False):
        if link is not None and link not in known:
            known.add(link)
            rel = node.attributes.get("rel") or ""
            # Links in links have the texts of all that are in them.
            text = node.text(separator=" ", strip=True) if left > 0 else ""
            left -= len(text)
            found.append(Link(link, rel[:_ANCHOR_CHARS], text[:_ANCHOR_CHARS]))
    return found


def _cut(elements: Elements, names: Iterable[str]) -> None:
    """Take elements out of their tree."""
    for name in names:
        for node in elements[name]:
            node.decompose(recursive=False)


def _is_of_page(title: LexborNode) -> bool:
    """Drawings have titles too."""
    parent = title.parent
    return parent is not None and parent.tag in ("head", "body", "html")


def _sources(srcset: str | None) -> list[str]:
    """The addresses in a srcset, without their sizes."""
    parts = [part.split(None, 1) for part in _BETWEEN_SOURCES.split(srcset or "")]
    return [part[0].strip(",") for part in parts if part]


FRAME = ("nav", "header", "footer", "aside")
_LIST_LINKS = 3
# The texts of links that are not in each other are no longer than the page's, but for blanks: so
# many times as long, and so many characters besides.
_LABELS = 4
_FREE_CHARS = 10_000
# Between two texts; no page has it, and if one has, its texts are shorter.
_BETWEEN = "\x1f"


def texts_of(tree: LexborHTMLParser) -> str:
    """The texts of a page, with marks between them."""
    body = tree.body
    return "" if body is None else body.text(separator=_BETWEEN, strip=True, skip_empty=True)


def joined(marked: str) -> str:
    """The texts of a page as one, with single blanks."""
    text = marked
    for blank in (_BETWEEN, "\n", "\t", "\xa0"):
        text = text.replace(blank, " ")
    # Splitting into words is most of the work, and seldom needed. Searching from the end takes less
    # than half as long as "in".
    return " ".join(text.split()) if text.rfind("  ") >= 0 else text.strip()


def blocks_of(marked: str, tree: LexborHTMLParser) -> list[str]:
    """The texts of a page whose frame was cut out of its tree, without the lists among them."""
    if not marked:
        return []
    texts = marked.split(_BETWEEN)
    nodes = tree.tags("a")
    labels = _labels(nodes, _LABELS * len(marked) + _FREE_CHARS)
    if labels is None:
        return texts
    linked = set(labels).intersection(texts)
    if not linked.issuperset(filter(None, labels)):
        for node, label in zip(nodes, labels, strict=True):
            if label and label not in linked:
                # In several parts; which ones, takes three times as long to say.
                parts = node.text(separator=_BETWEEN, strip=True, skip_empty=True)
                linked.update(parts.split(_BETWEEN))
    return _without_lists(texts, linked)


def _labels(nodes: list[LexborNode], most_chars: int) -> list[str] | None:
    """The texts of links; None for links in links, each of which has the texts of all inside."""
    labels, left = [], most_chars
    for node in nodes:
        label = node.text_lexbor().strip()
        labels.append(label)
        left -= len(label)
        if left < 0:
            return None
    return labels


def _without_lists(texts: list[str], linked: set[str]) -> list[str]:
    """Texts without the lists among them; `linked` are those that are links."""
    kept: list[str] = []
    # What may be a list: from where on in `kept`, up to its last link, and how many it has.
    start = end = links = 0
    for text in texts:
        kept.append(text)
        if text in linked:
            links += 1
            end = len(kept)
        elif not links or " " in text:
            if links >= _LIST_LINKS:
                del kept[start:end]
            start, links = len(kept), 0
    if links >= _LIST_LINKS:
        del kept[start:end]
    return kept


# By their names, each in page order; none of a name is an empty list.
Elements = defaultdict[str, list[LexborNode]]


class Finder:
    """Finds the elements of certain names, all of them HTML's own."""

    def __init__(self, names: Iterable[str]) -> None:
        # The parser's number of each: to read a number is cheaper than a name.
        self._names = {create_tag(name).tag_id: name for name in names}

    def find(self, tree: LexborHTMLParser) -> Elements:
        """The elements of a page."""
        names = self._names
        found: Elements = defaultdict(list)
        root = tree.root
        if root is not None:
            for node in root.traverse():
                tag = node.tag_id
                if tag in names:
                    found[names[tag]].append(node)
        return found
