"""Cut a page where a parser would take too long, or too much memory. Pure, linear.

Browsers' rules make four things grow with the square of a page's size: searching all open
elements for each tag, repeating unclosed formatting (`<p><b x=1><p><b x=2>…`: 41 KB of it make
1.6 GB of nodes), looking for repeated attributes of one tag, and choosing among the options of a
list. The work is estimated from the tags; what is left of a page that would need too much is not
read, and a list of too many options is no longer one to choose from.
"""

from __future__ import annotations

import re
from itertools import islice

from crawler.links import attributes

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
    html = attributes.bounded(html)
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
