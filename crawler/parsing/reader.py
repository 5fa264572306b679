"""Decode a body and read it by its type: HTML, feeds, plain text. Pure.

The encoding comes from the byte order mark, the header or a meta tag, else from a guess by the
top-level domain. Bodies of other types give an empty document.

HTML is read in one pass of lexbor, bounded in time; any text is a page. The text by which pages are
compared has no boilerplate: no elements such as `nav` and `footer`, and no lists of links (three or
more links with at most a word between two of them). A link inside a sentence stays. Text that many
pages of a host share is removed later (dedup/content.py).
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache

from selectolax.lexbor import (
    LexborDocumentOptions,
    LexborHTMLParser,
    LexborNode,
    create_tag,
)
from w3lib.encoding import (
    html_body_declared_encoding,
    http_content_type_encoding,
    read_bom,
    resolve_encoding,
)

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
from crawler.parsing.feeds import read_feed
from crawler.parsing.limits import bounded, number_of_tags
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
    ) -> None:
        """Set the options.

        The text of `unread` elements is left out, as that of scripts is, but not their links.
        Without `blocks` documents have none, which saves a fifth of the time.
        """
        self._max_links = max_links
        self._urls = urls
        self._obey_nofollow = obey_nofollow
        self._anchors = anchors
        # An empty name would match every meta tag without a name.
        self._robots_names = frozenset({"robots", crawler_name.lower()} - {""})
        self._embeddings = _FRAMES + _MEDIA if media else _FRAMES
        names = {*_HEAD, *_ANCHORS, *self._embeddings, *_UNREAD, *BOILERPLATE}
        # By lexbor's number of each tag, which is cheaper to read than its name.
        self._names = {create_tag(name).tag_id: name for name in names}
        self._unread = list(unread)
        self._kept = frozenset({*names, *self._unread})
        self._blocks = blocks

    def read(
        self, html: bytes | str, url: str, *, charset: str = "utf-8", nofollow: bool = False
    ) -> Document:
        """Read the page at `url`, as text or in UTF-8; with `nofollow` its links are not wanted.

        `charset` is the encoding in which it was fetched.
        """
        if isinstance(html, str):
            html = html.encode(errors="replace")
        tree = LexborHTMLParser(bounded(html, self._kept), options=_WITHOUT_EVENTS)
        elements = _find(tree, self._names)
        document = Document(nofollow=nofollow)
        root = tree.root
        if root is not None:
            document.language = (root.attributes.get("lang") or "")[:MAX_LANGUAGE]
        for node in elements["title"]:
            if _is_of_page(node):
                document.title = " ".join(node.text().split())[:MAX_TITLE]
                break
        refresh = self._read_metas(document, elements["meta"])
        base = self._urls.base(url)
        if isinstance(base, Base):
            self._find_links(elements, document, refresh, base, charset)
        _cut(elements, _UNREAD)
        if self._unread:
            tree.strip_tags(self._unread)
        texts = texts_of(tree)
        document.text = joined(texts)
        if self._blocks:
            if any(elements[name] for name in BOILERPLATE):
                _cut(elements, BOILERPLATE)
                texts = texts_of(tree)
            document.blocks = blocks_of(texts, tree)
        return document

    def _read_metas(self, document: Document, nodes: list[LexborNode]) -> str:
        """Read the meta elements; returns the target of a refresh, or an empty text."""
        refresh = ""
        for node in nodes:
            attributes = node.attributes
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
                if target is not None and not refresh:
                    refresh = target[1] or target[2] or target[3] or ""
        return refresh

    def _find_links(
        self, elements: Elements, document: Document, refresh: str, base: Base, charset: str
    ) -> None:
        given = (node.attributes.get("href") for node in elements["base"])
        href = next((each for each in given if each is not None), None)
        if href:
            moved = self._urls.base(base.join(href))
            if isinstance(moved, Base):
                base = moved
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
    """Describe links by their anchors, each link once, without those in `known`."""
    found, left = [], _ANCHORS_CHARS
    for node, link in zip(nodes, links, strict=False):
        if link is not None and link not in known:
            known.add(link)
            rel = node.attributes.get("rel") or ""
            # Nested links have the texts of all links in them.
            text = node.text(separator=" ", strip=True) if left > 0 else ""
            left -= len(text)
            found.append(Link(link, rel[:_ANCHOR_CHARS], text[:_ANCHOR_CHARS]))
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


FALLBACK = "cp1252"
# Characters that are read of a Content-Type.
_HEADER_CHARS = 200
# Python has codecs that are no encodings of pages; a page must not reach them.
_KNOWN = frozenset(
    """utf-8 utf-16 utf-16-le utf-16-be cp866 cp874 cp932 cp949 big5 big5hkscs gb18030 gbk euc_jp
    euc_kr iso2022_jp shift_jis koi8-r koi8-u mac-roman mac-cyrillic ascii""".split()
    + [f"cp{number}" for number in range(1250, 1259)]
    + [f"iso8859-{number}" for number in range(1, 17)]
)
# A page whose meta tag can be read as ASCII is in none of these.
_NOT_BY_META = ("utf-16", "utf-16-le", "utf-16-be")
# Guesses by top-level domain; the first that fits is taken.
_BY_COUNTRY = {
    country: encodings
    for countries, encodings in (
        ("jp", ("iso2022_jp", "euc_jp", "cp932")),
        ("cn sg", ("gb18030",)),
        ("tw hk mo", ("big5hkscs",)),
        ("kr", ("cp949",)),
        ("ru by ua bg kz kg mk su", ("cp1251",)),
        ("pl cz sk hu hr si ro", ("cp1250",)),
        ("gr", ("cp1253",)),
        ("tr", ("cp1254",)),
        ("il", ("cp1255",)),
        ("ae eg ir iq sa sy", ("cp1256",)),
        ("ee lt lv", ("cp1257",)),
        ("vn", ("cp1258",)),
        ("th", ("cp874",)),
    )
    for country in countries.split()
}


def decode(body: bytes, content_type: str = "", url: str = "") -> tuple[str, str]:
    """Decode a page; returns its text and encoding. Undecodable bytes are replaced."""
    encoding, start = _encoding(body, content_type, url)
    return body[start:].decode(encoding, "replace"), encoding


def as_utf8(body: bytes, content_type: str = "", url: str = "") -> tuple[bytes, str]:
    """Return a page in UTF-8, and its encoding. UTF-8 with errors stays as it is."""
    encoding, start = _encoding(body, content_type, url)
    if encoding == "utf-8":
        return body[start:], encoding
    return body[start:].decode(encoding, "replace").encode(errors="replace"), encoding


def _encoding(body: bytes, content_type: str, url: str) -> tuple[str, int]:
    """Find the encoding of a page, and where its text begins."""
    marked, mark = read_bom(body)
    if marked is not None and mark is not None:
        return str(marked), len(mark)
    encoding = _by_header(content_type[:_HEADER_CHARS]) if content_type else None
    if encoding is None:
        encoding = _known(html_body_declared_encoding(body))
        if encoding in _NOT_BY_META:
            encoding = "utf-8"
    return encoding or _guessed(body, url), 0


@lru_cache(maxsize=256)
def _by_header(content_type: str) -> str | None:
    return _known(http_content_type_encoding(content_type))


def _known(encoding: str | None) -> str | None:
    found = resolve_encoding(encoding) if encoding else None
    return found if found in _KNOWN else None


def _guessed(body: bytes, url: str) -> str:
    host = url.partition("://")[2].partition("/")[0]
    country = host.partition(":")[0].rpartition(".")[2]
    candidates: list[str] = ["utf-8", *_BY_COUNTRY.get(country, ())]
    if country == "jp" and b"\x1b$" in body:
        candidates.remove("utf-8")  # ISO-2022-JP is valid ASCII
    for encoding in candidates:
        try:
            body.decode(encoding)
        except ValueError:
            continue
        return encoding
    return candidates[-1] if len(candidates) > 1 else FALLBACK


# Pages with so few bytes and tags are read in 4 ms, nearly all of them in 3. Shorter ones have no
# room for more tags. The product bounds how much text a hostile page makes the parser copy.
_SMALL_BYTES = 10_000
_LIGHT_BYTES = 400_000
_LIGHT_TAGS = 3_500
_LIGHT_PRODUCT = 800_000_000
_HTML = frozenset({"", "text/html", "application/xhtml+xml"})
_SNIFFED = 1024


class DocumentReader:
    """Reader of bodies of any type, with the options of one crawl."""

    def __init__(self, html: HtmlReader, *, max_links: int, urls: Urls = DEFAULT) -> None:
        self._html = html
        self._max_links = max_links
        self._urls = urls

    def read(
        self, body: bytes, url: str, *, content_type: str = "", nofollow: bool = False
    ) -> Document:
        """Read the body of the page at `url`; with `nofollow` its links are not wanted."""
        kind = content_type.partition(";")[0].strip().lower()
        if kind.endswith(("/xml", "+xml")) and kind not in _HTML:
            max_links = 0 if nofollow else self._max_links
            feed = read_feed(body, url, max_links=max_links, urls=self._urls)
            if feed is not None or b"<html" not in body[:_SNIFFED].lower():
                return feed or Document()
        elif kind not in _HTML and kind != "text/plain":
            return Document()
        if kind == "text/plain":
            text, charset = decode(body, content_type, url)
            return Document(charset=charset, text=" ".join(text.split()))
        html, charset = as_utf8(body, content_type, url)
        document = self._html.read(html, url, charset=charset, nofollow=nofollow)
        document.charset = charset
        return document


def is_light(body: bytes) -> bool:
    """Whether a body is read in a few milliseconds at most, unless it is hostile."""
    if len(body) <= _SMALL_BYTES:
        return True
    if len(body) > _LIGHT_BYTES:
        return False
    return number_of_tags(body) <= min(_LIGHT_TAGS, _LIGHT_PRODUCT // len(body))
