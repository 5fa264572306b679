"""Read RSS and Atom feeds: their title, and the pages of their items. Pure.

Entities are not expanded, nothing is loaded, and what is no feed has no links.
"""

from __future__ import annotations

from lxml import etree  # type: ignore[import-untyped]

from crawler.links.ampersands import mended
from crawler.links.document import MAX_TITLE, Document
from crawler.links.link_list import canonical_links
from crawler.urls import DEFAULT, Rejected, Urls

_ROOTS = frozenset({"rss", "feed", "rdf"})
_PARENTS = frozenset({"item", "entry", "channel", "feed"})


def read_feed(body: bytes, url: str, *, max_links: int, urls: Urls = DEFAULT) -> Document | None:
    """The feed in an XML document, or None for any other XML. Never raises for its content."""
    parser = etree.XMLParser(
        recover=True, resolve_entities=False, no_network=True, huge_tree=False, remove_comments=True
    )
    try:
        root = etree.fromstring(mended(body), parser)
    except (etree.XMLSyntaxError, ValueError):
        return None
    base = urls.base(url)
    if root is None or _name(root) not in _ROOTS or isinstance(base, Rejected):
        return None
    document = Document()
    hrefs: list[str] = []
    for node in root.iter("{*}link", "{*}title"):
        parent = node.getparent()
        if parent is None or _name(parent) not in _PARENTS:
            continue
        if _name(node) == "title":
            document.title = document.title or (node.text or "").strip()[:MAX_TITLE]
            continue
        # Atom: an attribute, and only the page itself; RSS: the text.
        href = node.get("href") or node.text
        if href and node.get("rel", "alternate") == "alternate":
            hrefs.append(href.strip())
    found, document.written = canonical_links(
        hrefs, urls=urls, base=base, charset="utf-8", max_links=max_links
    )
    document.links = list(dict.fromkeys(filter(None, found)))
    return document


def _name(node: etree._Element) -> str:
    tag = node.tag
    return tag.rpartition("}")[2].lower() if isinstance(tag, str) else ""
