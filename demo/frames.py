"""What sites put around their articles: menus, notices, in elements made for it or in plain ones.

A frame is named by its kind, a key and how many paragraphs of notices it has: "plain:s7:10". Two
pages with the same frame have it word for word. Pure.
"""

from functools import lru_cache
from typing import Final

from demo.words import PARAGRAPH_WORDS, phrase

KINDS: Final = ("semantic", "plain")
_MENU: Final = 12
_FRAMES_KEPT: Final = 1_000


def framed(frame: str, content: str) -> str:
    """Return the inside of a body: the content in this frame, or alone if it has none."""
    if not frame:
        return content
    kind, key, size = frame.split(":")
    menu, top, bottom = _parts(key, int(size))
    if kind == "semantic":
        return (
            f"<header>{top}<nav><ul>{menu}</ul></nav></header>\n{content}"
            f"<aside><ul>{menu}</ul></aside>\n<footer>{bottom}</footer>\n"
        )
    return f"<div><ul>{menu}</ul>{top}</div>\n{content}<div>{bottom}<ul>{menu}</ul></div>\n"


@lru_cache(maxsize=_FRAMES_KEPT)
def _parts(key: str, size: int) -> tuple[str, str, str]:
    # Words of its own: an article has none of its paragraphs.
    notices = [
        f"<p>{phrase(f'notice:{key}:{number}', PARAGRAPH_WORDS)}.</p>\n" for number in range(size)
    ]
    menu = "".join(
        f'<li><a href="/">{phrase(f"menu:{key}:{number}", 2)}</a></li>\n' for number in range(_MENU)
    )
    return menu, "".join(notices[: size // 2]), "".join(notices[size // 2 :])


def changed(paragraphs: list[str], number: int, key: str) -> list[str]:
    """Return the paragraphs with so many of their words replaced by others, evenly spread."""
    words = [text.split(" ") for text in paragraphs]
    places = [(at, place) for at, text in enumerate(words) for place in range(len(text))]
    for count in range(number):
        at, place = places[(2 * count + 1) * len(places) // (2 * number)]
        words[at][place] = phrase(f"changed:{key}:{count}", 1).lower()
    return [" ".join(text) for text in words]
