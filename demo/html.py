"""Put HTML together: the head, lists of links, and the whole of special pages. Pure."""

from collections.abc import Iterable
from html import escape
from typing import Final

from demo.frames import changed, framed
from demo.node import Link, Node
from demo.words import article, phrase

_STYLE: Final = (
    "<style>body{font:16px/1.5 serif;margin:0 auto;max-width:60em}nav li{display:inline}"
    "footer{color:#666;border-top:1px solid}</style>"
)


def page_head(language: str, title: str, description: str, robots: str, canonical: str) -> str:
    """Return the page up to the beginning of its body."""
    meta = f'<meta name="robots" content="{robots}">\n' if robots else ""
    link = f'<link rel="canonical" href="{escape(canonical)}">\n' if canonical else ""
    return (
        f'<!DOCTYPE html>\n<html lang="{language}">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{title}</title>\n"
        f'<meta name="description" content="{description}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"{meta}{link}{_STYLE}\n</head>\n<body>\n"
    )


def link_items(links: Iterable[Link]) -> str:
    """Return list items with absolute links."""
    return "".join(
        f'<li><a href="{escape(link.url)}"{" rel=nofollow" if link.nofollow else ""}>'
        f"{phrase(link.url, 3)}</a></li>\n"
        for link in links
    )


def _text(node: Node, version: int) -> list[str]:
    paragraphs = article(f"{node.text}:{version}", node.paragraphs)
    if node.variant in {1, 2}:
        # One word changed, at a place and to a word that depend on the variant.
        words = paragraphs[node.variant].split(" ")
        words[7 * node.variant] = phrase(f"{node.text}:{node.variant}", 1).lower()
        paragraphs[node.variant] = " ".join(words)
    if node.changed:
        paragraphs = changed(paragraphs, node.changed, f"{node.host}{node.path}")
    return paragraphs


def special_page(node: Node, version: int = 0, clock: str = "") -> bytes:
    """Return the page of a special node; `version` and `clock` are those of one that changes."""
    title = phrase(node.text, 4)
    head = page_head("en", title, phrase(f"{node.text}:d", 8), node.meta_robots, node.canonical)
    paragraphs = "".join(f"<p>{paragraph}</p>\n" for paragraph in _text(node, version))
    wrapper = "section" if node.variant == 3 else "main"
    note = "Seen café, naïve, über." if node.variant != 3 else "Read café, naïve, über."
    content = (
        f"<header><h2>{title}</h2></header>\n<{wrapper}><article><h1>{title}</h1>\n"
        f"{paragraphs}<p>{note}{clock}</p></article>\n<ul>{link_items(node.links)}</ul></{wrapper}>\n"
        "<footer><p>© Demo</p></footer>\n"
    )
    page = f"{head}{framed(node.frame, content)}</body>\n</html>\n"
    if node.charset != "utf-8":
        page = page.replace('<meta charset="utf-8">', f'<meta charset="{node.charset}">')
    return page.encode(node.charset)
