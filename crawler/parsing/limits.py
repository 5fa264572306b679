"""Change a page that would take a parser too long, or too much memory. Pure, linear.

The parsing rules of HTML make some things grow with the square of a page's size:

- Open elements are searched for each tag, and several times for the end of formatting. Unclosed
  formatting is repeated in all elements that follow: 41 KB of `<p><b x=1><p><b x=2>…` make 1.6 GB
  of nodes.
- A text is copied when it goes on after a tag that is ignored, or outside of its table.
- Each attribute of a tag is compared with those before it.
- Each name is searched in one of 128 lists, and a page can choose names that are all in the same.

Nearly all pages are harmless, and a cheap test proves it by upper bounds. It looks at two bytes
after each "<", and at a ">" every thousand bytes. The others are changed: one with too many tags is
read flat, which leaves out all elements that a reader does not ask for; tags with too many
attributes are cut, and so is a page with too many different names of elements or attributes.

Not bounded: what grows with the size alone, up to 110 bytes of memory for each byte, and the names
of pages with few bytes of tags, since a look at all names takes longer than parsing.

docs/adr/0034-hostile-html.md explains the bounds and why they hold.
"""

import operator
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray

# Open elements that are visited for all tags together; takes about 100 ms.
_VISITS = 40_000_000
# Repeating an element counts as so many visits, and each of its attributes adds some: 250,000
# elements take as long, and 60 MB.
_REPEATED, _REPEATED_ATTRIBUTE = 160, 100
# Closing formatting searches all open elements several times, up to eight times over.
_CLOSED = 60
# The tags of the page itself. The attributes of all of them become those of one element.
_ROOTS = 8
_ROOT_TAG = re.compile(rb"<(?:html|body)(?=[\s/>])", re.IGNORECASE)

_FORMATTING_TAG = re.compile(
    rb"<(?:b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u)(?=[\s/>])", re.IGNORECASE
)

# What a "<" may begin: nothing or an end tag, a start tag, one of formatting, one of the page.
_OTHER, _START, _FORMATTING, _ROOT = b"\0", b"\1", b"\2", b"\3"
_LESS = ord("<")


def _kinds() -> NDArray[np.uint8]:
    """Make the table that tells from the two bytes after a "<" what it may begin."""
    kinds = np.full((256, 256), ord(_OTHER), np.uint8)
    letters = np.arange(ord("a"), ord("z") + 1)
    kinds[letters] = ord(_START)
    for name in "b big code em font i nobr s small strike strong tt u".split():
        seconds = [ord(name[1])] if len(name) > 1 else [*b"\t\n\f\r />"]
        kinds[ord(name[0]), seconds] = ord(_FORMATTING)
    for name in ("html", "body"):
        kinds[ord(name[0]), ord(name[1])] = ord(_ROOT)
    capitals = letters - ord("a") + ord("A")
    kinds[:, capitals] = kinds[:, letters]
    kinds[capitals] = kinds[letters]
    return kinds.T.ravel()


_KINDS = _kinds()

# A text that goes on after a tag is copied if the parser stored a value meanwhile: the content of a
# comment, or a value of an end tag or of a start tag that it ignores. It takes 150 bytes of memory
# for 1,000 tags times bytes: 90 MB and 60 ms, and on pages with tables 240 MB and 150 ms.
_COPIED, _COPIED_IN_TABLES = 600_000_000, 1_600_000_000
# Start tags that are ignored in a text.
_IGNORED = frozenset(
    "caption col colgroup form frame frameset head tbody td tfoot th thead tr".split()
)
# Text in these is joined with other text before or after them, whatever is in between.
_JOINING_TAG = re.compile(rb"<(?:frameset|table|template)(?=[\s/>])", re.IGNORECASE)
# What a "<" may begin, in the same way: a comment or an ignored tag, an end tag, a joining element.
_STORING, _END, _JOINING = 1, 2, 3
# Bytes after "</" in which a plain end tag ends.
_END_BYTES = 16


def _storing() -> NDArray[np.uint8]:
    """Make the table that tells from the two bytes after a "<" whether text may be copied."""
    kinds = np.zeros((256, 256), np.uint8)
    kinds[[ord("!"), ord("?")]] = _STORING
    kinds[ord("/")] = _END
    joining = frozenset({"frameset", "table", "template"})
    for names, kind in ((_IGNORED, _STORING), (joining, _JOINING)):
        for name in names:
            first, second = name[0], name[1]
            for letter in (first, first.upper()):
                kinds[ord(letter), [ord(second), ord(second.upper())]] = kind
    return kinds.T.ravel()


_STORES = _storing()


def bounded(html: bytes, names: Iterable[str] = ()) -> bytes:
    """Return a page that is parsed in time; it keeps its text and the elements with these names."""
    at, kinds = _tags(html)
    if kinds.count(_ROOT) > _ROOTS:
        html = _with_few_roots(html)
        at, kinds = _tags(html)
    if _may_nest(html, at, kinds) or _may_copy(html, at):
        html = _flat(html, frozenset(names), len(at))
        at, kinds = _tags(html)
    most_bytes = _most_bytes(html, len(at))
    if len(html) > most_bytes:
        html = _with_few_names(html, at, most_bytes)
        html = _with_few_attributes(html, at, most_bytes)
    return html


def number_of_tags(html: bytes) -> int:
    """Count every "<". Takes a quarter of the time of `bytes.count`."""
    return int(np.count_nonzero(np.frombuffer(html, np.uint8) == _LESS))


def _tags(html: bytes) -> tuple[NDArray[np.int64], bytes]:
    """Find every "<", and what it may begin."""
    size = len(html) - 2
    if size <= 0:
        return np.empty(0, np.int64), b""
    at = (np.frombuffer(html, np.uint8, size) == _LESS).nonzero()[0]
    # Numbers of two bytes each, at all places of the page.
    pairs = np.ndarray(size, "<u2", html, 1, (1,))
    return at, _KINDS[pairs[at]].tobytes()


def _with_few_roots(html: bytes) -> bytes:
    """Replace all but the first tags of the page itself."""
    ends = [match.end() for match in islice(_ROOT_TAG.finditer(html), _ROOTS)]
    return html if not ends else html[: ends[-1]] + _ROOT_TAG.sub(b"<br ", html[ends[-1] :])


def _may_nest(html: bytes, at: NDArray[np.int64], kinds: bytes) -> bool:
    """May a parser visit or repeat too many elements, if no element is ever closed?"""
    number = len(kinds)
    # An element that is never closed is visited for each tag after it.
    work = number**2 // 2
    if work > _VISITS // 4:
        work = int(np.arange(number, 0, -1)[np.frombuffer(kinds, np.uint8) > 0].sum())
    # At most so many pairs of an end of formatting and a start tag before it.
    if work + _CLOSED * number**2 // 4 > _VISITS:
        work += _CLOSED * _open_at_ends_of_formatting(html, at, kinds)
    index = kinds.find(_FORMATTING)
    while index >= 0 and work <= _VISITS:
        name = _FORMATTING_TAG.match(html, int(at[index]))
        if name is not None:
            attributes = _number_of_attributes(html, name.end())
            work += (_REPEATED + _REPEATED_ATTRIBUTE * attributes) * (number - index)
        index = kinds.find(_FORMATTING, index + 1)
    return work > _VISITS


def _open_at_ends_of_formatting(html: bytes, at: NDArray[np.int64], kinds: bytes) -> int:
    """Count the start tags before each end tag of formatting, added up."""
    at = at[at < len(html) - 3]
    names = np.ndarray(len(html) - 3, "<u2", html, 2, (1,))[at]
    ends = (_KINDS[names] == ord(_FORMATTING)) & (np.frombuffer(html, np.uint8)[at + 1] == ord("/"))
    starts = np.frombuffer(kinds, np.uint8, len(at)) > 0
    return int(starts.cumsum()[ends].sum())


def _may_copy(html: bytes, at: NDArray[np.int64]) -> bool:
    """May a parser copy too much text, if each tag that can makes it copy all text before?"""
    most_tags = _COPIED // (len(html) + 1)
    if len(at) <= most_tags:
        return False
    kinds = _STORES[np.ndarray(len(html) - 2, "<u2", html, 1, (1,))[at]]
    if any(_JOINING_TAG.match(html, place) for place in at[kinds == _JOINING].tolist()):
        return len(at) * len(html) > _COPIED_IN_TABLES
    number = int(np.count_nonzero(kinds))
    return number > most_tags and (
        number - _number_of_plain_ends(html, at[kinds == _END]) > most_tags
    )


def _number_of_plain_ends(html: bytes, ends: NDArray[np.int64]) -> int:
    """Count the end tags at these places that have a short name and nothing else."""
    ends = ends[ends < len(html) - 2 - _END_BYTES]
    after = np.frombuffer(html, np.uint8)[ends[:, None] + np.arange(2, 2 + _END_BYTES)]
    stops = (after <= ord(" ")) | (after == ord("/")) | (after == ord(">"))
    first = np.take_along_axis(after, stops.argmax(1)[:, None], 1)
    return int(np.count_nonzero(first == ord(">")))


def _number_of_attributes(html: bytes, at: int) -> int:
    """Count the attributes of a tag from the end of its name on, up to a number."""
    end = at + _MOST
    for number in range(_MOST_ATTRIBUTES):
        match = _ATTRIBUTE.match(html, at, end)
        if match is None:
            return number if at < end else _MOST // 3
        at = match.end()
    return _MOST // 3


# The content of these is text, so they have no elements in them.
_RAW = frozenset("iframe noembed noframes plaintext script style textarea title xmp".split())
# Elements that do not nest, if a page has no others.
_FLAT = _RAW | frozenset("a area base body br embed frame head html img link meta source".split())
# The rest of a plain tag, unless it is the end of a comment.
_PLAIN_ATTRIBUTES = (
    rb"(?:[ \t\n\f\r]++[^ \t\n\f\r\"'<>/=]++"
    rb"(?:=(?:\"[^\"<>]*+\"|'[^'<>]*+'|[^ \t\n\f\r\"'<>]++)(?=[ \t\n\f\r/>]))?)*+"
    rb"[ \t\n\f\r/]*+(?<!--)(?<!--!)>"
)
_BREAKS = re.compile(rb"<br >(?:[ \t\n\f\r]*+<br >)++")
# In drawings they have no content and no end tag. Elsewhere they would hide the rest of the page.
_EMPTY = re.compile(
    rb"<(?:%b)(?=[ \t\n\f\r/])(?:[^<>\"']|\"[^<>\"]*\"|'[^<>']*')*+(?<=/)>"
    % "|".join(sorted(_RAW)).encode(),
    re.IGNORECASE,
)
# Not elements: a text must end before them, since they are no part of it and have values.
_BETWEEN_TEXTS = re.compile(rb"<(?=[!?]|(?:frame|frameset|head)[ \t\n\f\r/>])", re.IGNORECASE)
# A drawing, up to its end or to the next one.
_DRAWING = re.compile(rb"(?=</?svg[ \t\n\f\r/>])", re.IGNORECASE)
_TITLE = re.compile(rb"<title(?=[ \t\n\f\r/>])", re.IGNORECASE)


def _flat(html: bytes, names: frozenset[str], number: int) -> bytes:
    """Replace all tags by line breaks, but those of elements that do not nest or have these names.

    All text and all links stay, and what separates one text from the next. Elements with these
    names are replaced too if they are not closed, or too many.
    """
    nesting = names - _FLAT | {"frameset"}
    if number * len(html) > _COPIED_IN_TABLES:
        nesting -= _IGNORED | {"table"}
    html = _without_titles_of_drawings(html)
    found = Counter(name.lower() for name in _named(nesting).findall(html))
    starts = {name: found[name.encode()] for name in nesting}
    if sum(starts.values()) * number > _VISITS:
        nesting = frozenset()
    kept = _FLAT.union(name for name in nesting if starts[name] == found[b"/" + name.encode()])
    html = _EMPTY.sub(b"<br >", html)
    # Most tags are written so plainly that nothing in them can be taken for the end of another.
    html = _not_named(kept, _PLAIN_ATTRIBUTES).sub(b"<br >", html)
    html = _not_named(kept, b"").sub(b"<br ", html)
    html = _BREAKS.sub(b"<br >", html)
    # Attributes of end tags become those of a line break, and a link without an address ends a
    # text. It may stand in a head, where a line break would begin the body.
    html = _end_with_attributes(kept).sub(rb"\1><br ", html)
    return _BETWEEN_TEXTS.sub(b"<link ><", html)


def _without_titles_of_drawings(html: bytes) -> bytes:
    """Replace titles in drawings, which would become that of the page."""
    parts = _DRAWING.split(html)
    for index, part in enumerate(parts[1:], 1):
        if not part.startswith(b"</"):
            parts[index] = _TITLE.sub(b"<br ", part)
    return b"".join(parts)


@lru_cache(maxsize=64)
def _end_with_attributes(names: frozenset[str]) -> re.Pattern[bytes]:
    return re.compile(rb"(</(?:%b))[ \t\n\f\r/]" % _any_of(names), re.IGNORECASE)


@lru_cache(maxsize=64)
def _named(names: frozenset[str]) -> re.Pattern[bytes]:
    return re.compile(rb"<(/?(?:%b))(?=[ \t\n\f\r/>])" % _any_of(names), re.IGNORECASE)


@lru_cache(maxsize=64)
def _not_named(names: frozenset[str], attributes: bytes) -> re.Pattern[bytes]:
    """Match all tags but these, up to the end of a comment if there is one."""
    begin = rb"<(?!/?(?:%b)[ \t\n\f\r/>])/?[a-z]" % _any_of(names)
    # A name may have a "<" in it, but a plain one has none. It must not take the end of a script.
    letter = rb"[^ \t\n\f\r/><-]"
    if not attributes:
        letter += rb"|<(?!/(?:%b)[ \t\n\f\r/>])" % _any_of(_RAW)
    return re.compile(begin + rb"(?:%b|-(?!->))*+" % letter + attributes, re.IGNORECASE)


def _any_of(names: frozenset[str]) -> bytes:
    return b"|".join(re.escape(name.encode()) for name in sorted(names))


# Bytes of the longest tag that needs no closer look. They have room for a third as many attributes,
# each of which takes 145 bytes of memory when an element is repeated for each tag of the page.
_LEAST, _MOST = 400, 4000
_REPEATED_BYTES = 4_000_000
# Bytes of the page times those of the longest tag: 120 million comparisons, which take 400 ms.
_COMPARED_BYTES = 2_160_000_000
# Attributes of a tag that is looked at.
_MOST_ATTRIBUTES = 256
# Bytes before a quote that are searched for what it may belong to.
_NEAR = 4000
# Sure ends that are tried before a closer look.
_TRIES = 4
# Ends that are tried after those, for the whole page.
_NEXT_TRIES = 20_000
_BLANKS = b" \t\n\f\r"
_BEFORE_VALUE = b"=" + _BLANKS
_QUOTES = (b'"', b"'")
_TAG = re.compile(rb"</?[a-zA-Z]")
_NAME_END = re.compile(rb"[ \t\n\f\r/>]")
# As in the HTML standard: a quote counts only directly after a "=".
_ATTRIBUTE = re.compile(
    rb"""[ \t\n\f\r/]*[^ \t\n\f\r/>][^ \t\n\f\r/>=]*
    (?:[ \t\n\f\r]*=[ \t\n\f\r]*(?:\"[^\"]*\"?|'[^']*'?|[^ \t\n\f\r>\"'][^ \t\n\f\r>]*)?)?""",
    re.VERBOSE,
)
# Ends a tag in any state: in a name, or in a value with or without quotes.
_TAG_END = b"x'\">"
# End of an element whose text may look like tags.
_RAW_END = re.compile(rb"</(?:script|style)", re.IGNORECASE)
# This much of a shortened tag is kept.
_KEPT = 512


def _most_bytes(html: bytes, number: int) -> int:
    """Return how long a tag may be without a closer look, on a page with so many tags."""
    most = min(_REPEATED_BYTES // (number + 1), _COMPARED_BYTES // (len(html) + 1), _MOST)
    return max(most, _LEAST)


def _with_few_attributes(html: bytes, places: NDArray[np.int64], most_bytes: int) -> bytes:
    """Cut tags with too many attributes; `places` are those of every "<".

    Whether something is a tag depends on its context, such as a script. Where a tag ends and which
    attributes it has does not. So everything that looks like a tag is checked by itself.
    """
    attributes = _Attributes(html)
    kept: list[bytes] = []
    at = 0
    for start, end in _long_tags(html, places, most_bytes):
        if start < at or not attributes.are_many(start):
            continue
        if attributes.left < 0:
            # Tags within tags within tags: made to be slow.
            return b"".join([*kept, html[at:start]])
        kept += [html[at : start + _KEPT], _TAG_END]
        # If it is script code or a comment that looks like a tag, the rest of the page must stay.
        raw = _RAW_END.search(html, start + _KEPT, end)
        at = raw.start() if raw is not None else end - 2 * html.endswith(b"--", 0, end)
    return b"".join([*kept, html[at:]]) if kept else html


def _long_tags(
    html: bytes, places: NDArray[np.int64], most_bytes: int
) -> Iterator[tuple[int, int]]:
    """Yield where tags begin that may be longer than this, and a place where they have ended."""
    most = most_bytes // 3
    for at, end in _far_ends(html, most_bytes):
        between = places[places.searchsorted(at) : places.searchsorted(end)].tolist()
        starts = [place for place in between if _TAG.match(html, place)]
        if starts and end - starts[0] > most_bytes:
            text = html[starts[0] : end]
            # Each attribute begins after a blank, a slash or a quoted value.
            number = len(text.split(None, most))
            if number > most or number + sum(map(text.count, (b"/", *_QUOTES))) > most:
                yield from ((start, end) for start in starts)


def _far_ends(html: bytes, most_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield pairs of neighbouring sure ends that are further than this from each other.

    No tag goes past a sure end: a ">" where no quoted value is open, that is where the last quote
    of either kind does not follow a "=".
    """
    at, size, rfind = 0, len(html), html.rfind
    tries = iter(range(_NEXT_TRIES))
    while size - at > most_bytes:
        end = rfind(b">", at + 1, at + most_bytes)
        if (
            end < 0
            or ((double := rfind(b'"', at, end)) >= 0 and html[double - 1] in _BEFORE_VALUE)
            or ((single := rfind(b"'", at, end)) >= 0 and html[single - 1] in _BEFORE_VALUE)
        ):
            end = _last_end(html, at, at + most_bytes)
            if end < 0:
                end = _next_end(html, at, at + most_bytes, tries)
                yield at, end
        at = end


def _last_end(html: bytes, at: int, stop: int) -> int:
    """Find the last sure end in a range after another, with some tries; -1 if there is none."""
    end = stop
    for _ in range(_TRIES):
        end = html.rfind(b">", at + 1, end)
        if end < 0:
            break
        if not any(_opens(html, html.rfind(mark, at, end), at) for mark in _QUOTES):
            return end
    return -1


def _next_end(html: bytes, at: int, start: int, tries: Iterator[int]) -> int:
    """Find the first sure end after `start` and the sure end `at`, or the end of the page.

    The end of the page is always one; it is taken when there are no `tries` left.
    """
    size = len(html)
    end = html.find(b">", start)
    # The last quotes of either kind before `seen`.
    last, seen = dict.fromkeys(_QUOTES, -1), at
    while end >= 0 and next(tries, None) is not None:
        for mark, before in last.items():
            last[mark] = max(before, html.rfind(mark, seen, end))
        seen = end
        # Nothing ends before all values do that are open.
        closed = [html.find(mark, end) for mark, quote in last.items() if _opens(html, quote, at)]
        if not closed:
            return end
        end = html.find(b">", max(place if place >= 0 else size for place in closed))
    return size


def _opens(html: bytes, quote: int, at: int) -> bool:
    """May a value begin with this quote, that comes after the sure end `at`?"""
    if quote < 0 or not _follows_equals(html, quote):
        return False
    # It is in a tag, so there is a "<" after the last sure end. That may be a ">" nearby.
    start = max(at, quote - _NEAR)
    end = html.rfind(b">", start, quote)
    if end < 0:
        return start > at or html.find(b"<", at, quote) >= 0
    for mark in _QUOTES:
        other = html.rfind(mark, start, end)
        if (start > at) if other < 0 else _follows_equals(html, other):
            return True
    return html.find(b"<", end, quote) >= 0


def _follows_equals(html: bytes, quote: int) -> bool:
    """Whether a quote comes directly after a "=", or so many blanks that there may be one."""
    if html[quote - 1] not in _BEFORE_VALUE:
        return False
    start = max(0, quote - _NEAR)
    before = html[start:quote].rstrip(_BLANKS)
    return before.endswith(b"=") or (not before and start > 0)


class _Attributes:
    """Attributes of tags, and of everything that looks like one."""

    def __init__(self, html: bytes) -> None:
        self._html = html
        # Attributes that may still be read; those in several tags count more than once. Reading one
        # takes as long as scanning 200 bytes.
        self.left = 5_000 + len(html) // 100
        self._name_end = 0
        # Place of an attribute → how many there are from there on.
        self._numbers: dict[int, int] = {}

    def are_many(self, start: int) -> bool:
        """Whether the tag that begins here has more attributes than it should."""
        html, numbers = self._html, self._numbers
        if start >= self._name_end:
            # Not from its beginning: an end tag has a slash there.
            match = _NAME_END.search(html, start + 2)
            self._name_end = len(html) if match is None else match.start()
        at = self._name_end
        read: list[int] = []
        while at not in numbers and len(read) <= _MOST_ATTRIBUTES and self.left >= 0:
            attribute = _ATTRIBUTE.match(html, at)
            if attribute is None:
                numbers[at] = 0
                break
            self.left -= 1 + (attribute.end() - at) // 200
            read.append(at)
            at = attribute.end()
        number = numbers.get(at, 0) + len(read)
        if number > _MOST_ATTRIBUTES or self.left < 0:
            return True
        numbers.update(zip(read, range(number, 0, -1), strict=False))
        return False


# Bytes of all tags, and of the text after them, whose names need no closer look. It takes ten times
# as long as everything else here, so usual pages should have fewer.
_NAMED_BYTES = 512_000
# A parser searches one of its lists of names for each name that is written. Each byte of a page may
# make it visit so many: 0.12 s for the smallest page that is looked at. More names than this are
# slower to visit.
_NAMES = 64_000
_LISTS = 128
_VISITS_PER_BYTE = 100
_ELEMENT = re.compile(rb"</?([a-zA-Z][^ \t\n\f\r/>]*+)")
_WITH_ATTRIBUTES = re.compile(rb"</?[a-zA-Z][^ \t\n\f\r/><]*+[ \t\n\f\r/]")
# An attribute begins after a blank, a slash or a quoted value.
_WORD = re.compile(rb"[ \t\n\f\r/\"']([^ \t\n\f\r/>=]+)")


def _with_few_names(html: bytes, places: NDArray[np.int64], most_bytes: int) -> bytes:
    """Cut a page that may have too many different names of elements or attributes."""
    if len(html) <= _NAMED_BYTES or _bytes_after(places, html, most_bytes).sum() <= _NAMED_BYTES:
        return html
    most = _VISITS_PER_BYTE * len(html)
    elements = ((match.start(), [match[1]]) for match in _ELEMENT.finditer(html))
    html = html[: _end_of_few_names(elements, most)]
    starts = np.array([match.end() - 1 for match in _WITH_ATTRIBUTES.finditer(html)], np.int64)
    lengths = _bytes_after(starts, html, most_bytes)
    if lengths.sum() <= _NAMED_BYTES:
        return html
    attributes = (
        (start, _WORD.findall(html, start, start + length))
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
    )
    return html[: _end_of_few_names(attributes, most)]


def _end_of_few_names(names: Iterable[tuple[int, list[bytes]]], most: int) -> int | None:
    """Find the place of the first names with which a parser visits too many; None if there is none.

    Names that are meant for it are all in the same list.
    """
    counts: Counter[bytes] = Counter()
    written, looked_at = 0, most
    for place, found in names:
        counts.update(found)
        written += len(found)
        if len(counts) > _NAMES:
            return place
        if len(counts) * written > looked_at:
            if _visits_of_names(counts) > most:
                return place
            looked_at = len(counts) * written * 5 // 4
    return None


def _visits_of_names(counts: Counter[bytes]) -> int:
    """Count the names that are visited if each search goes to the end of a list."""
    different, written = [0] * _LISTS, [0] * _LISTS
    for name, number in counts.items():
        index = list_of(name)
        different[index] += 1
        written[index] += number
    return sum(map(operator.mul, different, written))


@lru_cache(maxsize=100_000)
def list_of(name: bytes) -> int:
    """Return the list that a name is in: lexbor's hash, which is the one called one-at-a-time."""
    found = 0
    for letter in name.lower():
        found = (found + letter) * 1025 & 0xFFFFFFFF
        found ^= found >> 6
    found = found * 9 & 0xFFFFFFFF
    found ^= found >> 11
    return found * 32769 % _LISTS


def _bytes_after(places: NDArray[np.int64], html: bytes, most_bytes: int) -> NDArray[np.int64]:
    """Return the bytes from each place to the next, or at most so many."""
    return np.minimum(np.diff(places, append=len(html)), most_bytes)
