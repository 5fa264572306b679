"""Read HTML in one pass of lexbor, bounded in time; any text is a page. Pure.

The text by which pages are compared has no boilerplate: no elements such as `nav` and `footer`, and
no lists of links (three or more links with at most a word between two of them). A link inside a
sentence stays. Text that many pages of a host share is removed later (dedup/content.py). Similar
pages are found by the paragraphs of their main text, as far as they are no dates and names.
"""

import re
from collections import defaultdict
from collections.abc import Iterable

from selectolax.lexbor import (
    LexborDocumentOptions,
    LexborHTMLParser,
    LexborNode,
    SelectolaxError,
    create_tag,
)

from crawler.parsing import byline
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
from crawler.parsing.main_text import main_text_of, whole_text_of
from crawler.parsing.paragraphs import MAX_HEADING_CHARS, MAX_HEADINGS, heading_of
from crawler.parsing.rights import bounded as bounded_statements
from crawler.parsing.rights import by_meta
from crawler.urls import DEFAULT, Base, Rejected, Urls

Attributes = dict[str, str | None]
# Elements of a page by name, each list in page order.
Elements = defaultdict[str, list[LexborNode]]

# With events each option of a list is searched for the selected one, again and again.
_WITHOUT_EVENTS = LexborDocumentOptions.WO_EVENTS.value
# Elements whose text visitors do not read.
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
# Characters that are kept of an anchor's text, and read of all anchors of a page.
_ANCHOR_CHARS = 200
_ANCHORS_CHARS = 10_000_000
_HEADINGS_CHARS = 1_000_000
_LEVELS = {create_tag(f"h{level}").tag_id: level for level in range(1, 7)}


class HtmlReader:
    """Reader of HTML pages, with the options of one crawl."""

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
        main_text: bool = False,
        markdown: bool = False,
        article: bool = False,
        frameless: bool = False,
    ) -> None:
        """Set the options.

        The text of `unread` elements is left out, as that of scripts is, but not their links.
        Without `blocks` documents have none, which saves a fifth of the time. With `article` they
        have the paragraphs of the main text by which similar pages are found. The main text of
        pages that are `frameless` is all of their text.
        """
        self._max_links = max_links
        self._urls = urls
        self._obey_nofollow = obey_nofollow
        self._anchors = anchors
        # An empty name would match every meta tag without a name.
        self._robots_names = frozenset({"robots", crawler_name.lower()} - {""})
        self._embeddings = _FRAMES + _MEDIA if media else _FRAMES
        names = {*_HEAD, *_ANCHORS, *self._embeddings, *_UNREAD, *BOILERPLATE}
        # By lexbor's number of each tag, which is cheaper to read than its name. Headings are "h".
        self._names = {create_tag(name).tag_id: name for name in names}
        self._names |= dict.fromkeys(_LEVELS, "h") | {create_tag("time").tag_id: "time"}
        self._unread = list(unread)
        self._kept = frozenset({*names, *self._unread})
        self._blocks = blocks
        self._main_text = main_text
        self._markdown = markdown
        self._article = article
        # Whether the main text is found, for one of them.
        self.finds_main_text = main_text or markdown or article
        self._frameless = frameless

    def read(
        self, html: bytes | str, url: str, *, charset: str = "utf-8", nofollow: bool = False
    ) -> Document:
        """Read the page at `url`, as text or in UTF-8; with `nofollow` its links are not wanted.

        `charset` is the encoding in which it was fetched.
        """
        if isinstance(html, str):
            html = html.encode(errors="replace")
        try:
            tree = LexborHTMLParser(bounded(html, self._kept), options=_WITHOUT_EVENTS)
        except SelectolaxError as error:
            # Anything is HTML: it fails only if it gets no memory.
            raise MemoryError from error
        elements = _find(tree, self._names)
        document = Document(nofollow=nofollow)
        root = tree.root
        if root is not None:
            document.language = (root.attributes.get("lang") or "")[:MAX_LANGUAGE]
        for node in elements["title"]:
            if _is_of_page(node):
                document.title = " ".join(node.text().split())[:MAX_TITLE]
                break
        metas: dict[str, str] = {}
        refresh = self._read_metas(document, elements["meta"], metas)
        byline.fill(
            *(document, url, metas),
            tree=tree,
            scripts=elements["script"],
            times=elements["time"],
            links=elements["a"],
        )
        document.headings = _headings(elements["h"])
        base = self._base(url, elements["base"])
        if base is not None:
            self._find_links(elements, document, refresh, base, charset)
        _cut(elements, _UNREAD)
        if self._unread:
            tree.strip_tags(self._unread)
        texts = texts_of(tree)
        document.text = joined(texts)
        if self.finds_main_text:
            self._find_main_text(document, tree, len(texts), base)
        if self._blocks:
            if any(elements[name] for name in BOILERPLATE):
                _cut(elements, BOILERPLATE)
                texts = texts_of(tree)
            document.blocks = blocks_of(texts, tree)
        return document

    def _find_main_text(
        self, document: Document, tree: LexborHTMLParser, chars: int, base: Base | None
    ) -> None:
        wanted = base if self._markdown else None
        found = (
            whole_text_of(tree, wanted) if self._frameless else main_text_of(tree, chars, wanted)
        )
        document.markdown = found.markdown
        if self._main_text:
            document.main_text = "\n".join(found.paragraphs)
        if self._article:
            document.article = article_of(found.paragraphs, document.text)

    def _read_metas(
        self, document: Document, nodes: list[LexborNode], found: dict[str, str]
    ) -> str:
        """Read the meta elements; returns the target of a refresh, or an empty text.

        Those that tell of author and dates are put into `found`.
        """
        refresh = ""
        said: list[str] = []
        for node in nodes:
            attributes = node.attributes
            name = (attributes.get("name") or "").lower()
            content = attributes.get("content") or ""
            of_article = name or (attributes.get("property") or attributes.get("itemprop") or "")
            if content and of_article.lower() in byline.WANTED:
                found.setdefault(of_article.lower(), content)
            if name == "description":
                document.description = document.description or content.strip()[:MAX_DESCRIPTION]
            elif name in self._robots_names:
                asked = of_meta(content)
                document.noindex |= asked.noindex
                document.nofollow |= asked.nofollow
                said += filter(None, [by_meta(name, content)])
            elif name.startswith("tdm-"):
                said += filter(None, [by_meta(name, content)])
            elif (attributes.get("http-equiv") or "").lower() == "refresh":
                target = _REFRESH.match(content)
                if target is not None and not refresh:
                    refresh = target[1] or target[2] or target[3] or ""
        document.rights = bounded_statements(said)
        return refresh

    def _base(self, url: str, nodes: list[LexborNode]) -> Base | None:
        """Return the base of the links of a page; None if its URL is none."""
        base = self._urls.base(url)
        if not isinstance(base, Base):
            return None
        given = (node.attributes.get("href") for node in nodes)
        href = next((each for each in given if each is not None), None)
        moved = self._urls.base(base.join(href)) if href else base
        return moved if isinstance(moved, Base) else base

    def _find_links(
        self, elements: Elements, document: Document, refresh: str, base: Base, charset: str
    ) -> None:
        hrefs = [refresh]
        hrefs += [self._read_link(document, base, node.attributes) for node in elements["link"]]
        if self._max_links <= 0 or (document.nofollow and self._obey_nofollow):
            return
        nodes = elements["a"] + elements["area"]
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
        """Read a link element; returns its address if it is to be followed."""
        href, rel = attributes.get("href"), (attributes.get("rel") or "").lower()
        if not href:
            return ""
        words = rel.split()
        if "canonical" in words and not document.canonical:
            document.canonical = self._canonical(base, href)
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
        """Note the page as a feed or in another language, unless there are too many of them."""
        href, language = attributes.get("href") or "", attributes.get("hreflang") or ""
        if is_feed:
            has_room = len(document.feeds) < MAX_FEEDS
        else:
            has_room = language != "" and len(document.languages) < MAX_LANGUAGES
        found = self._canonical(base, href) if has_room else ""
        if found and is_feed:
            document.feeds.append(found)
        elif found:
            document.languages[language[:MAX_LANGUAGE]] = found

    def _canonical(self, base: Base, link: str) -> str:
        found = self._urls.resolve(base, link)
        return "" if isinstance(found, Rejected) else found[0]

    def _hrefs(self, nodes: list[LexborNode]) -> list[str]:
        """List the addresses of anchors, with an empty text for those that are not followed."""
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
    """Describe links by their anchors, each link once, without those in `known`.

    It is by the first anchor with a text: many links are an image before they are a headline.
    """
    found: dict[str, Link] = {}
    left = _ANCHORS_CHARS
    for node, link in zip(nodes, links, strict=False):
        if link is None or link in known or (link in found and found[link].text):
            continue
        # Nested links have the texts of all links in them.
        text = node.text(separator=" ", strip=True) if left > 0 else ""
        left -= len(text)
        if text or link not in found:
            rel = node.attributes.get("rel") or ""
            found[link] = Link(link, rel[:_ANCHOR_CHARS], text[:_ANCHOR_CHARS])
    return list(found.values())


def _headings(nodes: Iterable[LexborNode]) -> list[str]:
    """List headings as lines of Markdown."""
    found: list[str] = []
    left = _HEADINGS_CHARS
    for node in nodes:
        # Nested headings have the texts of all headings in them.
        text = node.text_lexbor()
        left -= len(text)
        words = " ".join(text[: 2 * MAX_HEADING_CHARS].split())
        if words:
            found.append(heading_of(words, _LEVELS[node.tag_id]))
        if left < 0 or len(found) >= MAX_HEADINGS:
            break
    return found


def _cut(elements: Elements, names: Iterable[str]) -> None:
    """Remove elements from their tree."""
    for name in names:
        for node in elements[name]:
            node.decompose(recursive=False)


def _is_of_page(title: LexborNode) -> bool:
    """Whether a title is the page's own: drawings have titles too."""
    parent = title.parent
    return parent is not None and parent.tag in ("head", "body", "html")


def _sources(srcset: str | None) -> list[str]:
    """List the addresses in a srcset, without their sizes."""
    parts = [part.split(None, 1) for part in _BETWEEN_SOURCES.split(srcset or "")]
    return [part[0].strip(",") for part in parts if part]


BOILERPLATE = ("nav", "header", "footer", "aside")
_LIST_LINKS = 3
# Links that are not nested have no more text than their page. The bound leaves room for blanks: a
# multiple of the page's text, and some characters more.
_LABELS = 4
_FREE_CHARS = 10_000
# Separates two texts. If a page has this character itself, its texts are only shorter.
_BETWEEN = "\x1f"


# Part of a page's text that its main text must have: there may be far more comments. In lists of
# articles or products, the longest paragraphs may be of the frame.
_ARTICLE = 0.1
# Paragraphs with fewer words are dates, names, captions: they are left out, if others have this
# part of the text.
_LONG_WORDS, _IN_LONG = 8, 0.5


def article_of(paragraphs: list[str], text: str) -> list[str] | None:
    """Choose the paragraphs of a main text to compare; None if the page seems to be no article."""
    size = sum(map(len, paragraphs))
    if size < _ARTICLE * len(text):
        return None
    found = [each for each in paragraphs if each.count(" ") + 1 >= _LONG_WORDS]
    return found if sum(map(len, found)) >= _IN_LONG * size else paragraphs


def texts_of(tree: LexborHTMLParser) -> str:
    """Join the texts of a page, with a separator between them."""
    body = tree.body
    return "" if body is None else body.text(separator=_BETWEEN, strip=True, skip_empty=True)


def joined(marked: str) -> str:
    """Turn separated texts into one text with single blanks."""
    text = marked
    for blank in (_BETWEEN, "\n", "\t", "\xa0"):
        text = text.replace(blank, " ")
    # Splitting into words is most of the work, and seldom needed. rfind() takes less than half the
    # time of "in".
    return " ".join(text.split()) if text.rfind("  ") >= 0 else text.strip()


def blocks_of(marked: str, tree: LexborHTMLParser) -> list[str]:
    """List the texts of a page without its lists of links. Its boilerplate is removed already."""
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
                # A link of several texts; finding them takes three times as long.
                parts = node.text(separator=_BETWEEN, strip=True, skip_empty=True)
                linked.update(parts.split(_BETWEEN))
    return _without_lists(texts, linked)


def _labels(nodes: list[LexborNode], most_chars: int) -> list[str] | None:
    """List the texts of links; None if they are nested, which would repeat inner texts."""
    labels, left = [], most_chars
    for node in nodes:
        label = node.text_lexbor().strip()
        labels.append(label)
        left -= len(label)
        if left < 0:
            return None
    return labels


def _without_lists(texts: list[str], linked: set[str]) -> list[str]:
    """Remove lists of links from texts; `linked` are the texts of links."""
    kept: list[str] = []
    # A possible list: its start in `kept`, the end of its last link, and the number of its links.
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


def _find(tree: LexborHTMLParser, names: dict[int, str]) -> Elements:
    """Find the elements with these tag ids, by name and in page order."""
    found: Elements = defaultdict(list)
    root = tree.root
    if root is not None:
        for node in root.traverse():
            tag = node.tag_id
            if tag in names:
                found[names[tag]].append(node)
    return found
