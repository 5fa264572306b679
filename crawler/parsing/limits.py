"""Cut a page where a parser would take too long, or too much memory. Pure, linear.

The parsing rules of HTML make four things grow with the square of a page's size: searching all
open elements for each tag, repeating unclosed formatting (41 KB of `<p><b x=1><p><b x=2>…` make
1.6 GB of nodes), comparing each attribute of a tag with those before it, and selecting among the
options of a list. The work is estimated from the tags, and a page that would need too much is cut.
Lists with too many options become lists of suggestions; tags with too many attributes are cut.
"""

import re
from collections.abc import Iterator
from itertools import islice

# So few tags do no harm, whatever they are.
FREE_TAGS = 600
# Open elements that are searched for all tags together; takes about 50 ms.
_BUDGET = 5_000_000
# Weights of open elements. Some are nearly always closed, though a hostile page may nest them.
_ELEMENT = 32
_SELDOM = 1
# Weight of items if a page has both kinds of lists, which can nest in each other.
_MIXED = 4
# Normal pages stay below this depth.
_USUAL = 250 * _ELEMENT
# Unclosed formatting may be repeated in all elements that follow.
_FORMATTING = dict.fromkeys(
    "b big code em font i nobr s small strike strong tt u".split(), 20 * _ELEMENT
)
# Items are closed by the next item of their kind of list.
_ITEMS = ("li", "dd", "dt")
_CLOSED = dict.fromkeys("p br embed hr img meta".split(), 0)
# Have no end tags, but nest inside drawings and formulas.
_CLOSED_IN_HTML = tuple(
    "area base col input link option param source tbody td tfoot th thead tr track wbr".split()
)
# Usually written with "/>", which closes them in drawings.
_SHAPES = tuple("circle ellipse image line path polygon polyline rect stop use".split())
# Options of a page. The parser selects one again after each option; takes about 100 ms.
_OPTIONS = 4000
_SELECT = re.compile(r"<(/?)select(?=[\s/>])", re.IGNORECASE)
_IN_NAMES = str.maketrans("", "", "/-:")
_TAG = re.compile(r"<(/?[a-zA-Z][^\s/>]*)")


def bounded(html: str) -> str:
    """Return as much of a page as can be parsed in time."""
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
    # A page has few different tags, so the effect of each is computed once.
    for number, effect in enumerate(map(effects.get, tags)):
        if effect is None:
            continue
        tag, weight = effect
        if weight < 0:
            # End tags without an open element do nothing.
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
    """Turn lists of options into lists of suggestions if a page has too many options."""
    number = sum(tags.count(raw) for raw in set(tags) if raw.lower() == "option")
    return html if number <= _OPTIONS else _SELECT.sub(r"<\1datalist", html)


def _effects(raw_tags: set[str]) -> dict[str, tuple[str, int]]:
    """Map each tag, as written, to its element and the weight it adds to the depth."""
    weights = _weights({raw.lower() for raw in raw_tags})
    found = {}
    for raw in raw_tags:
        is_end = raw[0] == "/"
        tag = raw.lower()[is_end:]
        weight = weights.get(tag, _ELEMENT)
        # Start tags without weight count too: open elements are searched for each.
        if weight or not is_end:
            found[raw] = (tag, -weight if is_end else weight)
    return found


def _weights(tags: set[str]) -> dict[str, int]:
    """Find the weight of each kind of open element on a page with these tags."""
    items = _MIXED if "li" in tags and not tags.isdisjoint(("dd", "dt")) else 0
    closed = dict.fromkeys(_CLOSED_IN_HTML, _SELDOM if "svg" in tags or "math" in tags else 0)
    # Script code may look like a tag: "i<n)".
    odd = {tag: _SELDOM for tag in tags if not tag.translate(_IN_NAMES).isalnum()}
    seldom = dict.fromkeys(("a", *_SHAPES), _SELDOM)
    return {**odd, **seldom, **_FORMATTING, **dict.fromkeys(_ITEMS, items), **_CLOSED, **closed}


# Shorter pages do no harm: they have room for some thousand attributes, which take about 100 ms.
FREE_CHARS = 32_000
# Attributes of one tag, and comparisons in all tags together.
_MOST = 1500
_COMPARED = 30_000_000
# Shorter tags have too few attributes to matter. This much of a shortened tag is kept.
_BLOCK = 512
_LONG = re.compile(rf"<[a-zA-Z][^>]{{{_BLOCK}}}")
# A quoted value that has a ">": it does not end its tag.
_HIDDEN = re.compile(r"=\s*(?:\"[^\">]*>|'[^'>]*>)")
_TAG_START = re.compile(r"<[a-zA-Z]")
_NAME_END = re.compile(r"[\s/>]")
# As in the HTML standard: a quote counts only directly after a "=".
_ATTRIBUTE = re.compile(
    r"[\s/]*[^\s/>][^\s/>=]*(?:\s*=\s*(?:\"[^\"]*\"?|'[^']*'?|[^\s>\"'][^\s>]*)?)?"
)
# Ends a tag in any state: in a name, or in a value with or without quotes.
_TAG_END = "x'\">"
# End of an element whose text may look like tags.
_RAW_END = re.compile(r"</(?:script|style)", re.IGNORECASE)
# Reading an attribute takes as long as scanning this many characters.
_STEP_CHARS = 200


def with_bounded_attributes(html: str) -> str:
    """Return a page whose attributes are compared in bounded time.

    Whether something is a tag depends on its context, such as a script. Where a tag ends and which
    attributes it has does not. So everything that looks like a tag is checked by itself.
    """
    if len(html) <= FREE_CHARS:
        return html
    tags = _Tags(html)
    kept: list[str] = []
    at = 0
    for start in _suspects(html):
        if start < at:
            continue
        if tags.chars_left < 0:
            # Tags within tags within tags: made to be slow.
            return "".join([*kept, html[at:start]])
        if (end := tags.end_of_wide(start)) is not None:
            kept += [html[at : start + _BLOCK], _TAG_END]
            at = end
    return "".join([*kept, html[at:]]) if kept else html


def _suspects(html: str) -> Iterator[int]:
    """Yield where tags may begin that are long, or have a ">" in a value."""
    places = sorted(
        [(match.start(), False) for match in _LONG.finditer(html)]
        + [(match.start(), True) for match in _HIDDEN.finditer(html)]
    )
    done = 0
    for place, is_hidden in places:
        if place < done:
            continue
        # Tags may begin anywhere before the next ">", or before the value that has one.
        start = max(done, html.rfind(">", done, place) + 1)
        end = place if is_hidden else html.find(">", place)
        done = len(html) if end < 0 else end
        for match in _TAG_START.finditer(html, start, done):
            yield match.start()


class _Tags:
    """Tags of a page, and everything that looks like one: their attributes and ends."""

    def __init__(self, html: str) -> None:
        self._html = html
        self._left = _COMPARED
        # Characters that may still be read; those in several tags count more than once.
        self.chars_left = 1_000_000 + 2 * len(html)
        self._name_end = 0
        # Position → number of attributes from there on, and the end of their tag.
        self._read: dict[int, tuple[int, int]] = {}

    def end_of_wide(self, start: int) -> int | None:
        """Return where a tag with too many attributes ends; None for all others."""
        html = self._html
        if start >= self._name_end:
            match = _NAME_END.search(html, start)
            self._name_end = match.start() if match is not None else len(html)
        number, end = self._attributes(self._name_end)
        if number <= _MOST and number**2 <= self._left:
            self._left -= number**2
            return None
        # If it is script code that looks like a tag, the rest of the page must stay.
        raw = _RAW_END.search(html, start + _BLOCK, end)
        return raw.start() if raw is not None else end

    def _attributes(self, at: int) -> tuple[int, int]:
        """Return the number of attributes from a place in a tag on, and where the tag ends."""
        html, read, places = self._html, self._read, []
        while at not in read:
            match = _ATTRIBUTE.match(html, at)
            if match is None or self.chars_left < 0:
                end = html.find(">", at)
                read[at] = (0, len(html) if end < 0 else end + 1)
                break
            places.append(at)
            self.chars_left -= match.end() - at + _STEP_CHARS
            at = match.end()
        number, end = read[at]
        for place in reversed(places):
            number += 1
            read[place] = (number, end)
        return number, end
