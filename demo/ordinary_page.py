"""Render ordinary pages as bytes, from ready-made parts: about 0.1 ms and 25 KB a page."""

from typing import Final, NamedTuple

from demo import graph
from demo.features import static_files
from demo.hrefs import across_prefix, anchor, html_path, inside_prefixes
from demo.html import link_items, page_head
from demo.node import Node
from demo.web import Web
from demo.words import FILLER, PARAGRAPH_BYTES, PARAGRAPH_COUNT, VOCABULARY, phrase

_LANGUAGES: Final = ("en", "en", "en", "de", "fr", "es")
_FRAMES_KEPT: Final = 1_000
_PATHS_KEPT: Final = 500
_LINKS: Final = graph.DRAWN_INSIDE + graph.DRAWN_ACROSS
_TEXT_FROM: Final = 2 * _LINKS
_MOST_FILLER: Final = 44_000


class _Frame(NamedTuple):
    """What the pages of a host have in common."""

    header: bytes
    footer: bytes
    prefixes: tuple[str, ...]
    paths: tuple[str, ...]


class OrdinaryPages:
    """Renders the ordinary pages of one web. Keeps the frames of recently used hosts."""

    def __init__(self, web: Web) -> None:
        self._web = web
        self._frames: dict[int, _Frame] = {}

    def render(self, node: Node) -> bytes:
        """Return the page of an ordinary node."""
        number, index = self._web.host_number(node.host), node.index
        assert number is not None
        assert index is not None
        values = graph.page_draws(self._web.options.seed, number, index)
        frame = self._frame(number)
        links = self._links(number, index, values, frame)
        text = values[_TEXT_FROM:]
        words = [VOCABULARY[value & 4095] for value in text[:6]]
        title = f"{words[0].capitalize()} {words[1]} {words[2]} {index}"
        canonical = node.url if index % 3 == 0 else ""
        language = _LANGUAGES[number % len(_LANGUAGES)]
        head = page_head(language, title, " ".join(words), node.meta_robots, canonical)
        parts = [head.encode(), frame.header, f"<main><article><h1>{title}</h1>\n".encode()]
        for place in range(7 + text[6] % 8):
            parts += (b"<p>", PARAGRAPH_BYTES[text[place + 7] % PARAGRAPH_COUNT], b"</p>\n")
        body = "</p><p>More: ".join(links[:16])
        related = "</li>\n<li>".join(links[16:])
        parts.append(f'<p>{body}</p></article>\n<ul class="related"><li>{related}</li>'.encode())
        if index == 0:
            parts.append(link_items(self._web.home_links(number)).encode())
        size = text[22] % 30_000 if text[23] % 12 else _MOST_FILLER
        start = text[23] % (len(FILLER) - _MOST_FILLER)
        parts += (b'</ul></main>\n<script type="application/json">["', FILLER[start : start + size])
        parts += (b'"]</script>\n', frame.footer)
        return b"".join(parts)

    def _links(self, number: int, index: int, values: tuple[int, ...], frame: _Frame) -> list[str]:
        targets = self._web.page_targets(number, index, values)
        drawn = values[_LINKS:_TEXT_FROM]
        # The tree's links come before the drawn ones; they take their forms from the front again.
        forms = drawn[: len(targets) - _LINKS] + drawn
        prefixes, paths = frame.prefixes, frame.paths
        known = len(paths)
        links = []
        for target, value in zip(targets, forms, strict=True):
            host, page = target
            start = prefixes[value & 31] if host == number else across_prefix(host, value & 31)
            path = paths[page] if host == number and page < known else html_path(target)
            links.append(anchor(start, path, value))
        return links

    def _frame(self, number: int) -> _Frame:
        known = self._frames.get(number)
        if known is None:
            if len(self._frames) >= _FRAMES_KEPT:
                self._frames.clear()
            known = self._frames[number] = self._make_frame(number)
        return known

    def _make_frame(self, number: int) -> _Frame:
        name = phrase(f"host:{self._web.options.seed}:{number}", 2)
        items = "".join(
            f'<li><a href="{html_path(target)}">{VOCABULARY[place]}</a></li>'
            for place, target in enumerate(self._web.navigation(number))
        )
        known = self._web.profile(number)
        size = min(known.size, _PATHS_KEPT)
        has_scripts = "scripts" in known.features
        top, bottom = (static_files.TOP, static_files.BOTTOM) if has_scripts else ("", "")
        header = f'<header><h2>{name}</h2><nav><ul class="menu">{items}</ul></nav></header>\n'
        footer = f'<footer><p>© {name}. <a href="/">Home</a></p></footer>\n'
        return _Frame(
            f"{top}{header}".encode(),
            f"{footer}{bottom}</body></html>\n".encode(),
            inside_prefixes(f"s{number}.test"),
            tuple(html_path((number, index)) for index in range(size)),
        )
