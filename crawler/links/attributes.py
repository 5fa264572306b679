"""Shorten tags with so many attributes that comparing them would take too long. Pure, linear.

Parsers compare each attribute of a tag with those before it, for repeated ones. A tag ends at the
first ">" that is in no value, so a ">" in a value is escaped first, as it may be written. Then a
tag is part of a text without ">": what such a part has too much of is left out, and its tag closed.
A part is not always what it looks like (scripts have "<" too); that costs it no more than its tail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# Shorter pages can do no harm: they have room for some thousand attributes, 100 ms or so.
FREE_CHARS = 32_000
# Attributes of one tag, and how many are compared in sum before fewer are allowed.
_MOST = 1500
_COMPARED = 30_000_000
# Parts below this size have too few attributes to matter, and so much of larger ones is kept.
_BLOCK = 512
# A value with ">", to its end.
_HIDDEN = re.compile(r"=\s*(?:\"[^\">]*>[^\"]*|'[^'>]*>[^']*)")
# Values in values of the other kind of quotes take another pass.
_PASSES = 3
_TAG = re.compile(r"<[a-zA-Z]")
_NAME_END = re.compile(r"[\s/]")
_SEPARATOR = re.compile(r"[\s/\"']+")
_BASE64 = re.compile(r";base64,[A-Za-z0-9+/=\s]+")
# Ends a value in either kind of quotes, or none.
_CLOSED = "'\""
_END_TAG_CHARS = 64


def bounded(html: str) -> str:
    """A page whose attributes are compared in bounded time."""
    return html if len(html) <= FREE_CHARS else _with_short_parts(_with_open_ends(html))


def _with_open_ends(html: str) -> str:
    """A page in which a ">" in a value is written as "&gt;": any other ends its tag."""
    for _ in range(_PASSES):
        hidden = _HIDDEN.search(html)
        if hidden is None:
            return html
        html = _HIDDEN.sub(lambda value: value[0].replace(">", "&gt;"), html)
    # What is left after that was put together to be left.
    hidden = _HIDDEN.search(html)
    return html if hidden is None else html[: hidden.start()]


def _with_short_parts(html: str) -> str:
    kept: list[str] = []
    at, left = 0, _COMPARED
    for start, end in _parts(html):
        tag_at = _tag_at(html, start, end)
        number = _attributes(html[tag_at:end]) if tag_at >= 0 else 0
        if number > _MOST or number**2 > left:
            # An end tag behind it may be that of a script.
            last = html.rfind("</", max(tag_at + _BLOCK, end - _END_TAG_CHARS), end)
            kept += [html[at : tag_at + _BLOCK], _CLOSED, ">" + html[last:end] if last >= 0 else ""]
            at = end
        else:
            left -= number**2
    return "".join([*kept, html[at:]]) if kept else html


def _parts(html: str) -> Iterator[tuple[int, int]]:
    """Parts without ">" of more than a block, from one ">" to the next."""
    find, at = html.find, 0
    # A part of two blocks or more has all of one block: most pages need a look at each, no more.
    while at + _BLOCK < len(html):
        if find(">", at, at + _BLOCK) >= 0:
            at += _BLOCK
            continue
        start, end = html.rfind(">", 0, at) + 1, find(">", at)
        end = len(html) if end < 0 else end
        yield start, end
        at = end


def _tag_at(html: str, start: int, end: int) -> int:
    """Where a tag with attributes may begin in a part, -1 if there is none."""
    # A search for one letter is much faster than an expression that begins with it.
    first = html.find("<", start, end)
    tag = _TAG.search(html, first, end) if first >= 0 else None
    # The name of the first tag ends where that of any other in this part would. Both in one
    # expression would look for that end from each "<" on.
    if tag is None or _NAME_END.search(html, tag.end(), end) is None:
        return -1
    return tag.start()


def _attributes(tag: str) -> int:
    """How many attributes a tag may have at the most."""
    if ";base64," in tag:
        # A picture is one value, however many slashes it has.
        tag = _BASE64.sub("", tag)
    return len(_SEPARATOR.findall(tag))
