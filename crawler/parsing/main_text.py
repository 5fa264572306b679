"""Find the main text of an HTML page, the article without its frame, as text and Markdown. Pure.

Prose is text in paragraphs, or directly in other elements, that is long enough and mostly not of
links. It hardly counts in elements that are named like a frame ("comments", "sidebar"), and less
where there is one paragraph only, as in teasers. From the whole page on, the element with most of
the prose is chosen in each element, until none has most of it: that has the article. In there the
frame is left out by the names of elements, and so are lists of links, captions and headings without
text. Names do not decide about elements with much of the prose.

Pages with hardly any prose, such as lists, shops and short documentation, are no articles: their
main text is all that is in no frame.

Time grows with the number of elements and characters: every text is read a fixed number of times,
and what is deeper than _DEPTH_MAX as one text. docs/adr/0035-main-text.md has the figures.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, repeat
from math import inf
from typing import NamedTuple
from unicodedata import category
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser, LexborNode, create_tag

from crawler.parsing.paragraphs import escaped, escaped_end, escaped_start
from crawler.urls import Base

# Characters of an article that are read. Sinks keep no more of a page.
_MAX_CHARS = 1_000_000
_DEPTH_MAX = 100

# --- the names of frames ------------------------------------------------------------------------

# Words in classes and ids of what is no part of an article.
_FRAME_WORDS = (
    # Discussion, and links to other pages.
    r"comments? respond responses? discussion disqus livefyre related recommend\w* outbrain "
    r"taboola zergnet trending popular most more readmore also teaser prev\w* pagination pager "
    # Around the page.
    r"sidebar rail widget nav navigation menu toolbar breadcrumbs? footer masthead banner "
    r"cookie consent gdpr modal popup login register toc "
    # What it wants of its visitors.
    r"shar(?:e|es|er|ing|edaddy) social follow\w* newsletter subscri\w+ signup membership "
    r"donate\w* contact poll quiz rating promo\w* sponsor\w* advert\w* ads? adv "
    # About the article, and beside its text.
    r"byline author bio tags? tagcloud topics keywords meta metadata postmeta timestamp "
    r"dateline editsection copyright disclaimer captions? credits? images? photos? gallery "
    r"slideshow carousel infobox "
    # What visitors do not see.
    r"hidden sr-only d-none screen-reader-text print-only noprint"
).replace(" ", "|")
# What begins so says how a page is made, not what an element is: "has-sidebar", "tag-advertising".
_NOT_OF_ELEMENT = (
    "has|no|non|with|without|is|js|tag|tags|category|author|type|status|theme|elementor|post|"
    "format|single|page"
)
_FRAME = re.compile(
    rf"(?:^|\s)(?!(?:{_NOT_OF_ELEMENT})-)(?:\S*?[_-])?(?:{_FRAME_WORDS})(?:[_-]\S*)?(?=\s|$)"
)
# Words of what is part of an article, whatever other words there are.
_CONTENT = re.compile(
    r"(?:article|story|entry|post|news|blog|page|main|body|content|text|rich)\w*?[-_]*"
    r"(?:body|content|text|copy|entry|main)|bodytext|embed"
)
_HUMP = re.compile(r"([a-z])([A-Z])")
_CLASS_CHARS, _ID_CHARS = 300, 100
_FRAME_ROLES = frozenset({"navigation", "complementary", "contentinfo", "search", "banner"})
_UNSEEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden")


def _ids(names: str) -> frozenset[int]:
    return frozenset(create_tag(name).tag_id for name in names.split())


_FRAMES = _ids("nav aside footer header")
_FORM = _ids("form")
_NEVER_NAMED = _ids("article main")


@lru_cache(maxsize=2000)
def _is_frame_name(classes: str, name: str) -> bool:
    words = _HUMP.sub(r"\1-\2", f"{classes} {name}").lower()
    return _CONTENT.search(words) is None and _FRAME.search(words) is not None


Attributes = dict[str, str | None]


def _is_tagged(tag: int, attributes: Attributes) -> bool:
    """Whether an element is of the frame by its tag or role."""
    return tag in _FRAMES or (
        bool(attributes) and tag not in _NEVER_NAMED and attributes.get("role") in _FRAME_ROLES
    )


def _is_named(tag: int, attributes: Attributes) -> bool:
    """Whether an element is of the frame by its class or id; forms often are."""
    if tag in _FORM:
        return True
    if not attributes or tag in _NEVER_NAMED or attributes.get("itemprop") == "articleBody":
        return False
    classes, name = attributes.get("class") or "", attributes.get("id") or ""
    return bool(classes or name) and _is_frame_name(classes[:_CLASS_CHARS], name[:_ID_CHARS])


def _is_unseen(attributes: Attributes) -> bool:
    style = attributes.get("style")
    return "hidden" in attributes or bool(style and _UNSEEN.search(style))


# --- the element of the article -----------------------------------------------------------------

(_A,), (_P,), (_BR,), (_LI,), (_H1,) = _ids("a"), _ids("p"), _ids("br"), _ids("li"), _ids("h1")
# Elements whose own text may be a paragraph, of the element around them if they have no blocks,
# and those that have none.
_HOLDERS = _ids("div td section article main")
_HELD = _ids("span pre li blockquote dd font")
_WITH_TEXT = sorted(_HOLDERS | _HELD)
_LISTED = _ids("li td")
_TOP = _ids("html body")

# Characters of a paragraph, of a short one, of text that is in no paragraph.
_PROSE_CHARS, _SHORT_CHARS, _BARE_CHARS = 25, 80, 80
_PROSE_MAX = 1000
# Characters of Chinese, Japanese and Korean: each says as much as this many letters.
_DENSITY = 3
_DENSE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
# Lists and tables are in frames more often.
_OF_LISTS = 0.5
# Texts with several line breaks have many paragraphs.
_BROKEN_MAX, _BREAKS = 5000, 3
# More of a paragraph in links makes it none.
_LINKED_MAX = 0.6
# Elements between a link and its paragraph.
_LINK_DEPTH = 3
# How much prose counts: in an element with one paragraph, as teasers are, and in a frame.
_SINGLE, _FOR_FRAMES = 0.2, 0.02
# An element has the article if no element in it has so much of its prose.
_MOST_OF_IT = 2 / 3
# Part of a page's prose beside a title, and part of an article's prose, that names make no frame.
_TITLED, _MOST = 0.2, 0.5
# An article of few characters, that has less than the first of the page's text, and the second of
# the text that is in no frame, is none.
_LITTLE_CHARS, _LITTLE, _LITTLE_BESIDE = 2000, 0.3, 0.3
# Titles of a page that are looked at.
_TITLES = 3
# Texts of links and paragraphs are not read for more than this many times the characters of the
# page: hostile ones are nested.
_TEXTS, _FREE_CHARS = 4, 10_000


@dataclass(slots=True, eq=False)
class _Part:
    """Element with prose in it."""

    node: LexborNode
    parent: _Part | None
    # A frame by its tag or role; named like one; not seen; with a title of the page in it.
    is_tagged: bool
    is_named: bool
    is_unseen: bool
    has_title: bool = False
    # A frame, or in one.
    is_frame: bool = False
    # Characters and number of its own paragraphs, and characters with those of all elements in it.
    prose: float = 0
    paragraphs: int = 0
    whole: float = 0
    # The latter as they count for the choice, and the part directly in it with most of them.
    counted: float = 0
    heaviest: _Part | None = None

    @classmethod
    def of(cls, node: LexborNode, parent: _Part | None) -> _Part:
        tag = node.tag_id
        if tag in _TOP:
            return cls(node, parent, is_tagged=False, is_named=False, is_unseen=False)
        attributes = node.attributes
        return cls(
            node,
            parent,
            is_tagged=_is_tagged(tag, attributes),
            is_named=_is_named(tag, attributes),
            is_unseen=_is_unseen(attributes),
        )


class _Frames(NamedTuple):
    """What is left out of an article: elements by their tags, and by their names if those count."""

    parts: Mapping[int, _Part]
    # Prose of elements that are no frame whatever they are called.
    most: float
    by_names: bool

    def is_kept(self, node: LexborNode) -> bool:
        """Whether an element that seems to be a frame has much of the article."""
        part = self.parts.get(node.mem_id)
        return part is not None and part.whole >= self.most


class _Parts:
    """Elements of a page with prose in them, outer ones first."""

    def __init__(self) -> None:
        self.by_id: dict[int, _Part] = {}
        # Whether the names of frames count for the choice.
        self._by_names = True

    def add(self, node: LexborNode | None, chars: float, paragraphs: int = 1) -> None:
        if node is not None:
            part = self._part(node)
            part.prose += chars
            part.paragraphs += paragraphs

    def _part(self, node: LexborNode) -> _Part:
        known = self.by_id
        found = known.get(node.mem_id)
        if found is not None:
            return found
        new = [node]
        parent = node.parent
        while parent is not None and found is None:
            found = known.get(parent.mem_id)
            if found is None:
                new.append(parent)
                parent = parent.parent
        for each in reversed(new):
            found = known[each.mem_id] = _Part.of(each, found)
        assert found is not None
        return found

    def mark_title(self, node: LexborNode) -> None:
        """Mark the parts that a title is in."""
        parent = node.parent
        found: _Part | None = None
        while parent is not None and found is None:
            found = self.by_id.get(parent.mem_id)
            parent = parent.parent
        while found is not None and not found.has_title:
            found.has_title = True
            found = found.parent

    def article(self) -> _Part | None:
        """Return the part that has the article; None if all prose is in frames."""
        parts = [*self.by_id.values()]
        if not parts:
            return None
        for part in parts:
            part.whole = part.prose
        for part in reversed(parts):
            if part.parent is not None:
                part.parent.whole += part.whole
        best = _best(parts, by_names=True)
        if not _is_of_frames(best):
            return best
        # All prose is in frames: then their names say something else.
        self._by_names = False
        best = _best(parts, by_names=False)
        return None if _is_of_frames(best) else best

    def frames_in(self, article: _Part) -> _Frames:
        """Tell what is a frame in an article."""
        most = _MOST * article.whole
        by_names = self._by_names or not self._hide_most(article.node, article.whole)
        return _Frames(self.by_id, most, by_names)

    def frames_of_page(self, body: LexborNode) -> _Frames:
        """Tell what is a frame in a page that has no article."""
        part = self.by_id.get(body.mem_id)
        whole = part.whole if part is not None else 0
        return _Frames(self.by_id, inf, self._by_names or not self._hide_most(body, whole))

    def _hide_most(self, around: LexborNode, whole: float) -> bool:
        """Whether most prose is in elements named like frames, as the comments of a forum."""
        inside, hidden = {around.mem_id}, 0.0
        for number, part in self.by_id.items():
            if part.parent is not None and part.parent.node.mem_id in inside:
                if part.is_tagged:
                    continue
                if part.is_named and part.whole < _MOST * whole:
                    hidden += part.whole
                else:
                    inside.add(number)
        return hidden > _MOST * whole


def _is_of_frames(part: _Part) -> bool:
    """Whether the prose of a part is nearly all in frames."""
    # A little more, as sums are not exact.
    return part.counted <= 1.01 * _FOR_FRAMES * part.whole


def _best(parts: list[_Part], *, by_names: bool) -> _Part:
    """Find the part that has the article, with the names of frames or by their tags alone."""
    most = _TITLED * parts[0].whole
    for part in parts:
        is_named = part.is_tagged or (by_names and part.is_named)
        part.is_frame = (
            part.is_unseen
            or (is_named and not (part.has_title and part.whole > most))
            or (part.parent is not None and part.parent.is_frame)
        )
        part.counted = part.prose
        if part.paragraphs < 2:
            part.counted *= _SINGLE
        if part.is_frame:
            part.counted *= _FOR_FRAMES
        part.heaviest = None
    for part in reversed(parts):
        if (around := part.parent) is not None:
            around.counted += part.counted
            if around.heaviest is None or part.counted > around.heaviest.counted:
                around.heaviest = part
    best = parts[0]
    while best.heaviest is not None and best.heaviest.counted >= _MOST_OF_IT * best.counted:
        best = best.heaviest
    for part in parts:
        # A circle of parts would keep the tree of the page until the garbage is collected.
        part.heaviest = None
    return best


def _parts_of(body: LexborNode, most_chars: int) -> _Parts:
    """Find the parts of a page; only so many characters of links and paragraphs are read."""
    found: defaultdict[int, list[LexborNode]] = defaultdict(list)
    for node in body.traverse():
        found[node.tag_id].append(node)
    parts = _Parts()
    _add_paragraphs(parts, found[_P], _linked(found[_A], most_chars), most_chars)
    broken = _add_broken(parts, found[_BR])
    for tag in _WITH_TEXT:
        for node in found[tag]:
            text = node.text(deep=False).strip()
            if (
                _DENSITY * len(text) >= _BARE_CHARS
                and (size := _size(text)) >= _BARE_CHARS
                and node.mem_id not in broken
            ):
                chars = min(size, _PROSE_MAX) * (_OF_LISTS if tag in _LISTED else 1)
                is_paragraph = tag in _HELD or not _has_blocks(node)
                parts.add(node.parent if is_paragraph else node, chars)
    for node in found[_H1][:_TITLES]:
        parts.mark_title(node)
    return parts


def _add_paragraphs(
    parts: _Parts, nodes: Iterable[LexborNode], linked: Mapping[int, int], most_chars: int
) -> None:
    left = most_chars
    for node in nodes:
        text = node.text_lexbor().strip()
        left -= len(text)
        if left < 0:
            break
        size = _size(text)
        if size >= _PROSE_CHARS:
            unlinked = 1 - linked.get(node.mem_id, 0) / len(text)
            if unlinked >= 1 - _LINKED_MAX:
                chars = min(size * unlinked, _PROSE_MAX) * unlinked
                parts.add(node.parent, chars if size >= _SHORT_CHARS else chars / 2)


def _size(text: str) -> int:
    """Count the characters of a text, in a short one those that are a word or syllable as three."""
    size = len(text)
    if size >= _SHORT_CHARS or text.isascii():
        return size
    return min(_SHORT_CHARS, size + (_DENSITY - 1) * len(_DENSE.findall(text)))


def _add_broken(parts: _Parts, breaks: Iterable[LexborNode]) -> set[int]:
    """Add elements with line breaks in their own text; returns their ids."""
    broken: set[int] = set()
    counts: Counter[int] = Counter()
    for node in breaks:
        parent = node.parent
        if parent is not None and parent.tag_id != _P:
            number = parent.mem_id
            counts[number] += 1
            if counts[number] == _BREAKS:
                broken.add(number)
                size = _size(parent.text(deep=False).strip())
                if size >= _SHORT_CHARS:
                    parts.add(parent, min(size, _BROKEN_MAX), paragraphs=2)
    return broken


def _has_blocks(node: LexborNode) -> bool:
    """Whether there are blocks directly in an element; without any it may be a paragraph."""
    return any(child.tag_id in _BLOCKS for child in node.iter())


def _linked(links: Iterable[LexborNode], most_chars: int) -> defaultdict[int, int]:
    """Count the characters of links in each paragraph."""
    found: defaultdict[int, int] = defaultdict(int)
    left = most_chars
    for link in links:
        parent = link.parent
        for _ in range(_LINK_DEPTH):
            if parent is None:
                break
            if parent.tag_id == _P:
                size = len(link.text_lexbor())
                found[parent.mem_id] += size
                left -= size
                break
            parent = parent.parent
        if left < 0:
            break
    return found


# --- its text -----------------------------------------------------------------------------------

_PARAGRAPH, _HEADING, _ITEM, _ROW = "paragraph", "heading", "item", "row"


class _Block(NamedTuple):
    """Paragraph, heading, first paragraph of a list item, or row of a table."""

    kind: str
    text: str
    markdown: str
    # Characters of links in it.
    linked: int
    # Level of a heading; number of the table of a row.
    number: int = 0
    # What each of its lines of Markdown begins with.
    prefix: str = ""


# Numbers of text and comments in lexbor.
_TEXT, _COMMENT = 2, 4
_LEVELS_OF_HEADINGS = {create_tag(f"h{level}").tag_id: level for level in range(1, 7)}
_STRONG, _EMPHASIS, _CODE = _ids("strong b"), _ids("em i"), _ids("code kbd samp tt")
(_SPAN,), (_OL,), (_QUOTE,), (_PRE,) = _ids("span"), _ids("ol"), _ids("blockquote"), _ids("pre")
(_TABLE,), (_ROW_TAG,), _CELLS = _ids("table"), _ids("tr"), _ids("td th")
_LISTS = _ids("ul ol menu")
# What may be around all of a cell's text.
_IN_CELLS = _ids("p div")
# Elements that are no part of any text.
_LEFT_OUT = _ids(
    "button select option input textarea label svg object audio video canvas hr img picture source "
    "address figcaption caption legend map"
)
# Elements that begin and end paragraphs.
_BLOCKS = _ids(
    "div section article main center form fieldset details summary nav aside header footer hgroup "
    "table tbody thead tfoot tr td th ul ol menu li dl dt dd figure blockquote p pre "
    "h1 h2 h3 h4 h5 h6"
)
# Blocks that are left out if most of their text is links, unless they are long.
_LINK_BLOCKS = _ids("div section article table dl ul ol menu")
_LINK_BLOCK_LINKED, _LINK_BLOCK_MAX = 0.5, 2000
# A paragraph of links is left out, such as "Read also: …".
_LINK_PARAGRAPH_LINKED, _LINK_PARAGRAPH_MAX = 0.8, 150
# Labels in the midst of articles.
_LABEL_MAX = 50
_LABEL = re.compile(
    r"\W*(?:(?:skip |scroll to continue with |article continues after )?advert(?:isement)?s?|"
    r"(?:story|article) continues below(?: advertisement)?|continue reading(?: below)?|read more|"
    r"sponsored(?: content)?|share this(?: article| story)?|back to (?:top|gallery)|"
    r"image \d+ of /? ?\d+|loading)\W*",
    re.IGNORECASE,
)
# Characters that lines of nested lists and quotes begin with, at most.
_PREFIX_MAX = 40
_HREF_MAX = 2000
_IN_HREF = str.maketrans(
    {" ": "%20", "(": "%28", ")": "%29", "<": "%3C", ">": "%3E", "\\": "%5C"}
    # As browsers do.
    | dict.fromkeys("\n\r\t")
)
# Of links to a heading itself, as documentation has them.
_ANCHOR_SIGN = "¶"
# A line break within a paragraph. If a page has this character itself, it breaks lines too.
_LINE_BREAK = "\x1f"
_LINK = "link"
# Emphasis is between these until it is known what is around it. If a page has them itself, they are
# left out.
_OPENED, _CLOSED = "\x02", "\x03"
_EMPHASIZED = re.compile(r"\x02(\*\*?)([^\x02\x03]*)\1\x03")
_TWO_AS_ONE = re.compile(r"(?<![*\\])(\*\*?)\x03\x02\1(?!\*)")
_AROUND = 10
_START = re.compile(r"[1-9]\d{0,8}")
_TICKS = re.compile("`+")


class _Writer:
    """The blocks of an element, in order."""

    def __init__(
        self,
        node: LexborNode,
        base: Base | None,
        frames: _Frames | None = None,
    ) -> None:
        """`base` is that of links in Markdown; None: no Markdown is wanted.

        With `frames` they are left out.
        """
        self.blocks: list[_Block] = []
        self._frames = frames
        self._base = base
        self._left = _MAX_CHARS
        # Characters of all blocks, and of the links in them.
        self._chars = self._linked = 0
        # The block that is being read: pieces of its text, the same as Markdown, and characters of
        # links in it. `_is_broken`: nothing came after a line break.
        self._pieces: list[str] = []
        self._marked: list[str] = []
        self._in_links = 0
        self._is_broken = False
        # Links and emphasis that are open.
        self._open: set[str] = set()
        # What the next line of Markdown begins with, and those after it.
        self._first = self._rest = ""
        # Number of the next item of an ordered list; 0 in others.
        self._item = 0
        self._tables = 0
        self._read(node, 0)
        self._end_block()

    def _read(self, node: LexborNode, depth: int) -> None:
        """Read what is in an element."""
        for child in node.iter(include_text=True):
            tag = child.tag_id
            if self._left < 0:
                break
            if tag == _TEXT:
                if (text := child.text_lexbor()) != _ANCHOR_SIGN:
                    self._add(text)
            elif tag == _COMMENT:
                continue
            elif depth > _DEPTH_MAX:
                self._add(child.text_lexbor())
            elif tag in _LEFT_OUT:
                self._add(" ")
            else:
                self._left -= 1
                if tag in _BLOCKS:
                    self._end_block()
                    self._read_block(child, tag, depth + 1)
                elif tag == _BR:
                    self._break_line()
                else:
                    self._read_inline(child, tag, depth + 1)

    # Within a block.

    def _add(self, text: str) -> None:
        self._left -= len(text)
        if self._left < 0:
            text = text[: self._left]
        self._pieces.append(text)
        if _LINK in self._open:
            self._in_links += len(text.strip())
        if self._is_broken and not text.isspace():
            self._is_broken = False
        if self._base is not None:
            self._marked.append(escaped(text))

    def _break_line(self) -> None:
        """Break the line; two breaks end the paragraph."""
        if self._is_broken:
            self._end_block()
        elif self._pieces:
            self._pieces.append(" ")
            self._marked.append(_LINE_BREAK)
            self._is_broken = True

    def _read_inline(self, node: LexborNode, tag: int, depth: int) -> None:
        if tag == _A:
            self._read_marked(node, _LINK, depth)
        elif tag == _SPAN and self._is_left_out(node, tag):
            return
        elif self._base is None:
            self._read(node, depth)
        elif tag in _STRONG:
            self._read_marked(node, "**", depth)
        elif tag in _EMPHASIS:
            self._read_marked(node, "*", depth)
        elif tag in _CODE:
            self._add_code(node.text_lexbor())
        else:
            self._read(node, depth)

    def _read_marked(self, node: LexborNode, mark: str, depth: int) -> None:
        """Read a link or emphasis, and put marks around it in Markdown."""
        if mark in self._open:
            self._read(node, depth)
            return
        blocks, start = len(self.blocks), len(self._marked)
        self._open.add(mark)
        self._read(node, depth)
        self._open.discard(mark)
        # Marks do not go beyond a paragraph.
        if self._base is None or len(self.blocks) > blocks:
            return
        inner = "".join(self._marked[start:])
        words = inner.strip()
        href = self._href(node) if mark == _LINK else ""
        if not words or (mark == _LINK and not href):
            return
        before = inner[: len(inner) - len(inner.lstrip())]
        after = inner[len(before) + len(words) :]
        if not href:
            marked = f"{_OPENED}{mark}{words}{mark}{_CLOSED}"
        else:
            marked = f"[{words}]({href})"
            if not before and start and self._marked[start - 1].endswith("!"):
                # It would be an image.
                self._marked[start - 1] = f"{self._marked[start - 1][:-1]}\\!"
        self._marked[start:] = [before, marked.replace(_LINE_BREAK, " "), after]

    def _href(self, node: LexborNode) -> str:
        """Return the absolute address of a link; empty for one within the page or to no page."""
        assert self._base is not None
        href = (node.attributes.get("href") or "").strip()
        if not href or href.startswith("#") or len(href) > _HREF_MAX:
            return ""
        dotted = "./" in href
        href = urljoin(self._base.folder, href) if dotted else self._base.join(href)
        self._left -= len(href)
        return href.translate(_IN_HREF) if href.startswith(("http://", "https://")) else ""

    def _add_code(self, text: str) -> None:
        start = len(self._marked)
        self._add(text)
        words = " ".join(text.split())
        if words and len(self._marked) > start:
            mark = _ticks(words, 1)
            inner = f" {words} " if "`" in words else words
            # Directly after other code the marks of both would be one.
            apart = " " if start and self._marked[start - 1].startswith("`") else ""
            self._marked[start:] = [apart, mark, inner, mark]

    # Blocks.

    def _read_block(self, node: LexborNode, tag: int, depth: int) -> None:
        if tag == _P:
            if not self._is_left_out(node, tag):
                self._read(node, depth)
                self._end_block()
        elif tag in _LEVELS_OF_HEADINGS:
            self._add(" ".join(lines_of(node).split()))
            self._end_block(_HEADING, _LEVELS_OF_HEADINGS[tag])
        elif tag == _PRE:
            self._add_listing(lines_of(node))
        elif tag == _ROW_TAG:
            self._read_row(node, depth)
        elif not self._is_left_out(node, tag):
            blocks, chars, linked = len(self.blocks), self._chars, self._linked
            self._read_container(node, tag, depth)
            if tag in _LINK_BLOCKS and self._frames is not None:
                size = self._chars - chars
                of_links = self._linked - linked
                if of_links > _LINK_BLOCK_LINKED * size and size < _LINK_BLOCK_MAX:
                    del self.blocks[blocks:]
                    self._chars, self._linked = chars, linked

    def _is_left_out(self, node: LexborNode, tag: int) -> bool:
        """Whether an element is not seen, or of the frame by its name."""
        attributes = node.attributes
        if attributes and _is_unseen(attributes):
            return True
        if self._frames is None:
            return False
        if _is_tagged(tag, attributes):
            return not self._frames.is_kept(node)
        return (
            self._frames.by_names and _is_named(tag, attributes) and not self._frames.is_kept(node)
        )

    def _read_container(self, node: LexborNode, tag: int, depth: int) -> None:
        first, rest, item, blocks = self._first, self._rest, self._item, len(self.blocks)
        if tag == _LI:
            mark = f"{item}. " if item else "- "
            if len(rest) < _PREFIX_MAX:
                self._first, self._rest = f"{rest}{mark}", rest + " " * len(mark)
        elif tag == _QUOTE and len(rest) < _PREFIX_MAX:
            self._first, self._rest = f"{first}> ", f"{rest}> "
        elif tag in _LISTS:
            self._item = self._first_number(node) if tag == _OL else 0
        elif tag == _TABLE:
            self._tables += 1
        self._read(node, depth)
        self._end_block()
        if tag == _LI and item and len(self.blocks) > blocks:
            item += 1
        self._rest, self._item = rest, item
        if tag in (_LI, _QUOTE):
            self._first = rest

    def _first_number(self, node: LexborNode) -> int:
        """Return the number of the first item of an ordered list."""
        start = node.attributes.get("start") or ""
        # Directly after the text of an item, Markdown has no list that begins with another.
        is_told = not self._rest and _START.fullmatch(start) is not None
        return int(start) if is_told else 1

    def _read_row(self, node: LexborNode, depth: int) -> None:
        """Read a row of a table, or the blocks in a row that is there for the layout."""
        cells = [cell for cell in node.iter() if cell.tag_id in _CELLS]
        contents = [*filter(None, map(_content_of, cells))]
        if len(cells) < 2 or len(contents) < len(cells):
            for cell in cells:
                self._read(cell, depth)
                self._end_block()
            return
        texts, marked = [], []
        for content in contents:
            start = len(self._pieces), len(self._marked)
            self._read(content, depth)
            # A block in there, within another element, took what was before it.
            texts.append(" ".join("".join(self._pieces[start[0] :]).split()))
            marked.append("".join(self._marked[start[1] :]).replace("|", "\\|"))
        if any(texts):
            self._pieces = [" ".join(filter(None, texts))]
            line = " | ".join(" ".join(each.replace(_LINE_BREAK, " ").split()) for each in marked)
            self._marked = [f"| {line} |"]
        self._end_block(_ROW, self._tables)

    def _add_listing(self, text: str) -> None:
        """Add lines of code, or others that are laid out with blanks."""
        self._left -= len(text)
        text = "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")
        if not text:
            return
        fence = _ticks(text, 3)
        lines = [fence, *text.split("\n"), fence] if self._base is not None else []
        self._append(_PARAGRAPH, text, lines)

    def _end_block(self, kind: str = _PARAGRAPH, number: int = 0) -> None:
        """End the block that is being read, if there is any text in it."""
        if not self._pieces:
            return
        text = " ".join("".join(self._pieces).split())
        lines: list[str] = []
        if text and self._base is not None:
            marked = _with_emphasis("".join(self._marked))
            if kind is _HEADING:
                lines = [f"{'#' * number} {escaped_end(marked)}"]
            elif kind is _ROW:
                lines = [marked]
            else:
                words = (" ".join(line.split()) for line in marked.split(_LINE_BREAK))
                lines = [escaped_start(line) for line in words if line]
                lines[:-1] = (f"{line}  " for line in lines[:-1])
        if text:
            self._append(kind, text, lines, number)
        self._pieces, self._marked = [], []
        self._in_links, self._is_broken = 0, False

    def _append(self, kind: str, text: str, lines: list[str], number: int = 0) -> None:
        if kind is _PARAGRAPH and self._first != self._rest and not self._first.endswith("> "):
            kind = _ITEM
        firsts = chain((self._first,), repeat(self._rest))
        markdown = "\n".join(first + line for first, line in zip(firsts, lines, strict=False))
        self._left -= len(lines) * len(self._rest)
        self.blocks.append(_Block(kind, text, markdown, self._in_links, number, self._rest))
        self._chars += len(text)
        self._linked += self._in_links
        self._first = self._rest


def lines_of(node: LexborNode) -> str:
    """Return the text of an element with its lines, also those that are made by elements."""
    pieces: list[str] = []
    for each in node.traverse(include_text=True):
        tag = each.tag_id
        if tag == _TEXT:
            if (text := each.text_lexbor()) != _ANCHOR_SIGN:
                pieces.append(text)
        elif tag == _BR or (tag in _BLOCKS and pieces and not pieces[-1].endswith("\n")):
            pieces.append("\n")
    return "".join(pieces)


def _content_of(cell: LexborNode) -> LexborNode | None:
    """Return a cell of a table, or the only paragraph in it; None if there are several blocks."""
    if not _has_blocks(cell):
        return cell
    first = next(cell.iter())
    is_only = first.next is None and first.prev is None and first.tag_id in _IN_CELLS
    return first if is_only and not _has_blocks(first) else None


def _with_emphasis(marked: str) -> str:
    """Write emphasis where Markdown has it: not between a letter and the mark of a sentence."""
    if _OPENED not in marked:
        return marked
    marked = _TWO_AS_ONE.sub("", marked)
    # Strong emphasis may be in another one, or the other way round.
    for _ in range(2):
        marked = _EMPHASIZED.sub(_emphasized, marked)
    return marked.replace(_OPENED, "").replace(_CLOSED, "")


def _emphasized(found: re.Match[str]) -> str:
    mark, words = found.groups()
    start, end = found.span()
    # A few characters, for there may be a megabyte: the last one before all marks, and the next.
    before = found.string[max(0, start - _AROUND) : start]
    inner = words.strip("*")
    if before.endswith(_CLOSED) or not inner:
        return words
    before = before.rstrip(f"*{_OPENED}")[-1:]
    after = found.string[end : end + _AROUND].lstrip(f"*{_CLOSED}")[:1]
    is_begun = before == "" or not _is_mark(inner[0]) or before.isspace() or _is_mark(before)
    is_ended = after == "" or not _is_mark(inner[-1]) or after.isspace() or _is_mark(after)
    return f"{mark}{words}{mark}" if is_begun and is_ended else words


def _is_mark(char: str) -> bool:
    return category(char)[0] in "PS"


def _ticks(text: str, least: int) -> str:
    """Return the mark around code: more backticks than there are in a row in it."""
    return "`" * max(least, 1 + max(map(len, _TICKS.findall(text)), default=0))


class MainText(NamedTuple):
    """Main text of a page: its paragraphs, and all of it as Markdown if that was wanted."""

    paragraphs: list[str]
    markdown: str


def main_text_of(tree: LexborHTMLParser, page_chars: int, base: Base | None = None) -> MainText:
    """Find the main text of a page without scripts and the like, and with so many characters.

    With `base`, the base of its links, there is Markdown.
    """
    body = tree.body
    if body is None:
        return MainText([], "")
    parts = _parts_of(body, _TEXTS * page_chars + _FREE_CHARS)
    article = parts.article()
    blocks: list[_Block] = []
    if article is not None:
        blocks = _kept(_Writer(article.node, base, parts.frames_in(article)).blocks)
    size = _size_of(blocks)
    if size < min(_LITTLE_CHARS, _LITTLE * page_chars):
        # There is hardly any prose: the text is in lists, tables or code.
        frames = parts.frames_of_page(body)
        others = _kept(_Writer(body, None, frames).blocks)
        if size < _LITTLE_BESIDE * _size_of(others):
            blocks = _kept(_Writer(body, base, frames).blocks) if base is not None else others
    return _made(blocks, base)


def _size_of(blocks: Iterable[_Block]) -> int:
    return sum(len(block.text) for block in blocks)


def whole_text_of(tree: LexborHTMLParser, base: Base | None = None) -> MainText:
    """Return all text of a page without a frame, such as a chapter of a book, in the same form."""
    body = tree.body
    return MainText([], "") if body is None else _made(_Writer(body, base).blocks, base)


def _made(blocks: list[_Block], base: Base | None) -> MainText:
    return MainText([block.text for block in blocks], _joined(blocks) if base is not None else "")


def _kept(blocks: list[_Block]) -> list[_Block]:
    """Leave out headings without text, the first title, and paragraphs of links."""
    kept: list[_Block] = []
    # Level of the heading after this block, if one comes directly after it; 1 at the end.
    next_level = 1
    for block in reversed(blocks):
        if block.kind is _HEADING:
            if not next_level or block.number < next_level:
                kept.append(block)
                next_level = block.number
        elif block.kind is not _PARAGRAPH or not _is_label(block):
            kept.append(block)
            next_level = 0
    while kept and kept[-1].kind is _HEADING and kept[-1].number == 1:
        del kept[-1]
    return kept[::-1]


def _is_label(block: _Block) -> bool:
    """Whether a paragraph is a link to another page, or says that something else follows."""
    size = len(block.text)
    if size < _LABEL_MAX and _LABEL.fullmatch(block.text):
        return True
    return block.linked > _LINK_PARAGRAPH_LINKED * size and size < _LINK_PARAGRAPH_MAX


def _joined(blocks: Sequence[_Block]) -> str:
    """Join blocks, with an empty line between any but items of a list and rows of a table."""
    found: list[str] = []
    last = _Block("", "", "", 0)
    columns: Counter[int] = Counter()
    for row in blocks:
        if row.kind is _ROW:
            columns[row.number] = max(columns[row.number], _columns_of(row))
    for block in blocks:
        is_row = block.kind is _ROW
        if last.kind is block.kind and (
            block.kind is _ITEM or (is_row and last.number == block.number)
        ):
            found.append("\n")
        elif found:
            # Within a quote the line is not quite empty.
            outer, inner = sorted((last.prefix, block.prefix), key=len)
            found.append(f"\n{outer.rstrip() if inner.startswith(outer) else ''}\n")
        found.append(block.markdown)
        if is_row and (last.kind is not _ROW or last.number != block.number):
            # What is beyond the columns of the first row would not be shown.
            found.append(" |" * (columns[block.number] - _columns_of(block)))
            found.append(f"\n{block.prefix}|{' --- |' * columns[block.number]}")
        last = block
    return "".join(found)


def _columns_of(row: _Block) -> int:
    return row.markdown.replace("\\|", "").count("|") - 1
