"""Cut a page where a parser would take too long, or too much memory. Pure, linear.

Browsers' rules make four things grow with the square of a page's size: searching all open
elements for each tag, repeating unclosed formatting (`<p><b x=1><p><b x=2>…`: 41 KB of it make
1.6 GB of nodes), looking for repeated attributes of one tag, and choosing among the options of a
list. The work is estimated from the tags; what is left of a page that would need too much is not
read, and a list of too many options is no longer one to choose from.

Parsers compare each attribute of a tag with those before it. A tag ends at the first ">" that is in
no value, so a ">" in a value is escaped first. Then a tag is part of a text without ">": what such
a part has too much of is left out, and its tag closed. A part is not always what it looks like
(scripts have "<" too); that costs it no more than its tail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

# Tags that can do no harm, whatever they are.
FREE_TAGS = 600
# Open elements that are searched for each tag, in sum; 50 ms or so.
_BUDGET = 5_000_000
# Weights of open elements. Some are nearly always closed, though they could be nested by tricks.
_ELEMENT = 32
_SELDOM = 1
# Items of both kinds of lists, each searched for among all that are open.
_MIXED = 4
# Up to this depth pages are of good will.
_USUAL = 250 * _ELEMENT
# Each one may be repeated in all that follow.
_FORMATTING = dict.fromkeys(
    "b big code em font i nobr s small strike strong tt u".split(), 20 * _ELEMENT
)
# Closed by the next one, except that items of the two kinds of lists can nest in each other.
_ITEMS = ("li", "dd", "dt")
_CLOSED = dict.fromkeys("p br embed hr img meta".split(), 0)
# Without end tags, but not inside drawings and formulas: there they nest.
_CLOSED_IN_HTML = tuple(
    "area base col input link option param source tbody td tfoot th thead tr track wbr".split()
)
# Written with "/>", which closes them in drawings.
_SHAPES = tuple("circle ellipse image line path polygon polyline rect stop use".split())
# Options of a page among which the parser may choose, again for each of them; 100 ms or so.
_OPTIONS = 4000
_SELECT = re.compile(r"<(/?)select(?=[\s/>])", re.IGNORECASE)
_IN_NAMES = str.maketrans("", "", "/-:")
_TAG = re.compile(r"<(/?[a-zA-Z][^\s/>]*)")


def bounded(html: str) -> str:
    """As much of a page as can be parsed in time."""
    html = with_bounded_attributes(html)
    return html if html.count("<") <= FREE_TAGS else _with_bounded_depth(html)


def _with_bounded_depth(html: str) -> str:
    tags = _TAG.findall(html)
    if len(tags) <= FREE_TAGS:
        return html
    html = _without_choices(html, tags)
    effects = _effects(set(tags))
    opened = dict.fromkeys([tag for tag, _ in effects.values()], 0)
    depth = work = 0
    # Most tags of a page are few: what each does is looked up, not found out again.
    for number, effect in enumerate(map(effects.get, tags)):
        if effect is None:
            continue
        tag, weight = effect
        if weight < 0:
            # Only what was opened can be closed.
            if opened[tag]:
                opened[tag] -= 1
                depth += weight
            continue
        opened[tag] += 1
        depth += weight
        if depth > _USUAL:
            work += depth
            if work > _BUDGET * _ELEMENT:
                match = next(islice(_TAG.finditer(html), number, None))
                return html[: match.start()]
    return html


def _without_choices(html: str, tags: list[str]) -> str:
    """A page whose lists of options are for suggestions only, if it has too many of them."""
    number = sum(tags.count(raw) for raw in set(tags) if raw.lower() == "option")
    return html if number <= _OPTIONS else _SELECT.sub(r"<\1datalist", html)


def _effects(raw_tags: set[str]) -> dict[str, tuple[str, int]]:
    """What each tag does to the depth of what is open, as it is written: element and weight."""
    weights = _weights({raw.lower() for raw in raw_tags})
    found = {}
    for raw in raw_tags:
        is_end = raw[0] == "/"
        tag = raw.lower()[is_end:]
        weight = weights.get(tag, _ELEMENT)
        # What is open is searched for tags without weight, too.
        if weight or not is_end:
            found[raw] = (tag, -weight if is_end else weight)
    return found


def _weights(tags: set[str]) -> dict[str, int]:
    """How much an open element of each kind counts on a page with these tags."""
    items = _MIXED if "li" in tags and not tags.isdisjoint(("dd", "dt")) else 0
    closed = dict.fromkeys(_CLOSED_IN_HTML, _SELDOM if "svg" in tags or "math" in tags else 0)
    # What looks like a tag in a script: "i<n)".
    odd = {tag: _SELDOM for tag in tags if not tag.translate(_IN_NAMES).isalnum()}
    seldom = dict.fromkeys(("a", *_SHAPES), _SELDOM)
    return {**odd, **seldom, **_FORMATTING, **dict.fromkeys(_ITEMS, items), **_CLOSED, **closed}


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
_TAG_START = re.compile(r"<[a-zA-Z]")
_NAME_END = re.compile(r"[\s/]")
_SEPARATOR = re.compile(r"[\s/\"']+")
_BASE64 = re.compile(r";base64,[A-Za-z0-9+/=\s]+")
# Ends a value in either kind of quotes, or none.
_QUOTES = "'\""
_END_TAG_CHARS = 64


def with_bounded_attributes(html: str) -> str:
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
            kept += [html[at : tag_at + _BLOCK], _QUOTES, ">" + html[last:end] if last >= 0 else ""]
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
    tag = _TAG_START.search(html, first, end) if first >= 0 else None
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
