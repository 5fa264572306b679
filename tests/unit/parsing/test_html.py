"""What a page says of itself, and where it points to, however it is written."""

from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.parsing.document import Document, Link
from crawler.parsing.html import HtmlReader

URL = "http://h.test/dir/page?q"


def document(html: str, max_links: int = 100) -> Document:
    return HtmlReader(max_links=max_links).read(html, URL)


def links(html: str, max_links: int = 100) -> list[str]:
    return document(html, max_links).links


def test_links_are_canonical_once_each_and_in_page_order() -> None:
    html = """<a href="/b">1</a> <a href="a#x">2</a> <a href="/dir/a">3</a>
        <a href="http://H.TEST:80/b">4</a> <map><area href="//other.test"></map>"""
    assert links(html) == ["http://h.test/b", "http://h.test/dir/a", "http://other.test/"]


@pytest.mark.parametrize(
    "href",
    ["", "#top", "javascript:void(0)", "mailto:a@h.test", "tel:1", "data:,x", "http://[::", "//"],
)
def test_what_leads_to_no_page_is_no_link(href: str) -> None:
    assert links(f'<a href="{href}">x</a>') == []


def test_an_anchor_without_href_is_no_link() -> None:
    assert links("<a name='x'>x</a><a href>y</a>") == []


@pytest.mark.parametrize("rel", ["nofollow", "NoFollow", "noopener nofollow", "nofollow,ugc"])
def test_a_nofollow_link_is_not_followed(rel: str) -> None:
    assert links(f'<a rel="{rel}" href="/a">x</a><a rel="noopener" href="/b">y</a>') == [
        "http://h.test/b"
    ]


def test_a_link_that_is_also_given_without_nofollow_is_followed() -> None:
    assert links('<a rel="nofollow" href="/a">x</a><a href="/a">y</a>') == ["http://h.test/a"]


@pytest.mark.parametrize(
    ("base", "found"),
    [
        ("http://other.test", ["http://other.test/x", "http://other.test/y"]),
        ("http://other.test/sub/page", ["http://other.test/sub/x", "http://other.test/y"]),
        ("sub/", ["http://h.test/dir/sub/x", "http://h.test/y"]),
        ("/", ["http://h.test/x", "http://h.test/y"]),
        ("//other.test", ["http://other.test/x", "http://other.test/y"]),
        ("mailto:a@h.test", ["http://h.test/dir/x", "http://h.test/y"]),
        ("javascript:1", ["http://h.test/dir/x", "http://h.test/y"]),
        ("", ["http://h.test/dir/x", "http://h.test/y"]),
        ("http://[::", ["http://h.test/dir/x", "http://h.test/y"]),
    ],
)
def test_a_base_moves_relative_links(base: str, found: list[str]) -> None:
    assert links(f'<base href="{base}"><a href="x">x</a><a href="/y">y</a>') == found


def test_the_first_base_with_an_address_counts() -> None:
    html = '<base target="_top"><base href="/one/"><base href="/two/"><a href="x">x</a>'
    assert links(html) == ["http://h.test/one/x"]


@pytest.mark.parametrize(
    ("content", "noindex", "nofollow"),
    [
        ("noindex", True, False),
        ("nofollow", False, True),
        ("NOINDEX, NoFollow", True, True),
        ("none", True, True),
        ("index, follow", False, False),
        ("all", False, False),
        ("max-image-preview:none", False, False),
        ("noindex,nofollow", True, True),
        ("", False, False),
    ],
)
def test_meta_robots_is_obeyed(content: str, noindex: bool, nofollow: bool) -> None:
    found = document(f'<meta name="ROBOTS" content="{content}"><a href="/a">x</a>')
    assert (found.noindex, found.nofollow) == (noindex, nofollow)
    assert found.links == ([] if nofollow else ["http://h.test/a"])


def test_several_meta_robots_add_up() -> None:
    found = document('<meta name=robots content=noindex><meta name=robots content="nofollow">')
    assert found.noindex
    assert found.nofollow


def test_a_page_says_who_it_is() -> None:
    found = document(
        """<!doctype html><html lang="de-AT"><head><title> A &amp; B </title><title>C</title>
        <meta name="Description" content=" what it is ">
        <link rel="stylesheet" href="/x"><link rel="CANONICAL" href="/one?utm_source=a">
        <style>p {}</style></head><body><p>Some<br>text</p><script>no()</script>
        <noscript>none</noscript><template>later</template>  and  <b>more</b></body></html>"""
    )
    assert found.title == "A & B"
    assert found.description == "what it is"
    assert found.language == "de-AT"
    assert found.canonical == "http://h.test/one"
    assert found.text == "Some text and more"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("0;url=/a", ["http://h.test/a"]),
        ("5; URL='/a'", ["http://h.test/a"]),
        ('0, url="/a;b"', ["http://h.test/a;b"]),
        ("1.5 /a", ["http://h.test/a"]),
        ("; url = a", ["http://h.test/dir/a"]),
        ("5", []),
        ("", []),
        ("0;url=javascript:x", []),
    ],
)
def test_a_refresh_is_a_link(content: str, found: list[str]) -> None:
    assert links(f"<meta http-equiv=Refresh content='{escape(content)}'>") == found


def test_frames_areas_and_neighbouring_pages_are_links() -> None:
    html = """<link rel=next href=n><link rel="prev" href=p><link rel=stylesheet href=s>
        <link rel=icon href=i><iframe src=f></iframe><map><area href=m></map><a href=a>x</a>
        <img src=x><video src=v></video>"""
    assert links(html) == [f"http://h.test/dir/{name}" for name in "npamf"]


def test_other_languages_and_feeds_are_named_and_links() -> None:
    found = document(
        """<link rel=alternate hreflang=de href=/de><link rel=alternate hreflang=x-default href=/>
        <link rel="alternate" type="application/rss+xml" href=/rss>
        <link rel="alternate" type="application/json+oembed" href=/embed>
        <link rel="alternate stylesheet" href=/css>"""
    )
    assert found.languages == {"de": "http://h.test/de", "x-default": "http://h.test/"}
    assert found.feeds == ["http://h.test/rss"]
    assert found.links == ["http://h.test/de", "http://h.test/", "http://h.test/rss"]


def test_media_are_links_if_wanted() -> None:
    html = """<img src=1.png srcset="2.png 2x, 3.png 100w,
        4.png"><picture><source srcset="5.webp"></picture><video src=6.mp4></video><img>"""
    found = HtmlReader(max_links=9, media=True).read(html, URL).links
    names = [link.rpartition("/")[2] for link in found]
    assert names == ["1.png", "2.png", "3.png", "4.png", "5.webp", "6.mp4"]


def test_the_text_of_more_elements_is_left_out_if_wanted_but_not_their_links() -> None:
    html = "<nav>Menu <a href=/a>A</a></nav><p>Text</p><footer>End <a href=/b>B</a></footer>"
    assert document(html).text == "Menu A Text End B"
    found = HtmlReader(max_links=9, unread=["nav", "footer"]).read(html, URL)
    assert found.text == "Text"
    assert found.links == ["http://h.test/a", "http://h.test/b"]


def test_anchors_have_rel_and_text_if_wanted() -> None:
    html = (
        "<a href=/a rel=author> By <b>A</b></a><a href=/a>again</a><a href=/b></a>"
        "<a href=/c><img></a><a href=/c rel=next>C</a><a href=/b> </a>"
    )
    found = HtmlReader(max_links=9, anchors=True).read(html, URL)
    assert found.anchors == [
        Link("http://h.test/a", "author", "By A"),
        Link("http://h.test/b", "", ""),
        Link("http://h.test/c", "next", "C"),
    ]
    assert document(html).anchors == []


def test_nofollow_is_obeyed_or_not() -> None:
    html = "<meta name=robots content=nofollow><a href=/a rel=nofollow>x</a>"
    found = HtmlReader(max_links=9, obey_nofollow=False).read(html, URL)
    assert (found.links, found.nofollow) == (["http://h.test/a"], True)


def test_a_page_may_speak_to_this_crawler_alone() -> None:
    html = "<meta name=Crawler content=noindex><meta name=otherbot content=nofollow>"
    found = HtmlReader(max_links=9, crawler_name="crawler").read(html, URL)
    assert (found.noindex, found.nofollow) == (True, False)


def test_a_tag_without_a_name_speaks_to_nobody() -> None:
    html = "<meta content=none>"
    found = HtmlReader(max_links=9, crawler_name="").read(html, URL)
    assert (found.noindex, found.nofollow) == (False, False)


def test_a_drawing_has_no_say_in_the_title() -> None:
    assert document("<body><svg><title>Icon</title></svg>").title == ""
    assert document("<div>x</div><title>Late\n title</title>").title == "Late title"


@pytest.mark.parametrize("href", ["", "mailto:x", "http://[::"])
def test_a_senseless_canonical_link_is_none(href: str) -> None:
    assert document(f'<link rel="canonical" href="{href}">').canonical == ""


@pytest.mark.parametrize("max_links", [0, 1, 3, 5])
def test_no_more_links_than_asked_for(max_links: int) -> None:
    html = "".join(f'<a href="/{number}">x</a>' for number in range(4))
    assert links(html, max_links) == [f"http://h.test/{n}" for n in range(4)][:max_links]


@pytest.mark.parametrize(
    "html",
    [
        "",
        "no tags at all",
        "<",
        "<a",
        "<a href",
        "<a href='",
        "</html></body>",
        "<a href=/a><a href=/b>",
        "<table><a href=/a><tr><a href=/b>",
        "<frameset><frame src=/x></frameset>",
        "<!-- <a href=/a> ",
        "<svg><a href=/x></svg>",
        "\0<a href='/a\0b'>x</a>",
        "<title>",
        "<script><a href=/a>",
    ],
)
def test_malformed_pages_are_read(html: str) -> None:
    assert isinstance(document(html), Document)


@given(st.text())
def test_any_text_is_a_page(html: str) -> None:
    assert isinstance(document("<a href='x'>" + html), Document)


@pytest.mark.parametrize("tag", ["<div>", "<span></x>"])
def test_a_page_nested_without_end_is_read(tag: str) -> None:
    # Without a bound it takes hours.
    found = document("<a href='/first'>x</a>" + tag * 400_000 + "<a href='/last'>x</a>")
    assert found.links == ["http://h.test/first", "http://h.test/last"]


def test_a_large_page_is_read_whole() -> None:
    html = "<div><p>x</p>y<br><li>z</div>" * 50_000 + "<a href='/last'>x</a>"
    assert links(html) == ["http://h.test/last"]


def test_what_is_stored_with_a_page_is_bounded() -> None:
    links = "".join(
        f'<link rel="alternate" hreflang="l{number}" href="/l{number}">'
        f'<link rel="alternate" type="application/rss+xml" href="/f{number}">'
        for number in range(1000)
    )
    long = "é" * 100_000
    html = (
        f'<html lang="{long}"><title>{long}</title><meta name="description" content="{long}">'
        f'<link rel="alternate" hreflang="{long}" href="/l">{links}'
    )
    found = document(html, 10_000)
    kept = [found.title, found.description, found.language, *found.languages]
    assert max(map(len, kept)) <= 10_000
    assert len(found.feeds) == 100
    assert len(found.languages) == 500
    # They are links all the same.
    assert len(found.links) == 2001


@pytest.mark.parametrize("href", ["?b={}&a=1", "{}?b|", " #{}", "{:0500}"])
def test_links_behind_a_long_base_are_read_up_to_a_number_of_characters(href: str) -> None:
    base = f'<base href="http://h.test/{"é;" * 200}{"x" * 200}/p?{"a&" * 100}">'
    anchors = "".join(f'<a href="{href.format(number)}">' for number in range(100_000))
    found = document(base + anchors, 6000)
    assert len(found.links) < 1000
