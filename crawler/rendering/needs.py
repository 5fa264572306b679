"""Decide which pages a browser renders, by what they have without it and by their hosts. Pure.

A page looks empty if it has scripts and hardly any text, no links, an application's root without
content, or a note for visitors without JavaScript. Rendering it is a trial: the page gained from it
if it has 30% more text, or new links. What the trials of a host gained decides about its pages:

    untried   pages that look empty are rendered
    needs     all pages are rendered, without a look
    mixed     pages that look empty are rendered
    plain     none is

Where pages are not rendered, a few that have scripts are samples, to find out whether the host has
changed: of those that look empty one in ten, until ten trials were in vain, of others one in fifty.
Which ones depends on their URLs alone. A sample is rendered if a browser is free: no page waits for
it, nor does it hold up the pages of its host.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice
from typing import NamedTuple
from urllib.parse import urljoin

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

from crawler.parsing.encoding import as_utf8
from crawler.parsing.limits import bounded

# With events each option of a list is searched for the selected one, again and again.
_WITHOUT_EVENTS = LexborDocumentOptions.WO_EVENTS.value
# Characters of text below which a page with scripts looks empty.
_LITTLE_TEXT = 500
# Elements in which frameworks put what they show.
_ROOTS = (
    "#root, #app, #__next, #__nuxt, #___gatsby, #q-app, #svelte, #main-app, app-root, [ng-app], "
    "[ng-version], [data-reactroot], [data-server-rendered], [data-v-app]"
)
_UNREAD = ["script", "style", "noscript", "template"]
_KEPT = frozenset({"a", "div", *_UNREAD})
# Of so many of these the text is read: they may be in each other.
_ROOTS_MAX = 10
# What a note for visitors without scripts names, in whatever language.
_NOTE = "javascript"
# The rendered page has this share more text than the document.
_GAIN = 0.3
# Less is the blink of a cursor.
_GAIN_CHARS = 50
# Trials after which a host is known, and the share of gains from which it needs a browser, or may.
_TRIALS = 3
_NEEDED, _MIXED = 0.5, 0.1
# Without any gain fewer are enough.
_TRIALS_IN_VAIN = 2
# The second is a multiple of the first, see `may_want_rendering`.
_EMPTY_SAMPLE, _OTHER_SAMPLE = 10, 50
# Trials without any gain after which pages that look empty are sampled like others.
_TRIALS_ENOUGH = 10
# Links that lead to no page.
_NO_PAGE = re.compile(r"(?:javascript|mailto|tel|data|blob):", re.IGNORECASE)


class Content(NamedTuple):
    """What visitors get of a page."""

    text_chars: int
    links: frozenset[str]
    # It has scripts, and shows little without them, or says so.
    looks_empty: bool
    has_scripts: bool


def content_of(body: bytes, content_type: str = "", url: str = "") -> Content:
    """Look at the HTML of a page."""
    html = bounded(as_utf8(body, content_type, url)[0], _KEPT)
    tree = LexborHTMLParser(html, options=_WITHOUT_EVENTS)
    has_scripts = tree.css_first("script") is not None
    links = frozenset(
        href
        for node in tree.css("a[href]")
        if (href := (node.attributes.get("href") or "").strip().partition("#")[0])
        and not _NO_PAGE.match(href)
    )
    has_note = has_scripts and any(_NOTE in node.text().lower() for node in tree.css("noscript"))
    tree.strip_tags(_UNREAD)
    text_chars = _chars(tree.body.text(separator=" ")) if tree.body is not None else 0
    looks_empty = has_scripts and (
        text_chars < _LITTLE_TEXT
        or not links
        or has_note
        or any(_chars(node.text()) < _LITTLE_TEXT for node in islice(tree.css(_ROOTS), _ROOTS_MAX))
    )
    return Content(text_chars, links, looks_empty, has_scripts)


def _chars(text: str) -> int:
    return len("".join(text.split()))


def has_gained(before: Content, after: Content, url: str = "") -> bool:
    """Tell whether the page at `url` shows more when it is rendered."""
    more = after.text_chars - before.text_chars
    if more > _GAIN_CHARS and more >= _GAIN * before.text_chars:
        return True
    added = after.links - before.links
    # A script may write the same links in another way.
    return bool(added) and not _resolved(added, url) <= _resolved(before.links, url)


def _resolved(links: frozenset[str], url: str) -> set[str]:
    found = {url.partition("#")[0]}
    for link in links:
        # What is no URL cannot be followed.
        with suppress(ValueError):
            found.add(urljoin(url, link))
    return found


class Standing(Enum):
    """What is known of a host."""

    UNTRIED = auto()
    NEEDS = auto()
    MIXED = auto()
    PLAIN = auto()


@dataclass(frozen=True, slots=True)
class Trials:
    """Pages of a host that were rendered, and those of them that gained from it."""

    trials: int = 0
    gains: int = 0

    @property
    def standing(self) -> Standing:
        """What follows from them."""
        if self.trials < (_TRIALS if self.gains else _TRIALS_IN_VAIN):
            return Standing.UNTRIED
        share = self.gains / self.trials
        if share >= _NEEDED:
            return Standing.NEEDS
        return Standing.MIXED if share >= _MIXED else Standing.PLAIN


class Wish(Enum):
    """How much a page is to be rendered."""

    NONE = auto()
    # If a browser is free.
    SAMPLE = auto()
    NEEDED = auto()


def may_want_rendering(known: Trials, fingerprint: int) -> bool:
    """Tell whether a page has to be looked at: of plain hosts only those that may be samples."""
    return known.standing is not Standing.PLAIN or fingerprint % _EMPTY_SAMPLE == 0


def wish_of(known: Trials, page: Content, fingerprint: int) -> Wish:
    """Decide about a page of a host that is not known to need a browser."""
    if not page.has_scripts:
        return Wish.NONE
    is_plain = known.standing is Standing.PLAIN
    if page.looks_empty and not is_plain:
        return Wish.NEEDED
    is_known = is_plain and not known.gains and known.trials >= _TRIALS_ENOUGH
    one_in = _EMPTY_SAMPLE if page.looks_empty and not is_known else _OTHER_SAMPLE
    return Wish.SAMPLE if fingerprint % one_in == 0 else Wish.NONE
