"""Endless spaces of URLs. Every trap page links deeper into the trap and back to its home page."""

from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qsl, urlencode

from demo.chance import draw
from demo.features.site import Site
from demo.node import Link, Node

LONGEST_PATH: Final = 2000
_CHOICES: Final = {"brand": "abcd", "color": "rgb", "order": "ud", "page": "123", "size": "sml"}


def _calendar(path: str) -> list[str] | None:
    parts = path.removeprefix("/calendar/").split("/")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
        return None
    year, month = int(parts[0]), int(parts[1])
    if not (1 <= month <= 12 and 1 <= year <= 9998):
        return None
    months = [year * 12 + month - 1 + step for step in (-1, 1)]
    return [f"/calendar/{at // 12}/{at % 12 + 1:02}" for at in months]


def _deep_paths(path: str) -> list[str] | None:
    if len(path) > LONGEST_PATH or not path.endswith("/"):
        return None
    return [path + "a/", path + "b/"]


def _session_ids(path: str) -> list[str] | None:
    return [f"/session/cart?sid={draw(f'{path}:{step}'):08x}" for step in range(3)]


def _query_combinations(path: str) -> list[str] | None:
    chosen = dict(parse_qsl(path.partition("?")[2]))
    return [
        "/filter/list?" + urlencode(sorted({**chosen, name: value}.items()))
        for name, values in _CHOICES.items()
        for value in values
        if chosen.get(name) != value
    ]


# Feature → where the trap begins, the prefix of all its paths, and what a trap page links to.
TRAPS: Final[dict[str, tuple[str, str, Callable[[str], list[str] | None]]]] = {
    "calendar": ("/calendar/2024/01", "/calendar/", _calendar),
    "deep_paths": ("/deep/", "/deep/", _deep_paths),
    "session_ids": ("/session/cart", "/session/", _session_ids),
    "query_combinations": ("/filter/list", "/filter/", _query_combinations),
}


def trap_node(site: Site, feature: str, path: str, linked: str = "") -> Node | None:
    """Return the node of a path in a trap, or None if the path does not belong to it."""
    _, prefix, deeper = TRAPS[feature]
    paths = deeper(path) if path.startswith(prefix) else None
    if paths is None:
        return None
    links = (Link(site.pages[0]), *(Link(site.url(next_path)) for next_path in paths))
    # Pages of a trap resemble each other, as they do in the wild.
    return site.page(
        path, text=f"trap:{site.host}:{feature}", links=links, linked=linked, trap=prefix
    )
