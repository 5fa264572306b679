"""Pieces of Markdown that GitHub and MkDocs show alike. Pure."""

import re
from collections.abc import Iterable, Sequence

GENERATED = "<!-- Written by `make reference`: change what it is made of, not this page. -->"
# Code spans stay as they are; a string without blanks, a list and a dict become one.
_VERBATIM = re.compile(r'`[^`]*`|\{"[^}]*\}+|\["[^\]]*\]|"[^"\s]+"')
_MEANING = re.compile(r"([*<>|\\])")


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a `|` in a cell is escaped."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def code(text: str) -> str:
    """Return a code span."""
    return f"`{text}`" if text else ""


def plain(text: str) -> str:
    """Escape what means something in Markdown, outside of code spans; mark up strings."""
    parts, at = [], 0
    for found in _VERBATIM.finditer(text):
        parts.append(_MEANING.sub(r"\\\1", text[at : found.start()]))
        parts.append(found[0] if found[0].startswith("`") else code(found[0]))
        at = found.end()
    return "".join([*parts, _MEANING.sub(r"\\\1", text[at:])])


def anchored(name: str) -> str:
    """Return a name in code with an anchor, so that other pages can link to it."""
    return f'<a id="{name.lower()}"></a>{code(name)}'
