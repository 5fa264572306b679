"""Read books in EPUB: their chapters in order, by the reader of HTML. Pure."""

import re
from collections.abc import Mapping

from crawler.parsing.document import (
    MAX_DESCRIPTION,
    MAX_LANGUAGE,
    MAX_TITLE,
    Document,
    DocumentLimits,
    Unreadable,
    time_of,
)
from crawler.parsing.encoding import as_utf8
from crawler.parsing.html import HtmlReader
from crawler.parsing.paragraphs import MAX_HEADINGS
from crawler.parsing.zipped import Facts, ZipFile, attribute, path_from, read_xml
from crawler.urls import written_url

_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
# Where the parts of a book are while it is read. Links that stay in the book lead there.
_INSIDE = "http://book.invalid/"
# Escaped characters are matched too: a bracket that is one begins no link, and there may be many.
_LINK_INSIDE = re.compile(rf"\\.|\[((?:[^\[\]\\]|\\.)*+)\]\({re.escape(_INSIDE)}[^()\s]*\)")
_NOTHING: frozenset[str] = frozenset()
# Elements that XHTML may close at once. In HTML all that follows would be in them.
_CLOSED = re.compile(rb"<(title|script|style|iframe|textarea|noscript)\b([^<>]{0,2000})/>")
_CHAPTERS = frozenset({"application/xhtml+xml", "text/html", "application/x-dtbook+xml"})
_MAX_ITEMS = 100_000


class _Package:
    """Target for the description of a book: its facts, its parts, and their order."""

    def __init__(self) -> None:
        self.facts = Facts()
        self.modified = ""
        # Address and type of each part, by its id.
        self._items: dict[str, tuple[str, str]] = {}
        self._order: list[str] = []
        self._is_modified = False

    def opened(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "item" and len(self._items) < _MAX_ITEMS:
            self._items[attributes.get("id", "")] = (
                attributes.get("href", ""),
                attributes.get("media-type", "").strip().lower(),
            )
        elif name == "itemref" and len(self._order) < _MAX_ITEMS:
            self._order.append(attributes.get("idref", ""))
        self._is_modified = name == "meta" and attributes.get("property", "") == "dcterms:modified"
        self.facts.opened(name, attributes)

    def data(self, text: str) -> None:
        if self._is_modified:
            self.modified = (self.modified + text)[:100]
        self.facts.data(text)

    def closed(self, name: str) -> None:
        self._is_modified = False
        self.facts.closed(name)

    def chapters(self) -> list[str]:
        """Return the addresses of the chapters, each once, in the order of reading."""
        items = (self._items.get(key, ("", "")) for key in dict.fromkeys(self._order))
        return [address for address, kind in items if kind in _CHAPTERS]


class _Addresses:
    """Target that collects an attribute of all elements of a name."""

    def __init__(self, element: str, name: str) -> None:
        self.found: list[str] = []
        self._element = element
        self._name = name

    def opened(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == self._element and len(self.found) < _MAX_ITEMS:
            self.found.append(attribute(attributes, self._name))

    def closed(self, name: str) -> None:
        pass

    def data(self, text: str) -> None:
        pass


def read_epub(body: bytes, limits: DocumentLimits) -> Document:
    """Read a book."""
    file = ZipFile(body, limits)
    roots = _Addresses("rootfile", "full-path")
    read_xml(file.pieces(_CONTAINER), roots, skipped=_NOTHING)
    root = path_from("", next(filter(None, roots.found), ""))
    package = _Package()
    read_xml(file.pieces(root), package, skipped=_NOTHING)
    chapters = [path_from(root, address) for address in package.chapters()]
    if _ENCRYPTION in file:
        # Fonts are often packed so that only this book may use them; that is no protection.
        locked = _Addresses("CipherReference", "URI")
        read_xml(file.pieces(_ENCRYPTION), locked, skipped=_NOTHING)
        if not {path_from("", address) for address in locked.found}.isdisjoint(chapters):
            raise Unreadable("encrypted")
    facts = package.facts
    document = Document(
        title=facts.get("title")[:MAX_TITLE],
        author=facts.get("creator")[:MAX_TITLE],
        description=facts.get("description")[:MAX_DESCRIPTION],
        language=facts.get("language")[:MAX_LANGUAGE],
        published_at=time_of(facts.get("date")),
        updated_at=time_of(package.modified),
        charset="utf-8",
    )
    _read_chapters(document, file, chapters, limits)
    return document


def _read_chapters(
    document: Document, file: ZipFile, chapters: list[str], limits: DocumentLimits
) -> None:
    reader = HtmlReader(
        max_links=limits.max_links,
        obey_nofollow=False,
        blocks=False,
        main_text=True,
        markdown=True,
        frameless=True,
    )
    texts: list[Document] = []
    links: dict[str, None] = {}
    left = limits.max_text_chars
    for chapter in chapters:
        if len(texts) >= limits.max_pages:
            document.cut = "pages"
            break
        if left < 0:
            break
        if chapter not in file:
            continue
        html, charset = as_utf8(file.read(chapter), "application/xhtml+xml")
        html = _CLOSED.sub(rb"<\1\2></\1>", html)
        found = reader.read(html, _INSIDE + chapter, charset=charset)
        texts.append(found)
        left -= len(found.text) + 1
        document.headings += found.headings[: MAX_HEADINGS - len(document.headings)]
        written = (written_url(url, found.written.get(url, "")) for url in found.links)
        links.update(dict.fromkeys(url for url in written if not url.startswith(_INSIDE)))
    document.links = list(links)[: limits.max_links]
    most = limits.max_text_chars
    document.text = " ".join(filter(None, (found.text for found in texts)))[:most]
    document.main_text = "\n".join(filter(None, (found.main_text for found in texts)))[:most]
    if left < 0:
        document.cut = "text"
    markdown = "\n\n".join(filter(None, (found.markdown for found in texts)))
    document.markdown = _LINK_INSIDE.sub(
        lambda found: found[0] if found[1] is None else found[1], markdown
    )
