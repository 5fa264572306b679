"""Read RSS and Atom feeds: their title, and the pages of their items. Pure.

Entities are not expanded and nothing is loaded. Bare ampersands, which many feeds and sitemaps have
in URLs, are repaired first.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from lxml import etree  # type: ignore[import-untyped]

from crawler.parsing.document import MAX_TITLE, Document, canonical_links
from crawler.urls import DEFAULT, Rejected, Urls

_ROOTS = frozenset({"rss", "feed", "rdf"})
_ITEMS = frozenset({"item", "entry"})
_TIMES = tuple(f"{{*}}{name}" for name in ("pubDate", "updated", "published", "modified", "date"))
_PARENTS = frozenset({"item", "entry", "channel", "feed"})


def read_feed(body: bytes, url: str, *, max_links: int, urls: Urls = DEFAULT) -> Document | None:
    """Read a feed; None for any other XML. Never raises for its content."""
    parser = etree.XMLParser(
        recover=True, resolve_entities=False, no_network=True, huge_tree=False, remove_comments=True
    )
    try:
        root = etree.fromstring(repaired(body), parser)
    except (etree.XMLSyntaxError, ValueError):
        return None
    base = urls.base(url)
    if root is None or _name(root) not in _ROOTS or isinstance(base, Rejected):
        return None
    document = Document()
    hrefs: list[str] = []
    # Items that have links, and the guids of items.
    linked: set[etree._Element] = set()
    guids: dict[etree._Element, str] = {}
    # Item of each link.
    items: list[etree._Element] = []
    for node in root.iter("{*}link", "{*}title", "{*}guid"):
        parent = node.getparent()
        if parent is None or _name(parent) not in _PARENTS:
            continue
        if _name(node) == "title":
            document.title = document.title or (node.text or "").strip()[:MAX_TITLE]
        elif _name(node) == "guid":
            guids.setdefault(parent, permalink((node.text or "").strip(), node.attrib))
        # Atom has the link in an attribute, and others than the page's; RSS has it as text.
        elif node.get("rel", "alternate") == "alternate":
            href = (node.get("href") or node.text or "").strip()
            if href:
                hrefs.append(href)
                items.append(parent)
                linked.add(parent)
    for item, guid in guids.items():
        if guid and item not in linked:
            hrefs.append(guid)
            items.append(item)
    found, document.written = canonical_links(
        hrefs, urls=urls, base=base, charset="utf-8", max_links=max_links
    )
    document.links = list(dict.fromkeys(filter(None, found)))
    times = _item_times(root)
    document.link_times = {
        url: times[item] for url, item in zip(found, items, strict=True) if url and item in times
    }
    return document


def _item_times(root: etree._Element) -> dict[etree._Element, float]:
    """Return when the items of a feed changed last, in unix seconds."""
    times: dict[etree._Element, float] = {}
    for node in root.iter(*_TIMES):
        item, at = node.getparent(), feed_time((node.text or "").strip())
        if at is not None and item is not None and _name(item) in _ITEMS:
            times[item] = max(at.timestamp(), times.get(item, 0.0))
    return times


def feed_time(text: str) -> datetime | None:
    """Read a W3C or mail date; None for anything else."""
    if not text:
        return None
    try:
        # A date without a time means the end of that day: the page may have changed at any hour.
        whole_day = len(text) == len("2024-01-01")
        found = datetime.fromisoformat(f"{text}T23:59:59" if whole_day else text)
    except ValueError:
        try:
            found = parsedate_to_datetime(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def permalink(guid: str, attributes: Mapping[str, str]) -> str:
    """Return the guid of an RSS item if it is a URL, as isPermaLink says; else an empty text."""
    says = {name.lower(): value.strip().lower() for name, value in attributes.items()}
    is_url = guid.lower().startswith(("http://", "https://"))
    return guid if is_url and says.get("ispermalink", "true") != "false" else ""


def whole_ampersands(attributes: Mapping[str, str]) -> Mapping[str, str]:
    """Return attributes as they are. lxml's parser gives targets "&#38;" for their ampersands."""
    if not any("&" in value for value in attributes.values()):
        return attributes
    return {name: value.replace("&#38;", "&") for name, value in attributes.items()}


def _name(node: etree._Element) -> str:
    tag = node.tag
    return tag.rpartition("}")[2].lower() if isinstance(tag, str) else ""


# An ampersand that begins no reference such as "&amp;" or "&#38;".
_BARE = re.compile(rb"&(?!#?\w{1,10};)")
_LONGEST_REFERENCE = 13
_OPEN, _CLOSE = b"<![CDATA[", b"]]>"
# Bytes that show whether a character has one byte or two.
_LOOKED_AT = 4
_BOMS = (b"\xff\xfe", b"\xfe\xff")


class Ampersands:
    """Repair of bare ampersands in a document that comes in pieces.

    The end of a piece that may be half of a reference or of a CDATA mark waits for the next piece.
    """

    def __init__(self) -> None:
        self._waiting = b""
        self._in_cdata = False
        self._is_wide: bool | None = None

    def feed(self, piece: bytes, *, last: bool = False) -> bytes:
        """Return the repaired text as far as it is certain; with the last piece, to the end."""
        data = self._waiting + piece
        if self._is_wide is None and (last or len(data) >= _LOOKED_AT):
            self._is_wide = data.startswith(_BOMS) or b"\0" in data[:_LOOKED_AT]
        if self._is_wide is None:
            self._waiting = data
            return b""
        if self._is_wide:
            # With two bytes for a character the text is left as it is.
            self._waiting = b""
            return data
        done, at = [], 0
        while (found := data.find(_CLOSE if self._in_cdata else _OPEN, at)) >= 0:
            done.append(self._repaired(data[at:found]))
            at = found
            self._in_cdata = not self._in_cdata
        certain = len(data) if last else self._certain(data, at)
        done.append(self._repaired(data[at:certain]))
        self._waiting = data[certain:]
        return b"".join(done)

    def _repaired(self, text: bytes) -> bytes:
        return text if self._in_cdata or b"&" not in text else _BARE.sub(b"&amp;", text)

    def _certain(self, data: bytes, at: int) -> int:
        """Find the start of the last mark or reference that may be incomplete."""
        end = len(data)
        if self._in_cdata:
            return max(at, end - len(_CLOSE) + 1)
        markup = data.find(_OPEN[:1], max(at, end - len(_OPEN) + 1))
        reference = data.find(b"&", max(at, end - _LONGEST_REFERENCE + 1))
        return min((place for place in (markup, reference) if place >= 0), default=end)


def repaired(document: bytes) -> bytes:
    """Repair the bare ampersands of a whole document."""
    return Ampersands().feed(document, last=True) if b"&" in document else document
