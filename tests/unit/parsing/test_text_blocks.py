"""The text that a page is compared by: its own, without the frame around it."""

import pytest

from crawler.parsing.html import HtmlReader
from crawler.parsing.reader import DocumentReader

ARTICLE = "<main><h1>Bears in winter</h1><p>All bears sleep when it snows.</p></main>"
OWN = ["Bears in winter", "All bears sleep when it snows."]


def blocks(html: str) -> list[str] | None:
    reader = DocumentReader(HtmlReader(max_links=100), max_links=100)
    return reader.read(html.encode(), "http://h.test/", content_type="text/html").blocks


def links(*labels: str) -> str:
    return "".join(f'<li><a href="/{label}">{label}</a></li>\n' for label in labels)


@pytest.mark.parametrize("tag", ["nav", "header", "footer", "aside"])
def test_elements_of_the_frame_are_left_out(tag: str) -> None:
    assert blocks(f"<{tag}><p>Daily News, since 1990</p></{tag}>{ARTICLE}") == OWN


def test_the_stored_text_has_the_frame_too() -> None:
    reader = DocumentReader(HtmlReader(max_links=100), max_links=100)
    page = f"<header>Daily News</header>{ARTICLE}<ul>{links('One', 'Two', 'Three')}</ul>"
    document = reader.read(page.encode(), "http://h.test/", content_type="text/html")
    assert document.text == (
        "Daily News Bears in winter All bears sleep when it snows. One Two Three"
    )
    assert len(document.links) == 3


def test_lists_of_links_are_left_out_wherever_they_are() -> None:
    menu = f"<div><ul>{links('World', 'Sports', 'Weather and more')}</ul></div>"
    assert blocks(f"{menu}{ARTICLE}{menu}") == OWN


def test_a_list_may_have_a_word_between_two_links() -> None:
    row = '<p>More: <a href="/1">One</a> | <a href="/2">Two</a> and <a href="/3">Three</a></p>'
    assert blocks(f"{ARTICLE}{row}") == [*OWN, "More:"]


def test_what_follows_a_list_is_no_part_of_it() -> None:
    assert blocks(f"<ul>{links('A', 'B', 'C')}</ul><h1>Bears</h1><p>They sleep.</p>") == [
        "Bears",
        "They sleep.",
    ]


def test_links_in_a_sentence_belong_to_it() -> None:
    sentence = (
        '<p>The <a href="/b">brown bear</a> is not a <a href="/r">raccoon</a>, nor is it a '
        '<a href="/d">dog</a>.</p>'
    )
    assert blocks(sentence) == [
        "The",
        "brown bear",
        "is not a",
        "raccoon",
        ", nor is it a",
        "dog",
        ".",
    ]


def test_two_links_are_no_list() -> None:
    assert blocks(f"<ul>{links('One', 'Two')}</ul>{ARTICLE}") == ["One", "Two", *OWN]


def test_links_with_parts_are_links_too() -> None:
    cards = "".join(f'<a href="/{n}"><b>Card</b> <i>number {n}</i></a>' for n in range(3))
    assert blocks(f"{ARTICLE}{cards}") == OWN


@pytest.mark.parametrize(
    "html", ["", "<nav>only a frame</nav>", "<frameset><frame src=/a></frameset>"]
)
def test_a_page_without_text_of_its_own_has_no_blocks(html: str) -> None:
    assert blocks(html) == []


def test_plain_text_has_no_frame() -> None:
    reader = DocumentReader(HtmlReader(max_links=100), max_links=100)
    assert reader.read(b"words", "http://h.test/", content_type="text/plain").blocks is None
