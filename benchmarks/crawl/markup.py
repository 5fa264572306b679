"""Pages with the markup of real sites: menus, cards, figures, icons, scripts and styles. Pure.

A `Shape` says how much of what a page has. The markup is put together from a few kinds of elements
until it has the links, the text and the tags of its shape. Scripts and styles fill the rest, so the
size is exact. The same number makes the same page everywhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle

from demo.chance import draws
from demo.words import ANCHORS, PARAGRAPH_BYTES, PARAGRAPH_COUNT, VOCABULARY, phrase

_KB = 1024
# Pages of 91 news sites and blogs, by size: means of the 79 that are no larger than 250 KB. Made by
# `python -m benchmarks.crawl.shape DIR`; elements are 10 deep on average, the deepest 18.
_REAL_KB = (48.8, 71.2, 110.8, 156.9, 214.4)
_REAL = {
    "tags": (409, 648, 759, 938, 1053),
    "links": (71, 132, 163, 209, 182),
    "distinct_links": (51, 80, 118, 150, 126),
    "text_kb": (5.7, 7.5, 9.2, 10.2, 11.4),
    "script_kb": (11.4, 16.9, 31.6, 37.1, 66.0),
    "style_kb": (0.9, 3.2, 6.3, 12.5, 18.7),
    "scripts": (25, 35, 36, 48, 53),
    # Not measured, but chosen so that all attributes together have the bytes of the real ones.
    "attribute_bytes": (150, 102, 175, 175, 255),
}
# How large pages of the web are: the share that is smaller, and KB. Median 110, mean 140, none
# above 250.
_SIZES = ((0.0, 40), (0.1, 60), (0.25, 80), (0.5, 110), (0.75, 215), (0.875, 250), (1.0, 250))
# Steps of this size meet every size in its share, however many pages there are.
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True, slots=True)
class Shape:
    """How much of what a page has. `links` counts every one, `distinct_links` their targets."""

    page_bytes: int
    tags: int
    links: int
    distinct_links: int
    text_bytes: int
    scripts: int
    # Of the bytes that scripts and styles have together.
    style_share: float
    # Of the elements of lists: their classes, one more attribute, and the spaces before them.
    class_bytes: int
    attribute_bytes: int
    indentation: int


USUAL = Shape(
    page_bytes=26 * _KB,
    tags=340,
    links=60,
    distinct_links=60,
    text_bytes=4200,
    scripts=8,
    style_share=0.3,
    class_bytes=20,
    attribute_bytes=0,
    indentation=4,
)


def web_shape(number: int) -> Shape:
    """Return the shape of a page of the web as it is."""
    share = (number + 1) * _GOLDEN % 1.0
    size_kb = _between(share, [at for at, _ in _SIZES], [size for _, size in _SIZES])
    real = {name: _between(size_kb, _REAL_KB, values) for name, values in _REAL.items()}
    return Shape(
        page_bytes=round(size_kb * _KB),
        tags=round(real["tags"]),
        links=round(real["links"]),
        distinct_links=round(real["distinct_links"]),
        text_bytes=round(real["text_kb"] * _KB),
        scripts=round(real["scripts"]),
        style_share=real["style_kb"] / (real["style_kb"] + real["script_kb"]),
        class_bytes=45,
        attribute_bytes=round(real["attribute_bytes"]),
        indentation=16,
    )


def _between(at: float, places: Sequence[float], values: Sequence[float]) -> float:
    """Return the value at a place, on straight lines between those that are known."""
    after = min(max(bisect_right(places, at), 1), len(places) - 1)
    (left, right), (low, high) = places[after - 1 : after + 1], values[after - 1 : after + 1]
    return low + (high - low) * min(max((at - left) / (right - left), 0.0), 1.0)


# --- text of scripts, styles and attributes -------------------------------------------------------

_PIECES = 4096
# Words that names are made of: few, so that pages shrink as much as real ones do.
_NAMES = 200


def _filler(name: str, pieces: Sequence[str]) -> bytes:
    """Return about 300 KB made of these pieces; `%s` are words, `%d` numbers."""
    values = cycle(draws(f"filler:{name}", 16 * _PIECES))
    found = []
    for _ in range(_PIECES):
        piece = pieces[next(values) % len(pieces)]
        while "%" in piece:
            value = next(values)
            word = VOCABULARY[value % _NAMES]
            at = piece.index("%")
            piece = (
                piece[:at] + (word if piece[at + 1] == "s" else str(value % 1000)) + piece[at + 2 :]
            )
        found.append(piece)
    return "".join(found).encode()


_SCRIPT = _filler(
    "script",
    (
        'window.%s=window.%s||[];window.%s.push({"id":%d,"slot":"/%d/%s/%s","size":[%d,250]});\n',
        '{"@type":"ListItem","position":%d,"name":"%s %s","url":"https://%s.test/%s/%s-%d.html"},',
        "function %s(e,t){var n=e.%s(t);return n&&n.%s>%d?n.%s:null}",
        '!function(e,t){e.%s=e.%s||{},t.forEach(function(t){e.%s[t]="%s-%d"})}(window,["%s","%s"]);',
        '"%s":{"enabled":true,"variant":"%s","weight":0.%d,"audience":["%s","%s"]},\n',
    ),
)
_STYLE = _filler(
    "style",
    (
        ".%s-%s{display:flex;margin:0 0 %dpx;padding:%dpx 1.5rem;font-size:1.%dem}",
        ".%s .%s>li{float:left;color:#%d;background:url(/img/%s-%d.png) no-repeat}\n",
        "@media (max-width:%dpx){.%s__%s{width:auto;border-top:1px solid rgba(0,0,0,.%d)}}",
        "#%s-%s a:hover{text-decoration:none;transition:opacity .%ds ease-in-out}\n",
    ),
)
_VALUES = _filler(
    "values",
    (
        "{&quot;id&quot;:%d,&quot;%s&quot;:&quot;%s-%s&quot;,&quot;position&quot;:%d}",
        "https://cdn.%s.test/media/%s/%s-%d.jpg?w=%d&amp;h=%d&amp;fit=crop ",
        "%s|%s|%d;margin-top:%dpx;%s:%s ",
    ),
)
_CLASSES = _filler("classes", ("%s-item %s__link--%s col-md-%d ", "js-%s %s-%s is-%s "))
_ANCHORS = [text.encode() for text in ANCHORS]


def _slice(text: bytes, at: int, length: int) -> bytes:
    at %= len(text) - length
    return text[at : at + length]


# --- elements -------------------------------------------------------------------------------------

_HEAD = (
    b'<!DOCTYPE html>\n<html lang="en" class="no-js">\n<head>\n<meta charset="utf-8">\n'
    b"<title>%b</title>\n"
    b'<meta name="description" content="%b">\n'
    b'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
)
_META = (
    b'<meta property="og:%b" content="%b">\n',
    b'<link rel="preload" as="font" type="font/woff2" href="/assets/%b-%b.woff2" crossorigin>\n',
    b'<meta name="%b" content="%b">\n',
    b'<link rel="stylesheet" id="%b-css" href="/assets/%b.css" media="all">\n',
)
_TOP = (
    b'</head>\n<body class="home page-template"><div id="app"><div class="site">'
    b'<header class="site-header"><div class="container">'
    b'<nav class="navbar" role="navigation"><ul class="menu">\n'
)
_ITEM = b'%b<li class="%b"%b><a href="%b">%b</a></li>\n'
_LABELLED = b'%b<li class="%b"%b><a href="%b"><span class="label">%b</span></a></li>\n'
_SUBMENU = b'<li class="has-children"><span>%b</span><ul class="sub-menu">\n'
_MAIN = (
    b'</ul></nav></div></header>\n<div class="container"><div class="row">'
    b'<main id="content" class="col-8"><div class="inner"><article class="post">'
    b'<header><h1 class="entry-title">%b</h1>'
    b'<div class="meta"><time datetime="2026-11-18">18 November</time></div></header>'
    b'<div class="entry-content">\n'
)
_PARAGRAPH = b'%b<p>%b <a%b href="%b">%b</a> <strong>%b</strong> %b</p>\n'
_FIGURE = (
    b'<figure class="wp-caption"><img src="/img/%b-%b.jpg" alt="%b" width="640" height="360"'
    b' loading="lazy"><figcaption>%b</figcaption></figure>\n'
)
_ASIDE = (
    b'</div></article></div></main>\n<aside class="col-4"><div class="widget"><h2>%b</h2>'
    b'<ul class="cards">\n'
)
_CARD = (
    b'%b<li class="%b"%b><div class="card-body">%b<div class="card-title"><a href="%b">%b</a></div>'
    b"</div></li>\n"
)
_HEADED_CARD = (
    b'%b<li class="%b"%b><div>%b<h3><a href="%b">%b</a></h3><span class="date">new</span></div>'
    b"</li>\n"
)
_PICTURE = b'<a class="thumb" href="%b"%b></a>'
_LAZY_PICTURE = b'<a href="%b"><img class="lazy"%b alt=""></a>'
_ICON = (
    b'%b<div class="%b"%b><div><span class="icon"><svg class="svg" viewBox="0 0 24 24">'
    b'<path d="M12 2C6.5 2 2 6.5 2 12s4.5 10 10 10"></path></svg></span></div></div>\n'
)
_FORM = (
    b'%b<div class="%b"%b><div><label class="field"><input type="text" name="q">'
    b'<button type="submit">Go</button></label></div></div>\n'
)
_ADVERT = (
    b'%b<section class="%b"%b><!-- slot --><div class="ad"><div><div><div class="slot"><div><div>'
    b"<i></i></div></div></div></div></div></div></section>\n"
)
_WIDGETS = (_ICON, _FORM, _ADVERT)
_FOOTER = (
    b'</div></aside></div></div>\n<footer class="site-footer"><div class="container">'
    b'<ul class="links">\n'
)
_FOOTER_END = b'</ul><p class="copyright">\xc2\xa9 2026 %b</p></div></footer>\n'
_END = b"</div></div></body></html>\n"
_SUBMENU_ITEMS = 6
# Shares of the targets.
_IN_MENUS, _IN_CARDS = 0.47, 0.38
_STYLES = 2


def framed(targets: int) -> int:
    """Return how many of a page's targets are those of its host's menu and footer."""
    return round(targets * _IN_MENUS)


def page(number: int, host: int, shape: Shape, hrefs: Sequence[str]) -> bytes:
    """Return the HTML of a page that links to `hrefs`, as many as its shape has targets.

    Those of the menu and the footer are the first of them, in turns: smaller pages have the begin
    of what larger pages of the host have.
    """
    made = _Page(f"markup:{number}", shape)
    title, about = phrase(f"title:{number}", 6).encode(), phrase(f"about:{number}", 16).encode()
    menu, widget, bottom = (_Page(f"{part}:{host}", shape) for part in ("menu", "aside", "footer"))
    targets = [href.encode() for href in hrefs]
    menus, cards = framed(len(targets)), round(len(targets) * _IN_CARDS)
    in_menu, in_footer = targets[1:menus:2], targets[:menus:2]
    in_cards, in_text = targets[menus : menus + cards], targets[menus + cards :]
    # Cards link to their target twice, and footers repeat menus.
    again = shape.links - len(targets)
    in_footer += targets[: max(again - cards, 0)]
    top = _TOP + menu.menu(in_menu)
    footer_end = _FOOTER_END % bottom.word()
    footer = _FOOTER + bottom.items(in_footer) + footer_end
    aside = _ASIDE % widget.anchor() + made.cards(in_cards, again)
    head = made.head(title, about)
    words = len(made.text_of(top + aside + footer))
    main = _MAIN % title + made.article(in_text, shape.text_bytes - words)
    body = top + main + aside
    tags = _tags(head) + _tags(body) + _tags(footer) + shape.scripts + _STYLES
    body += b"</ul>" + made.widgets(shape.tags - tags)
    return made.filled(head, body + footer)


def _tags(html: bytes) -> int:
    return html.count(b"<") - html.count(b"</") - html.count(b"<!")


class _Page:
    """Page in the making, or a part of it: the words and values that depend on its name."""

    def __init__(self, name: str, shape: Shape) -> None:
        self._shape = shape
        self._values = cycle(draws(name, 2048))

    def word(self) -> bytes:
        return VOCABULARY[next(self._values) % len(VOCABULARY)].encode()

    def anchor(self) -> bytes:
        return _ANCHORS[next(self._values) % len(_ANCHORS)]

    def _start(self) -> tuple[bytes, bytes, bytes]:
        """Return what elements of lists begin with: indentation, classes and an attribute."""
        at, shape = next(self._values), self._shape
        classes = _slice(_CLASSES, at, shape.class_bytes)
        return b" " * (at % (2 * shape.indentation + 1)), classes, self._attribute(b"data-track")

    def _attribute(self, name: bytes) -> bytes:
        length = self._shape.attribute_bytes
        if not length:
            return b""
        return b' %b="%b"' % (name, _slice(_VALUES, next(self._values), length))

    def head(self, title: bytes, about: bytes) -> bytes:
        parts = [_HEAD % (title, about)]
        parts += [
            _META[count % len(_META)] % (self.word(), self.anchor().replace(b" ", b"-"))
            for count in range(self._shape.tags * 7 // 100)
        ]
        return b"".join(parts)

    def items(self, hrefs: Sequence[bytes]) -> bytes:
        return b"".join(
            (_ITEM if count % 3 else _LABELLED) % (*self._start(), href, self.anchor())
            for count, href in enumerate(hrefs)
        )

    def menu(self, hrefs: Sequence[bytes]) -> bytes:
        parts = []
        for begin in range(0, len(hrefs), _SUBMENU_ITEMS):
            parts.append(_SUBMENU % self.word())
            parts.append(self.items(hrefs[begin : begin + _SUBMENU_ITEMS]))
            parts.append(b"</ul></li>\n")
        return b"".join(parts)

    def cards(self, hrefs: Sequence[bytes], with_picture: int) -> bytes:
        """Return cards, so many of which link to their target twice."""
        parts = []
        for count, href in enumerate(hrefs):
            picture = b""
            if count < with_picture:
                kind, name = ((_PICTURE, b"style"), (_LAZY_PICTURE, b"srcset"))[count % 2]
                picture = kind % (href, self._attribute(name))
            card = _CARD if count % 4 else _HEADED_CARD
            parts.append(card % (*self._start(), picture, href, self.anchor()))
        return b"".join(parts)

    def article(self, hrefs: Sequence[bytes], text_bytes: int) -> bytes:
        """Return paragraphs with this text, each with one of the links."""
        each = max(text_bytes // max(len(hrefs), 1) - 30, 0)
        parts = []
        for count, href in enumerate(hrefs):
            text = b" ".join(
                PARAGRAPH_BYTES[next(self._values) % PARAGRAPH_COUNT]
                for _ in range(each // len(PARAGRAPH_BYTES[0]) + 1)
            )[:each]
            middle = text.find(b" ", each // 2)
            indentation, _, attribute = self._start()
            link = (attribute, href, self.anchor(), self.word())
            parts.append(_PARAGRAPH % (indentation, text[:middle], *link, text[middle + 1 :]))
            if count % 3 == 1:
                parts.append(_FIGURE % (self.word(), self.word(), self.word(), self.anchor()))
        return b"".join(parts)

    def widgets(self, tags: int) -> bytes:
        """Return about so many tags without links."""
        parts: list[bytes] = []
        while tags > 0:
            parts.append(_WIDGETS[len(parts) % len(_WIDGETS)] % self._start())
            tags -= _tags(parts[-1])
        return b"".join(parts)

    def filled(self, head: bytes, body: bytes) -> bytes:
        """Return the page with scripts and styles in the bytes that are left."""
        scripts = self._shape.scripts
        inline = (scripts + 1) // 2
        fixed = len(b"<style></style>\n") * _STYLES + len(b"<script></script>\n") * inline
        sources = [
            b'<script async src="/assets/%b-%b.js"></script>\n' % (self.word(), self.word())
            for _ in range(scripts - inline)
        ]
        used = len(head) + len(body) + len(_END) + fixed + sum(map(len, sources))
        rest = max(self._shape.page_bytes - used, 0)
        style = int(rest * self._shape.style_share) // _STYLES
        styles = [
            b"<style>%b</style>\n" % _slice(_STYLE, next(self._values), style)
            for _ in range(_STYLES)
        ]
        rest -= style * _STYLES
        # Few scripts are large, most are small.
        lengths = [rest // 2**place for place in range(2, inline + 1)]
        lengths.insert(0, rest - sum(lengths))
        inlined = [
            b"<script>%b</script>\n" % _slice(_SCRIPT, next(self._values), length)
            for length in lengths
        ]
        half = len(inlined) // 2
        return b"".join((head, *styles, *inlined[:half], *sources, body, *inlined[half:], _END))

    @staticmethod
    def text_of(html: bytes) -> bytes:
        """Return what is between the tags."""
        return b"".join(part.rpartition(b">")[2].strip() for part in html.split(b"<"))
