"""The ordinary pages of the web: their paths and their links. Pure and lazy.

Page i of a host links to its children 4i+1 … 4i+4, so every page is within a few clicks of the
home page; about 50 further links are drawn, a fifth of them to other hosts. The home pages of the
hosts 0, 4, 8, … link to other home pages in the same way, so host 0 reaches every host.
"""

import re
from typing import Final

from demo.chance import draws
from demo.profile import smallest_size
from demo.words import VOCABULARY

SECTIONS: Final = ("news", "guides", "blog", "docs", "people", "places", "science", "archive")
CHILDREN: Final = 4
NAVIGATION: Final = 7
DRAWN_INSIDE: Final = 38
DRAWN_ACROSS: Final = 12
DRAWS: Final = 2 * (DRAWN_INSIDE + DRAWN_ACROSS) + 24
_INDEX: Final = re.compile(r"(?:-|\?id=)([1-9]\d{0,8})(?:\.html|&lang=en|)$", re.ASCII)

Target = tuple[int, int]


def page_path(number: int, index: int) -> str:
    """Return the canonical path of page `index` of host `number`."""
    if index == 0:
        return "/"
    section = SECTIONS[(index + number) & 7]
    word = VOCABULARY[(number * 31 + index * 17) & 4095]
    style = index % 40
    if style == 5:
        return f"/caf%C3%A9/{word}-{index}"
    if style == 9:
        return f"/{section}/{word}%20notes-{index}"
    if style == 13:
        return f"/{section}/{word}?id={index}&lang=en"
    return f"/{section}/{word}-{index}.html"


def page_index(number: int, path: str) -> int | None:
    """Return which page of host `number` has this path, or None."""
    if path == "/":
        return 0
    found = _INDEX.search(path)
    if found is None:
        return None
    index = int(found[1])
    return index if page_path(number, index) == path else None


def page_draws(seed: int, number: int, index: int) -> tuple[int, ...]:
    """Return the numbers from which page `index` of host `number` is made."""
    return draws(f"page:{seed}:{number}:{index}", DRAWS)


def tree_children(number: int, hosts: int) -> list[int]:
    """Return the hosts whose home pages the home page of host `number` must link to."""
    if number % CHILDREN:
        return []
    place = number // CHILDREN
    below = [CHILDREN * (CHILDREN * place + step) for step in range(1, CHILDREN + 1)]
    return [host for host in (number + 1, number + 2, number + 3, *below) if host < hosts]


def children(index: int, size: int) -> range:
    """Return the pages that page `index` must link to."""
    first = CHILDREN * index + 1
    return range(min(first, size), min(first + CHILDREN, size))


def drawn_targets(
    values: tuple[int, ...], number: int, size: int, hosts: int, pages: int
) -> list[Target]:
    """Return the drawn links of a page: those within the host first, then those across."""
    # Pages that exist on every host, so that no other host's size need be known.
    common = max(1, smallest_size(pages) // 2)
    inside = [(number, value % size) for value in values[:DRAWN_INSIDE]]
    across = values[DRAWN_INSIDE : DRAWN_INSIDE + DRAWN_ACROSS]
    return inside + [(value % hosts, (value >> 16) % common) for value in across]
