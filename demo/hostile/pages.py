"""Pages that parsers choke on, each made of a part that is repeated or of noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice, product
from random import Random
from string import ascii_lowercase
from typing import Final

from crawler.parsing.limits import list_of
from demo.hostile.behaviour import STORED, Behaviour
from demo.hostile.talk import Talk, head, page

Make = Callable[[int], bytes]
_HTML: Final = "text/html; charset=utf-8"


def _page(
    name: str,
    does: str,
    make: Make,
    *,
    kind: str = _HTML,
    outcome: str = STORED,
    share: float = 0.95,
) -> Behaviour:
    """Return a host whose page has this share of the bytes that a response may have."""

    async def answer(talk: Talk) -> None:
        body = make(int(share * talk.size))[: talk.size]
        await talk.send(head(length=len(body), kind=kind) + body)

    return Behaviour(name, does, outcome, answer)


def _of(part: bytes, before: bytes = b"", after: bytes = b"") -> Make:
    """Repeat a part as often as there is room for it."""
    return lambda size: before + part * (max(0, size - len(before + after)) // len(part)) + after


def _numbered(part: str, before: bytes = b"", most: int = 10_000_000) -> Make:
    """Repeat a part with numbers in it."""

    def make(size: int) -> bytes:
        number = min(most, size // len(part % 1_000_000))
        return before + "".join(part % at for at in range(number)).encode()

    return make


def _noise(size: int) -> bytes:
    return Random(5).randbytes(size)


def _surrogates(size: int) -> bytes:
    """Return halves of pairs in UTF-16: each is an error of its own."""
    return b"\xff\xfe" + b"\x00\xd8" * (size // 2)


def _dates(size: int) -> bytes:
    links = (
        f'<a href="/news/{1900 + at % 200}/{1 + at // 200 % 12:02}/{at}/">{at}</a>\n'
        for at in range(size // 40)
    )
    return "".join(links).encode()


def _months(size: int) -> bytes:
    links = (
        f'<a href="/a{at // 2400}/{1900 + at % 200}/{1 + at // 200 % 12:02}">m</a>\n'
        for at in range(size // 30)
    )
    return "".join(links).encode()


@cache
def _colliding_names(number: int) -> tuple[str, ...]:
    """Return names that the parser keeps in the same one of its lists."""

    def names() -> Iterator[str]:
        for length in (4, 5):
            yield from map("".join, product(ascii_lowercase, repeat=length))

    return tuple(islice((name for name in names() if list_of(name.encode()) == 0), number))


def _colliding(size: int) -> bytes:
    # Few tags, so that nothing else is suspicious, and few attributes for each.
    names = _colliding_names(size // 7)
    tags = (" ".join(names[at : at + 100]) for at in range(0, len(names), 100))
    return b"".join(b"<p %b>" % tag.encode() for tag in tags)


def _escaped(size: int) -> bytes:
    return b'<a href="/' + b"%41" * (size // 3) + b'">x</a>'


def _json_levels(size: int) -> bytes:
    return b"[" * (size // 2) + b"]" * (size // 2)


_LAUGHS: Final = (
    "<?xml version='1.0'?><!DOCTYPE x [<!ENTITY e0 'laugh'>"
    + "".join(f"<!ENTITY e{at} '{f'&e{at - 1};' * 10}'>" for at in range(1, 10))
    + "]>"
)
LAUGHS: Final = _LAUGHS.encode()
_FEED: Final = LAUGHS + b"<rss version='2.0'><channel><title>&e9;</title></channel></rss>"
_OUTSIDE: Final = (
    b"<?xml version='1.0'?><!DOCTYPE rss [<!ENTITY e SYSTEM 'file:///etc/passwd'>]>"
    b"<rss version='2.0'><channel><title>&e;</title></channel></rss>"
)
# Below the bytes from which on all names of a page are looked at.
_FEW: Final = 0.045
_LIGHT: Final = 0.038

PAGES: Final = (
    _page("utf-16-garbage", "sends noise as UTF-16", lambda size: b"\xff\xfe" + _noise(size)),
    _page("utf-16-halves", "sends halves of characters in UTF-16", _surrogates),
    _page("utf-8-garbage", "sends noise as UTF-8", _noise),
    _page("gb18030-garbage", "sends noise as GB 18030", _noise, kind="text/html; charset=gb18030"),
    _page(
        "iso-2022-garbage",
        "sends noise as ISO-2022-JP",
        _noise,
        kind="text/html; charset=iso-2022-jp",
    ),
    _page("no-charset", "sends noise and does not say what it is", _noise, kind="text/html"),
    _page(
        "codec-as-charset",
        "names a codec that is no charset, and asks to be unpacked",
        lambda _: page("a page whose charset is no charset"),
        kind="text/html; charset=zlib",
    ),
    _page("zero-bytes", "sends only zero bytes", bytes),
    _page("nested-links", "opens a link in a link in a link", _of(b"<a href=/x>x")),
    _page(
        "100,000-links".replace(",", ""),
        "has 100,000 links",
        _numbered('<a href="/%d">x</a>\n', most=100_000),
    ),
    _page(
        "links-to-many-hosts",
        "has a link to another host, again and again",
        _numbered('<a href="//h%d.example.com/">x</a>\n'),
    ),
    _page(
        "foreign-names",
        "has links to names in other alphabets",
        _numbered('<a href="//bücher%d.例え.example/">x</a>\n'),
    ),
    _page("links-of-dates", "has links that end with dates and numbers", _dates),
    _page("links-of-months", "has links of months, by the ten thousand", _months),
    _page(
        "links-of-parameters",
        "has links with many parameters",
        _numbered('<a href="?%d&' + "&".join(f"p{at}=v" for at in range(100)) + '">x</a>'),
    ),
    _page(
        "links-of-dots",
        "has links that go up and down 30,000 folders",
        _of(b'<a href="/' + b"a/../" * 6_000 + b'x">x</a>'),
    ),
    _page("link-of-megabytes", "has a link as long as the page", _escaped),
    _page(
        "link-of-blanks",
        "has a link of line breaks and blanks",
        _of(b" \n", b'<a href="', b'x">x</a>'),
    ),
    _page(
        "srcset-of-commas", "lists sources without addresses", _of(b", ", b'<img srcset="', b'">')
    ),
    _page(
        "refresh-of-blanks",
        "refreshes after a megabyte of blanks",
        _of(b" ", b'<meta http-equiv=refresh content="0', b'">'),
    ),
    _page(
        "many-refreshes",
        "refreshes to itself, again and again",
        _of(b'<meta http-equiv=refresh content="0;url=/">'),
    ),
    _page(
        "many-metas", "has nothing but meta elements", _numbered('<meta name="n%d" content="c">')
    ),
    _page("many-authors", "has nothing but links to authors", _of(b"<a rel=author href=/x></a>")),
    _page(
        "endless-json-ld",
        "opens authors in JSON-LD and does not close them",
        _of(b'"author":[{"author":{', b'<script type="application/ld+json">'),
    ),
    _page("deep-elements", "opens elements and never closes one", _of(b"<div>")),
    _page(
        "deep-fonts", "opens fonts, which are repeated in what follows", _numbered("<p><b x=%d>")
    ),
    _page("deep-tables", "opens tables in tables", _of(b"<table><tr><td>")),
    _page("deep-lists", "opens lists in lists", _of(b"<ul><li>")),
    _page("deep-headings", "opens headings in headings", _of(b"<h1><h2>x")),
    _page("deep-drawings", "opens drawings and formulas in each other", _of(b"<svg><math><title>")),
    _page("wrong-ends", "closes what was not opened", _of(b"</p></b></a>")),
    _page("crossed-ends", "closes formatting in the wrong order", _of(b"<b><i></b></i>x")),
    _page("many-attributes", "has an element of a million attributes", _numbered("a%d=b ", b"<p ")),
    _page("many-options", "has a list of options", _of(b"<option>x", b"<select>")),
    _page("many-templates", "opens templates in templates", _of(b"<template>")),
    _page("many-comments", "has comments that end in odd ways", _of(b"<!--x--!>y")),
    _page("open-comment", "opens a comment again and again", _of(b"<!--")),
    _page("open-quotes", "opens values and never closes them", _of(b"<a href=\"'>")),
    _page("open-scripts", "opens scripts in comments in scripts", _of(b"<script><!--<script>")),
    _page("less-signs", "consists of less-than signs", _of(b"<")),
    _page("ampersands", "consists of references to characters", _of(b"&#x110000;&amp&lt")),
    _page("many-names", "names each of its elements differently", _numbered("<x%d>")),
    _page(
        "colliding-names",
        "names attributes so that a parser searches one long list",
        _colliding,
        share=_FEW,
    ),
    _page("colliding-names-light", "does so on a page of 400 KB", _colliding, share=_LIGHT),
    _page("one-word", "is one word", _of(b"x", b"<p>")),
    _page("many-words", "has a short paragraph after the other", _numbered("<p>%d")),
    _page("title-of-megabytes", "has a title as long as the page", _of(b"x ", b"<title>")),
    _page("language-of-megabytes", "has a language as long as the page", _of(b"x", b"<html lang=")),
    _page("many-bases", "moves its base again and again", _numbered("<base href=/%d/>")),
    _page(
        "many-canonicals",
        "names another canonical page again and again",
        _numbered("<link rel=canonical href=/%d>"),
    ),
    _page(
        "billion-laughs",
        "is a feed of entities in entities",
        lambda _: _FEED,
        kind="application/rss+xml",
    ),
    _page(
        "outside-entity",
        "is a feed with a file of the reader in it",
        lambda _: _OUTSIDE,
        kind="application/rss+xml",
    ),
    _page(
        "deep-xml",
        "is a feed of elements in elements",
        _of(b"<item>", b"<rss version='2.0'>"),
        kind="application/rss+xml",
    ),
    _page(
        "deep-json", "is JSON of a million lists in lists", _json_levels, kind="application/json"
    ),
    _page(
        "markdown-of-brackets", "is Markdown of open brackets", _of(b"[![("), kind="text/markdown"
    ),
    _page("text-of-lines", "is plain text of empty lines", _of(b"\n"), kind="text/plain"),
    _page(
        "type-of-kilobytes",
        "has a type of 60 KB",
        lambda _: page("long type"),
        kind="text/html;" + " " * 60_000,
    ),
)
