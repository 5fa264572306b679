"""Pages made to be slow: time and memory grow with their size and no faster."""

import re
from collections.abc import Callable
from itertools import count, islice
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from crawler.parsing import html as html_module
from crawler.parsing import limits
from crawler.parsing.document import Document
from crawler.parsing.html import BOILERPLATE, HtmlReader, texts_of
from crawler.parsing.limits import bounded
from crawler.parsing.reader import is_light

READER = HtmlReader(max_links=6000)
KB = 1000


def repeated(text: str) -> Callable[[int], str]:
    return lambda size: text * (size // len(text))


def numbered(text: str) -> Callable[[int], str]:
    return lambda size: "".join(text.format(n) for n in range(size // len(text) + 1))


SLOW: dict[str, Callable[[int], str]] = {
    "nested elements": repeated("<div>"),
    "never closed": repeated("<span></x>"),
    "deep, then flat": lambda size: "<div>" * 3000 + "<p>x</p>" * (size // 8),
    "unclosed formatting": numbered("<p><b x={}>t"),
    "lists in lists": repeated("<dd><li>"),
    "drawings": lambda size: "<svg>" + "<option>" * (size // 16) + "</x>" * (size // 16),
    "attributes": lambda size: "<a " + numbered("a{0}=1 ")(size) + ">",
    "tags of attributes": repeated("<a " + "".join(f"a{n}=1 " for n in range(2500)) + ">"),
    "tables": repeated("<table><tr><td>"),
    "comments": repeated("<!--"),
    "entities": repeated("&amp;"),
    "links": numbered("<a href=/{}>x</a>"),
    "one link": repeated("<a href=/a>"),
    "text": repeated("word "),
    "blanks": repeated(" \n\t"),
    "brackets": repeated("<"),
    "names without an end": repeated("<a"),
    "comments without an end": repeated("<!--<script"),
    "links in links": lambda size: "<svg>" + "<a>t" * (size // 4),
    "text in links in links": lambda size: "<a><object>" * 290 + "t" * size,
    "options": lambda size: "<select>" + "<option value=1>t</option>" * (size // 26),
    "options in capitals": lambda size: "<SELECT>" + "<OPTION>t" * (size // 9),
    "zeros": repeated("\0"),
    "values with ends of tags": lambda size: "<a " + numbered('a{}=">" ')(size) + ">",
    "one address": lambda size: f"<a href='http://{'é' * size}'>",
    "srcset": lambda size: f"<img srcset='{', ' * size}'>",
    "spans, then end tags": lambda size: "<span>" * 4000 + "</x>" * (size // 4),
    "elements over cells": repeated("<div><table><td></div></table>"),
    "formatting over cells": numbered("<p><b x={}><table><td></b></table>t"),
    "paragraphs in spans": repeated("<span><p></span></p>"),
    "the page's own tags": lambda size: "".join(
        "<body " + "".join(f"a{n}_{m} " for m in range(50)) + ">" for n in range(size // 400)
    ),
    "names of attributes": numbered("<p a{}>x</p>"),
    "names in an end tag": lambda size: "</p " + numbered("a{} ")(size) + ">",
    "names of tags": numbered("<x{0}>x</x{0}>"),
    "names of end tags": numbered("</x{}>"),
    "ends that may be values": repeated('x=">" '),
    "values that are not closed": repeated("<a x='>"),
    "long tags": numbered('<a href="{:0500}">'),
    "boilerplate": repeated("<nav>"),
    "boilerplate in boilerplate": lambda size: "<nav>" * (size // 11) + "</nav>" * (size // 11),
    "refresh": lambda size: f"<meta http-equiv=refresh content='{' ' * size}'>",
}


def spent_s(html: str) -> float:
    started = process_time()
    READER.read(html, "http://h.test/")
    return process_time() - started


@pytest.mark.parametrize("make", SLOW.values(), ids=SLOW)
def test_a_page_ten_times_as_large_takes_about_ten_times_as_long(
    make: Callable[[int], str],
) -> None:
    # With squares it would be a hundred times. The floor is for the bounds' own budgets.
    assert spent_s(make(500 * KB)) < 30 * max(spent_s(make(50 * KB)), 0.1)


@pytest.mark.parametrize(
    "kind", ["text", "nested elements", "unclosed formatting", "names of end tags"]
)
def test_the_largest_page_is_read(kind: str) -> None:
    assert spent_s(SLOW[kind](10_000 * KB)) < 300 * max(spent_s(SLOW[kind](100 * KB)), 0.1)


@pytest.mark.parametrize(
    "html",
    [
        "<a>" + "<b><i><u><s>" * 3 + "<div>" * 2500 + "</b></i></u></s>" * 900,
        "<A>" + "<B><STRONG>" * 6 + "<div>" * 2500 + "</B x></STRONG>" * 1800,
    ],
)
def test_ends_of_formatting_do_not_search_all_open_elements(html: str) -> None:
    # The first took 1.2 s.
    assert bounded(html.encode()).count(b"<div>") == 0


def test_formatting_that_is_closed_as_usual_stays_as_it_is() -> None:
    html = b"<div><p><b>x</b> and <i class=icon></i></p></div>" * 30 + b"<div><p>x</p></div>" * 600
    assert bounded(html) == html


def test_ends_of_tags_that_may_be_values_are_not_tried_for_ever() -> None:
    html = b"<a " + b'=">' * 600_000
    started = process_time()
    bounded(html)
    # It was 2 s; now 0.05.
    assert process_time() - started < 0.6


def colliding(number: int) -> list[str]:
    """Make names that are all in the same list of a parser's names."""
    names = (f"a{n:x}" for n in count())
    return list(islice((name for name in names if limits.list_of(name.encode()) == 0), number))


@pytest.mark.parametrize("form", ["<p {}>", "<{}>", "</{}>", "</p {}>"])
def test_names_in_the_same_list_are_not_searched_again_and_again(form: str) -> None:
    names = colliding(4000)
    html = "".join(map(form.format, [*names, *names[:1] * 120_000])).encode()
    places = limits._tags(html)[0]
    # It would be 496 million visits.
    assert 4000 < limits._with_few_names(html, places, 4000).count(b"<") < 40_000


def test_names_that_are_used_many_times_stay() -> None:
    page = b"".join(
        b'<p class="x y%d" data-n%d="%d">it\'s text</p>' % (n, n, n) for n in range(300)
    )
    html = page * 200
    assert limits._with_few_names(html, limits._tags(html)[0], 4000) == html


# Tags between which a parser goes on with the same text, after storing a value.
COPYING = [
    *"</z/b=ccc> </body><!--b--> <tr/b=ccc> <head/b=ccc> <Frame/b=ccc> <frameset/b=ccc>".split(),
    *"<form/b=ccc> </img/b=ccc> </script/b=ccc> </body><?b?>".split(),
]


def text_of(html: bytes) -> str:
    body = LexborHTMLParser(html).body
    return "" if body is None else body.text()


def longest_text(html: bytes) -> int:
    root = LexborHTMLParser(html).root
    assert root is not None
    texts = (node for node in root.traverse(include_text=True) if node.is_text_node)
    return max(len(node.text_lexbor()) for node in texts)


@pytest.mark.parametrize("before", ["<p>", "<p>x" * 13_000 + "<p>"], ids=["as it is", "flat"])
@pytest.mark.parametrize("tag", COPYING)
def test_text_is_not_copied_again_and_again(before: str, tag: str) -> None:
    html = (before + ("a" * 100 + tag) * 4000).encode()
    assert longest_text(html) >= 399_900
    found = bounded(html)
    assert longest_text(found) == 100
    assert text_of(found).count("a") == 400_000


@pytest.mark.parametrize(
    "before", ["<table>", "<TABLE>", "<template><tr>"], ids=["table", "capitals", "template"]
)
def test_text_before_a_table_is_not_copied_again_and_again(before: str) -> None:
    html = (before + ("a" * 100 + "<style b=ccc></style>") * 3000).encode()
    found = bounded(html, {"template"})
    assert text_of(found).count("a") == 300_000 or before == "<template><tr>"
    # The content of a template is not seen by `longest_text`.
    assert b"<tr>" not in found
    assert longest_text(found.replace(b"<template>", b"")) == 100


def test_a_large_page_with_tables_and_comments_stays_as_it_is() -> None:
    row = b"<tr><td>some text<td class=x>more text<!-- a comment --></tr>"
    html = b"<!doctype html><table>" + row * 1200 + b"</table>" + b"</em >text" * 100
    assert bounded(html) == html


def test_titles_of_drawings_are_not_that_of_a_page_that_is_read_flat() -> None:
    html = "<svg><title>a</title></svg><SVG id=x><g><title>b</title></g><title>c</title></SVG>"
    html += "<title>The page's</title><p>text</p>"
    assert READER.read(html + "<p>x</p>" * 13_000, "http://h.test/").title == "The page's"


def test_frames_behind_comments_are_found_in_a_page_that_is_read_flat() -> None:
    html = "<!doctype html><!-- saved --><html><head><title>x</title></head><frameset>"
    html += "<frame src=/a><!-- b --><frame src=/b></frameset><noframes>" + "<p>x" * 13_000
    assert READER.read(html, "http://h.test/").links == ["http://h.test/a", "http://h.test/b"]


@pytest.mark.parametrize("letter", ["x", "é", "字"])
def test_links_behind_nested_elements_are_found(letter: str) -> None:
    html = f"<a href=/first>{letter}</a>" + "<div>" * 100_000 + "<a href=/last>x</a>"
    found = READER.read(html, "http://h.test/")
    assert found.links == ["http://h.test/first", "http://h.test/last"]
    assert found.text == f"{letter} x"


# Small pages of which a parser without limits makes more than 100 MB.
WIDE_FORMATTING = "".join(f"<b {''.join(f'a{n}_{m} ' for m in range(100))}>" for n in range(9))
REPEATING: dict[str, str] = {
    "formatting": "".join(f"<p><b x={n}>t" for n in range(3000)),
    "formatting over cells": "".join(f"<p><i x={n}><table><td></i></table>t" for n in range(3000)),
    "wide formatting": f"<div>{WIDE_FORMATTING}</div>" + "<p>x" * 3000,
    "a wide link": f"<div><a {''.join(f'a{n} ' for n in range(4000))}></div>" + "<p>x" * 3000,
    "a wide link with a tag in a value": f"<div><a x='<b>' {''.join(f'a{n} ' for n in range(4000))}"
    "></div>" + "<p>x" * 3000,
}


@pytest.mark.parametrize("html", REPEATING.values(), ids=REPEATING)
def test_small_pages_do_not_become_large_trees(html: str) -> None:
    tree = LexborHTMLParser(bounded(html.encode()))
    assert tree.root is not None
    assert sum(1 + len(node.attributes) for node in tree.root.traverse()) < 500_000


def test_the_attributes_of_all_tags_of_the_page_itself_are_few() -> None:
    html = "".join(f"<body {''.join(f'a{n}_{m} ' for m in range(50))}>" for n in range(1000))
    body = LexborHTMLParser(bounded(html.encode())).body
    assert body is not None
    assert len(body.attributes) <= 50 * 8


# The first are read as they are. The others have so many tags that they are read flat.
LARGE = [
    "<pre>" + "some text without tags " * 20_000 + "</pre>",
    "<div>" * 200 + "<b>x</b><i class=icon></i>" * 20_000,
    "<div><p>x</p></div>" * 50_000,
    "<p>one<p>two<br>" * 50_000,
    "<ul>" + "<li>x" * 50_000 + "</ul>",
    "<table>" + "<tr><td>a<td>b" * 50_000 + "</table>",
    "<svg><path d='M0 0'/><title/></svg><input><b>x</b>" * 5_000,
    "<B>x</b>" * 20_000,
    "<select>" + "<option>a city</option>" * 4_000 + "</select><a href=/x>x</a>",
    "<ol>" + "<li><a href=/a>a</a> or <a href=/b title='>'>b</a>: text</li>\n" * 5_000 + "</ol>",
    "<!-- <b>no</b -->yes <i>text</i>" * 10_000,
    "<nav><a href=/n>menu</a></nav>"
    + "<script>a = '<b>' + '</b>'</script><p class='x y'>own text</p><my-tag>z</my-tag>" * 8_000
    + "<footer>end</footer>",
]


def unguarded(html: str) -> Document:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html_module, "bounded", lambda page, names: page)
        return READER.read(html, "http://h.test/")


@pytest.mark.parametrize("html", LARGE, ids=range(len(LARGE)))
def test_large_pages_of_good_will_are_read_whole(html: str) -> None:
    assert READER.read(html, "http://h.test/") == unguarded(html)


PIECES = st.sampled_from(
    [
        *"<div> </div> <p> </p> <b> </b> <li> <td> <table> </table> <br> <nav> </nav>".split(),
        *"<footer> </footer> <script>x</script> <path/> <my-tag> </my-tag>".split(),
        *"text more &amp; é".split(),
        "<a href=/1>",
        "<a href='/2' title='a>b'>",
        "</a>",
        '<span class="x y" id=z>',
        "</span>",
        "<!-- a <i> b -->",
        "<!-- </p -->",
        "<p title='<b>'>",
        "\n",
    ]
)


@given(st.lists(PIECES, max_size=60))
def test_what_is_read_flat_has_the_same_words_and_links(pieces: list[str]) -> None:
    html = "".join(f"{piece} " for piece in pieces).encode()
    flat = LexborHTMLParser(limits._flat(html, frozenset(BOILERPLATE), len(pieces)))
    usual = LexborHTMLParser(html)
    assert sorted(texts_of(flat).split()) == sorted(texts_of(usual).split())
    links = [{node.attributes.get("href") for node in tree.css("a")} for tree in (flat, usual)]
    assert links[0] == links[1]


ATTRIBUTE = re.compile(
    r"""[\s/]*[^\s/>][^\s/>=]*(?:\s*=\s*(?:"[^"]*"?|'[^']*'?|[^\s>"'][^\s>]*)?)?"""
)


def end_of_tag(html: str, start: int) -> int:
    """Where a tag ends that begins here, by the HTML standard."""
    name = re.compile(r"</?[a-z][^\s/>]*").match(html, start)
    assert name is not None
    at = name.end()
    while (attribute := ATTRIBUTE.match(html, at)) is not None:
        at = attribute.end()
    end = html.find(">", at)
    return len(html) if end < 0 else end


@given(st.text(st.sampled_from('<>>/==\'""ab \n'), min_size=1, max_size=80), st.integers(0, 80))
def test_no_tag_goes_past_a_sure_end(html: str, place: int) -> None:
    page = html.encode()
    last = limits._last_end(page, 0, place)
    tries = iter(range(1000))
    for end in (last, limits._next_end(page, 0, place, tries)):
        if 0 <= end < len(page):
            starts = [match.start() for match in re.finditer("</?[a-z]", html[:end])]
            assert all(end_of_tag(html, start) <= end for start in starts)
            later = limits._next_end(page, end, end + 1, tries)
            starts += [match.start() for match in re.finditer("</?[a-z]", html[:later])]
            assert all(end_of_tag(html, start) <= later for start in starts)


def test_links_behind_a_list_of_too_many_options_are_found() -> None:
    html = "<Select name=x>" + "<option>a city" * 50_000 + "</SELECT><a href=/x>x</a>"
    assert READER.read(html, "http://h.test/").links == ["http://h.test/x"]


def test_pictures_inside_a_page_do_not_count() -> None:
    html = f'<img src="data:image/png;base64,{"Ab/9" * 100_000}"><a href=/x>x</a>'
    assert READER.read(html, "http://h.test/").links == ["http://h.test/x"]


# Ways to write more attributes than a parser should compare.
WIDE: dict[str, Callable[[int], str]] = {
    "plain": lambda size: "<a " + numbered("a{} ")(size) + ">",
    "odd name": lambda size: "<a;'( " + numbered("a{} ")(size) + ">",
    "slashes": lambda size: "<a" + numbered("/a{}=1")(size) + ">",
    "ends in values": lambda size: "<a " + numbered('a{}=">" ')(size) + ">",
    "ends in other values": lambda size: "<a " + numbered("a{0}='>' ")(size) + ">",
    "tags in values": lambda size: "<a " + numbered('a{}="<p>" ')(size) + ">",
    "one end in a value": lambda size: '<a x=">" ' + numbered("a{} ")(size) + ">",
    "a quote in a name": lambda size: '<a b"c ' + numbered('a{}=">" ')(size) + ">",
    "a quote in a value": lambda size: '<a b=c"d ' + numbered('a{}=">" ')(size) + ">",
    "a value that begins in the text": lambda size: 'x="<b a=' + numbered('">=" a{}=')(size) + ">",
    "values in values": lambda size: "<a " + numbered("a{0}='> x=\"' b{0}=\">' c\" ")(size) + ">",
    "in a drawing": lambda size: "<svg><script><a " + numbered('a{}=">" ')(size) + ">",
    "in a list": lambda size: "<select><style><a " + numbered('a{}=">" ')(size) + ">",
    "many": repeated("<a " + "".join(f"a{n} " for n in range(1400)) + ">"),
    "many with ends in values": repeated("<a " + "".join(f'a{n}=">" ' for n in range(900)) + ">"),
}


@pytest.mark.parametrize("make", WIDE.values(), ids=WIDE)
def test_attributes_are_compared_in_bounded_numbers(make: Callable[[int], str]) -> None:
    tree = LexborHTMLParser(bounded(make(600 * KB).encode()))
    assert tree.root is not None
    numbers = [len(node.attributes) for node in tree.root.traverse()]
    assert max(numbers) <= 1500
    # Without bounds it is 500 million for the least of them.
    assert sum(number**2 for number in numbers) < 240_000_000


@pytest.mark.parametrize(
    "before",
    [
        "<script>" + "if (i<n) { a = 'b c' } " * 10_000 + "</script>",
        "<script>var a = '<b ' + [" + '"one two", ' * 10_000 + "]</script>",
        "<div data-a='[" + '"one two", ' * 10_000 + "]' id=1></div>",
        '<div data-a="' + "if (a > b) { c } " * 10_000 + '" id=1></div>',
        "<img srcset='" + "/a 1x, " * 10_000 + "'>",
        "<p>" + "more text than anybody reads " * 10_000 + "</p>",
        "<script>x=\"a>b'; y='</script>" + "<p>text</p>" * 5_000,
        '<script>if (a="<b x=\'") c</script>' + "<p title='it'>a='1'</p>" * 5_000,
        '<p>a="</p>' + "<p class=x>it's >\"</p>" * 5_000,
    ],
)
def test_links_behind_long_values_and_scripts_are_found(before: str) -> None:
    document = READER.read(f"<body>{before}<a href=/x>behind</a>", "http://h.test/")
    assert document.links == ["http://h.test/x"]
    assert document.text.endswith("behind")


def test_an_end_of_a_tag_in_a_value_stays_what_it_was() -> None:
    html = '<a href="/?a=1>2" title=">">x</a>' + "<p>long</p>" * 5_000
    assert READER.read(html, "http://h.test/").links == ["http://h.test/?a=1%3E2"]


def test_a_less_than_sign_in_a_script_does_not_hide_a_page_that_is_read_flat() -> None:
    item = b'<li><a href="/x"><i class="icon"></i><span>word</span></a></li>'
    html = b"<script>for(i=0;i<e.length)t(e[i])</script>" + 400 * item
    flat = LexborHTMLParser(limits._flat(html, frozenset(), 10_000))
    assert len(flat.tags("a")) == 400


def test_a_slash_in_a_value_does_not_end_an_element_that_is_read_flat() -> None:
    html = b"<title data-x='/>'>name</title><svg><style/></svg><p>text</p>"
    flat = LexborHTMLParser(limits._flat(html, frozenset(), 10_000))
    assert [each.text() for each in flat.css("title")] == ["name"]
    assert flat.body is not None
    assert flat.body.text().strip() == "text"


def nested_formatting(size: int) -> str:
    return "<a>" + "<b><i><u><s>" * 3 + "<div>" * 1000 + "</b></i></u></s>" * min(size // 16, 590)


LIGHT: dict[str, Callable[[int], str]] = {
    **SLOW,
    **WIDE,
    **{name: lambda _, html=html: html for name, html in REPEATING.items()},
    **{tag: repeated("a" * 100 + tag) for tag in COPYING},
    "comments in a table": lambda size: "<table>" + repeated("a" * 100 + "<!--b-->")(size),
    "nested formatting": nested_formatting,
    "ends in values of nothing": lambda size: "<a " + repeated('=">')(size),
    "wide tags": repeated("<a " + " ".join(f"{n:x}" for n in range(1000, 1900)) + ">"),
}


@pytest.mark.parametrize("make", LIGHT.values(), ids=LIGHT)
def test_light_pages_are_read_at_once(make: Callable[[int], str]) -> None:
    pages = [make(size * KB) for size in (9, 30, 100, 200, 300, 395)]
    light = [page for page in pages if is_light(page.encode())]
    # 160 ms at most. The limit holds on a busy machine, so this notices only what grows a lot.
    # Not in here: names that collide (ADR 34).
    assert not light or spent_s(light[-1]) < 0.5
