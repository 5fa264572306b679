"""Put pages together as bytes from ready-made parts. Pure; an ordinary page takes about 0.1 ms."""

from html import escape
from typing import Final

from demo import graph
from demo.hrefs import anchor, inside_prefixes
from demo.node import Node
from demo.web import Web
from demo.words import FILLER, PARAGRAPH_BYTES, PARAGRAPH_COUNT, VOCABULARY, article, phrase

_LANGUAGES: Final = ("en", "en", "en", "de", "fr", "es")
_HOST_FRAMES_KEPT: Final = 4_000
_LINKS: Final = graph.DRAWN_INSIDE + graph.DRAWN_ACROSS
_FORMS_FROM: Final = _LINKS
_TEXT_FROM: Final = 2 * _LINKS
_STYLE: Final = (
    "<style>body{font:16px/1.5 serif;margin:0 auto;max-width:60em}nav li{display:inline}"
    "footer{color:#666;border-top:1px solid}</style>"
)


def _head(language: str, title: str, description: str, robots: str, canonical: str) -> str:
    meta = f'<meta name="robots" content="{robots}">\n' if robots else ""
    link = f'<link rel="canonical" href="{escape(canonical)}">\n' if canonical else ""
    return (
        f'<!DOCTYPE html>\n<html lang="{language}">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{title}</title>\n"
        f'<meta name="description" content="{description}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"{meta}{link}{_STYLE}\n</head>\n<body>\n"
    )


class Renderer:
    """Renders the pages of one web. Keeps the frames of recently used hosts."""

    def __init__(self, web: Web) -> None:
        self._web = web
        self._frames: dict[int, tuple[bytes, bytes, tuple[str, ...]]] = {}

    def render(self, node: Node, version: int = 0) -> bytes:
        """Return the body of a node that answers as a page; `version` is that of a changing one."""
        if node.index is None:
            return _special(node, version)
        number = self._web.host_number(node.host)
        assert number is not None
        return self._ordinary(node, number, node.index)

    def _frame(self, number: int) -> tuple[bytes, bytes, tuple[str, ...]]:
        known = self._frames.get(number)
        if known is None:
            if len(self._frames) >= _HOST_FRAMES_KEPT:
                self._frames.clear()
            name = phrase(f"host:{self._web.options.seed}:{number}", 2)
            items = "".join(
                f'<li><a href="{escape(graph.page_path(*target))}">{VOCABULARY[place]}</a></li>'
                for place, target in enumerate(self._web.navigation(number))
            )
            header = f'<header><h2>{name}</h2><nav><ul class="menu">{items}</ul></nav></header>\n'
            footer = f'<footer><p>© {name}. <a href="/">Home</a></p></footer>\n</body>\n</html>\n'
            prefixes = inside_prefixes(f"s{number}.test")
            known = self._frames[number] = (header.encode(), footer.encode(), prefixes)
        return known

    def _ordinary(self, node: Node, number: int, index: int) -> bytes:
        values = graph.page_draws(self._web.options.seed, number, index)
        header, footer, prefixes = self._frame(number)
        targets = self._web.page_targets(number, index, values)
        fresh = values[_FORMS_FROM:_TEXT_FROM]
        # The tree's links come before the drawn ones; they take their form from the front again.
        forms = fresh[: len(targets) - _LINKS] + fresh
        links = [
            anchor(target, value, number, prefixes)
            for target, value in zip(targets, forms, strict=True)
        ]
        text = values[_TEXT_FROM:]
        words = [VOCABULARY[value & 4095] for value in text[:6]]
        title = f"{words[0].capitalize()} {words[1]} {words[2]} {index}"
        canonical = node.url if index % 3 == 0 else ""
        language = _LANGUAGES[number % len(_LANGUAGES)]
        head = _head(language, title, " ".join(words), node.meta_robots, canonical)
        parts = [head.encode(), header, f"<main><article><h1>{title}</h1>\n".encode()]
        for place in range(7 + text[6] % 8):
            parts += (b"<p>", PARAGRAPH_BYTES[text[place + 7] % PARAGRAPH_COUNT], b"</p>\n")
        body = "</p><p>More: ".join(links[:16])
        related = "</li>\n<li>".join(links[16:])
        parts.append(f'<p>{body}</p></article>\n<ul class="related"><li>{related}</li>'.encode())
        if index == 0:
            parts.append(_home_links(self._web, number))
        size = text[22] % 30_000 if text[23] % 12 else 44_000
        start = text[23] % (len(FILLER) - 46_000)
        parts += (b'</ul></main>\n<script type="application/json">["', FILLER[start : start + size])
        parts += (b'"]</script>\n', footer)
        return b"".join(parts)


def _home_links(web: Web, number: int) -> bytes:
    items = [
        f'<li><a href="{escape(link.url)}"{" rel=nofollow" if link.nofollow else ""}>'
        f"{phrase(link.url, 3)}</a></li>\n"
        for link in web.home_links(number)
    ]
    return "".join(items).encode()


def _text(node: Node, version: int) -> list[str]:
    paragraphs = article(f"{node.text}:{version}", node.paragraphs)
    if node.variant in {1, 2}:
        # One word changed, at a place and to a word that depend on the variant.
        words = paragraphs[node.variant].split(" ")
        words[7 * node.variant] = phrase(f"{node.text}:{node.variant}", 1).lower()
        paragraphs[node.variant] = " ".join(words)
    return paragraphs


def _special(node: Node, version: int) -> bytes:
    title = phrase(node.text, 4)
    head = _head("en", title, phrase(f"{node.text}:d", 8), node.meta_robots, node.canonical)
    paragraphs = "".join(f"<p>{paragraph}</p>\n" for paragraph in _text(node, version))
    items = "".join(
        f'<li><a href="{escape(link.url)}"{" rel=nofollow" if link.nofollow else ""}>'
        f"{phrase(link.url, 3)}</a></li>\n"
        for link in node.links
    )
    wrapper = "section" if node.variant == 3 else "main"
    note = "Seen café, naïve, über." if node.variant != 3 else "Read café, naïve, über."
    page = (
        f"{head}<header><h2>{title}</h2></header>\n<{wrapper}><article><h1>{title}</h1>\n"
        f"{paragraphs}<p>{note}</p></article>\n<ul>{items}</ul></{wrapper}>\n"
        "<footer><p>© Demo</p></footer>\n</body>\n</html>\n"
    )
    if node.charset != "utf-8":
        page = page.replace('<meta charset="utf-8">', f'<meta charset="{node.charset}">')
    return page.encode(node.charset)
