"""The text of a page that it is compared by: without its frame. Pure, linear.

Left out are the elements made for frames, and lists of links: three links or more with no more than
a word between two of them. A link inside a sentence stays. What the pages of a host have in common
besides is left out by those who know its other pages (crawler/policy/frames.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

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
