"""Read a page: title, description, language, text and links in one pass of lexbor. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from selectolax.lexbor import LexborHTMLParser

from crawler.urls import Rejected, canonical, join

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
    tree = LexborHTMLParser(html)
    document = Document()
    base = url
    for node in tree.css("html[lang], head > title, head > meta, head > link, head > base"):
        attributes = node.attributes
        tag = node.tag
        if tag == "title":
            document.title = document.title or node.text().strip()
        elif tag == "html":
            document.language = attributes.get("lang") or ""
        elif tag == "base":
            base = join(url, attributes.get("href") or url)
        elif tag == "link":
            if (attributes.get("rel") or "").lower() == "canonical":
                found = canonical(join(url, attributes.get("href") or ""))
                document.canonical = found if isinstance(found, str) else ""
        else:
            _read_meta(document, attributes)
    if not document.nofollow:
        document.links = _links(tree, base, max_links)
    tree.strip_tags(_UNREAD)
    body = tree.body
    document.text = " ".join(body.text(separator=" ").split()) if body is not None else ""
    return document


def _read_meta(document: Document, attributes: dict[str, str | None]) -> None:
    name = (attributes.get("name") or "").lower()
    content = attributes.get("content") or ""
    if name == "description":
        document.description = content.strip()
    elif name == "robots":
        words = content.lower()
        document.noindex |= "noindex" in words or "none" in words
        document.nofollow |= "nofollow" in words or "none" in words


def _links(tree: LexborHTMLParser, base: str, max_links: int) -> list[str]:
    seen: dict[str, None] = {}
    for node in tree.css("a[href], area[href]"):
        attributes = node.attributes
        if "nofollow" in (attributes.get("rel") or "").lower():
            continue
        href = attributes.get("href")
        if not href or href.startswith("#"):
            continue
        found = canonical(join(base, href))
        if isinstance(found, Rejected):
            continue
        seen[found] = None
        if len(seen) >= max_links:
            break
    return list(seen)
