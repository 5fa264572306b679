"""Read RSS and Atom feeds: their title, and the pages of their items. Pure.

Entities are not expanded, nothing is loaded, and what is no feed has no links.
"""

from __future__ import annotations

from collections.abc import Mapping

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
    # Items with links, and the guids of items.
    linked: set[etree._Element] = set()
    guids: dict[etree._Element, str] = {}
    for node in root.iter("{*}link", "{*}title", "{*}guid"):
        parent = node.getparent()
        if parent is None or _name(parent) not in _PARENTS:
            continue
        if _name(node) == "title":
            document.title = document.title or (node.text or "").strip()[:MAX_TITLE]
        elif _name(node) == "guid":
            guids.setdefault(parent, permalink((node.text or "").strip(), node.attrib))
        # Atom: an attribute, and only the page itself; RSS: the text.
        elif node.get("rel", "alternate") == "alternate":
            href = (node.get("href") or node.text or "").strip()
            if href:
                hrefs.append(href)
                linked.add(parent)
    hrefs += [guid for item, guid in guids.items() if guid and item not in linked]
    found, document.written = canonical_links(
        hrefs, urls=urls, base=base, charset="utf-8", max_links=max_links
    )
    document.links = list(dict.fromkeys(filter(None, found)))
    return document


def permalink(guid: str, attributes: Mapping[str, str]) -> str:
    """The URL that a guid of RSS is, or an empty text: it is one unless isPermaLink is false."""
    says = {name.lower(): value.strip().lower() for name, value in attributes.items()}
    is_url = guid.lower().startswith(("http://", "https://"))
    return guid if is_url and says.get("ispermalink", "true") != "false" else ""


def _name(node: etree._Element) -> str:
    tag = node.tag
    return tag.rpartition("}")[2].lower() if isinstance(tag, str) else ""
