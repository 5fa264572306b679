"""Read a page: title, description, language, text and links in one pass of lexbor. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from selectolax.lexbor import LexborHTMLParser

from crawler.urls import Rejected, canonical, join

# Tags that are read of a page; the parser's time grows with the square of their nesting.
MAX_TAGS = 30_000
# Not part of what a visitor reads.
_UNREAD = ["script", "style", "noscript", "template"]


@dataclass(slots=True)
class Document:
    """What a page says of itself, and where it points to."""

    title: str = ""
    description: str = ""
    language: str = ""
    canonical: str = ""
    noindex: bool = False
    nofollow: bool = False
    text: str = ""
    links: list[str] = field(default_factory=list)


def read(html: str, url: str, *, max_links: int) -> Document:
    """Read a page; `url` is where it came from. Links are canonical, each once, in page order."""
    tree = LexborHTMLParser(_bounded(html))
    document = Document()
    base: str | None = None
    for node in tree.css("html[lang], head > title, head > meta, head > link, head > base"):
        attributes = node.attributes
        tag = node.tag
        if tag == "title":
            document.title = document.title or node.text().strip()
        elif tag == "html":
            document.language = attributes.get("lang") or ""
        elif tag == "base":
            if base is None and attributes.get("href") is not None:
                base = _absolute(url, attributes["href"])
        elif tag == "link":
            if "canonical" in _words(attributes.get("rel")):
                document.canonical = _absolute(url, attributes.get("href"))
        else:
            _read_meta(document, attributes)
    if not document.nofollow:
        document.links = _links(tree, base or url, max_links)
    tree.strip_tags(_UNREAD)
    body = tree.body
    document.text = " ".join(body.text(separator=" ").split()) if body is not None else ""
    return document


def _bounded(html: str) -> str:
    if html.count("<") <= MAX_TAGS:
        return html
    return html[: -len(html.split("<", MAX_TAGS)[-1]) - 1]


def _absolute(url: str, href: str | None) -> str:
    """The canonical URL of a link on the page at `url`, or an empty string."""
    found = canonical(join(url, href)) if href else ""
    return found if isinstance(found, str) else ""


def _words(value: str | None) -> list[str]:
    return (value or "").lower().replace(",", " ").split()


def _read_meta(document: Document, attributes: dict[str, str | None]) -> None:
    name = (attributes.get("name") or "").lower()
    content = attributes.get("content") or ""
    if name == "description":
        document.description = content.strip()
    elif name == "robots":
        obey(document, content)


def obey(document: Document, directives: str) -> None:
    """Note what a meta robots tag or an X-Robots-Tag header asks of all crawlers."""
    words = _words(directives)
    document.noindex |= "noindex" in words or "none" in words
    if "nofollow" in words or "none" in words:
        document.nofollow = True
        document.links = []


def _links(tree: LexborHTMLParser, base: str, max_links: int) -> list[str]:
    seen: dict[str, None] = {}
    if max_links <= 0:
        return []
    for node in tree.css("a[href], area[href]"):
        attributes = node.attributes
        href = attributes.get("href")
        if not href or href.startswith("#") or "nofollow" in _words(attributes.get("rel")):
            continue
        found = canonical(join(base, href))
        if isinstance(found, Rejected):
            continue
        seen[found] = None
        if len(seen) >= max_links:
            break
    return list(seen)
