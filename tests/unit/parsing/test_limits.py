"""Pages made to be slow: time and memory grow with their size and no faster."""

from collections.abc import Callable
from time import process_time

import pytest
from selectolax.lexbor import LexborHTMLParser

from crawler.parsing.limits import bounded
from crawler.parsing.reader import HtmlReader

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


@pytest.mark.parametrize("kind", ["text", "nested elements", "unclosed formatting"])
def test_the_largest_page_is_read(kind: str) -> None:
    assert spent_s(SLOW[kind](10_000 * KB)) < 300 * max(spent_s(SLOW[kind](100 * KB)), 0.1)


@pytest.mark.parametrize("letter", ["x", "é", "字"])
def test_links_before_the_cut_count(letter: str) -> None:
    html = f"<a href=/first>{letter}</a>" + "<div>" * 100_000 + "<a href=/last>x</a>"
    assert READER.read(html, "http://h.test/").links == ["http://h.test/first"]


@pytest.mark.parametrize(
    "html",
    [
        "<div><p>x</p></div>" * 50_000,
        "<p>one<p>two<br>" * 50_000,
        "<ul>" + "<li>x" * 50_000 + "</ul>",
        "<table>" + "<tr><td>a<td>b" * 50_000 + "</table>",
        "<div>" * 200 + "<b>x</b><i class=icon></i>" * 20_000,
        "<svg><path d='M0 0'/></svg><input><b>x</b>" * 5_000,
        "<pre>" + "some text without tags " * 20_000 + "</pre>",
        "<B>x</b>" * 20_000,
        "<select>" + "<option>a city</option>" * 4_000 + "</select><a href=/x>x</a>",
    ],
)
def test_large_pages_of_good_will_are_read_whole(html: str) -> None:
    assert bounded(html) == html


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
    tree = LexborHTMLParser(bounded(make(600 * KB)))
    assert tree.root is not None
    numbers = [len(node.attributes) for node in tree.root.traverse()]
    assert max(numbers) <= 1500
    # Without bounds it is 500 million for the least of them.
    assert sum(number**2 for number in numbers) < 60_000_000


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
