"""The main text of pages: what is the article, what of it is left out, and its Markdown."""

import gc
import re

import pytest

from crawler.parsing.document import Document
from crawler.parsing.html import HtmlReader

URL = "https://example.com/news/story"
READER = HtmlReader(max_links=100, main_text=True, markdown=True)
# Long enough to be prose, and different each time.
PROSE = "In the year {} the council met in the old town hall, and it decided on the new bridge."


def prose(number: int) -> str:
    return PROSE.format(number)


def paragraphs(*numbers: int) -> str:
    return "".join(f"<p>{prose(number)}</p>" for number in numbers)


def read(html: str) -> Document:
    return READER.read(html, URL)


def main_text(html: str) -> list[str]:
    return read(html).main_text.split("\n")


def markdown(html: str) -> str:
    """The Markdown of an article that begins with some prose, without that."""
    first = prose(1)
    found = read(f"<article>{paragraphs(1)}{html}{paragraphs(2)}</article>").markdown
    assert found.startswith(f"{first}\n\n")
    assert found.endswith(f"\n\n{prose(2)}")
    return found[len(first) + 2 : -len(prose(2)) - 2]


def test_frame_is_left_out() -> None:
    page = f"""<header><h1>Site</h1><p>{prose(90)}</p></header><nav><a href=/>Home</a></nav>
        <div id=story><h1>The bridge</h1>{paragraphs(1, 2)}<h2>Costs</h2>{paragraphs(3)}</div>
        <div class="c-comments">{paragraphs(91, 92, 93, 94, 95)}</div>
        <div role=complementary>{paragraphs(96, 97, 98, 99)}</div>
        <footer>{paragraphs(100)}</footer>"""
    assert main_text(page) == [prose(1), prose(2), "Costs", prose(3)]


@pytest.mark.parametrize("frame", ["aside", "section class=relatedStories", "div id=footer-top"])
def test_more_prose_in_frames_than_in_the_article_does_not_matter(frame: str) -> None:
    others = f"<{frame}>{paragraphs(*range(50, 80))}</{frame.split(maxsplit=1)[0]}>"
    page = f"<div><h1>Title</h1>{paragraphs(1, 2)}</div>{others}"
    assert main_text(page) == [prose(1), prose(2)]


def test_names_do_not_hide_all_of_a_page() -> None:
    page = f"<div class=widget><div class=promo>{paragraphs(1, 2, 3)}</div></div>"
    assert main_text(page) == [prose(1), prose(2), prose(3)]


@pytest.mark.parametrize(
    "name",
    ["has-sidebar", "post-1 tag-advertising category-related", "no-comments", "entry-content more"],
)
def test_names_that_tell_of_the_layout_are_no_frames(name: str) -> None:
    page = f'<div class="{name}">{paragraphs(1, 2)}</div><div class=box>{paragraphs(3)}</div>'
    assert main_text(page) == [prose(1), prose(2)]


def test_article_in_several_sections_is_whole() -> None:
    sections = "".join(f"<div class=b>{paragraphs(3 * n, 3 * n + 1)}</div>" for n in range(4))
    page = f"<div>{sections}</div><ul>{'<li><a href=/x>Other story</a>' * 9}</ul>"
    assert main_text(page) == [prose(3 * n + more) for n in range(4) for more in (0, 1)]


def test_teasers_after_a_short_article_are_left_out() -> None:
    teasers = "".join(
        f"<div class=card><a href=/{n}>The headline of another story {n}</a><p>{prose(n)}</p></div>"
        for n in range(20, 26)
    )
    page = f"<div class=b>{paragraphs(1, 2, 3, 4)}</div><div class=cards>{teasers}</div>"
    assert main_text(page) == [prose(n) for n in (1, 2, 3, 4)]


def test_text_without_paragraphs_has_them_at_double_line_breaks() -> None:
    page = f"<ul><li><a href=/>Home</a></ul><font>{prose(1)}<br><br>{prose(2)}<br>{prose(3)}</font>"
    assert main_text(page) == [prose(1), f"{prose(2)} {prose(3)}"]


@pytest.mark.parametrize("paragraph", ["<div>{}</div>", "<div><p>{}</p></div>"])
def test_paragraphs_are_written_in_several_ways(paragraph: str) -> None:
    text = "".join(paragraph.format(prose(number)) for number in range(6))
    page = f"<div class=a>{text}</div><div class=b><div>{paragraphs(20)}</div></div>"
    found = " ".join(main_text(page))
    assert found == " ".join(prose(number) for number in range(6))


@pytest.mark.parametrize(
    "inner",
    [
        f'<div style="display: none">{prose(9)}</div>',
        f"<div hidden>{prose(9)}</div>",
        "<div class=share-buttons>Share this</div>",
        "<p>ADVERTISEMENT</p><div>Continue reading below</div>",
        "<p class=photo-credit>Photo: the town</p>",
        "<figure><img src=x><figcaption>The bridge at night</figcaption></figure>",
        "<ul><li><a href=/a>Another story</a><li><a href=/b>A third story</a></ul>",
        "<p><a href=/a>Read also: The tunnel</a></p>",
        "<form>Your name <input> <button>Send</button></form>",
        "<script>var x = 1;</script><style>p {}</style><noscript>Enable scripts</noscript>",
        "<h2>Related</h2><div class=related><p>Something else</p></div><h2>Costs</h2>",
    ],
)
def test_parts_of_the_frame_within_the_article_are_left_out(inner: str) -> None:
    page = f"<main>{paragraphs(1, 2, 3)}{inner}{paragraphs(4)}</main>"
    found = [text for text in main_text(page) if text != "Costs"]
    assert found == [prose(1), prose(2), prose(3), prose(4)]


@pytest.mark.parametrize(
    "html", ["", "<p>", "<title>T</title>", "<body>\x00</body>", "<a href=/>x</a>"]
)
def test_pages_without_prose_have_no_main_text(html: str) -> None:
    assert read(html).main_text == read(html).markdown == ""


def test_main_text_is_made_only_if_it_is_wanted() -> None:
    html = f"<article>{paragraphs(1, 2)}</article>"
    plain = HtmlReader(max_links=9).read(html, URL)
    assert (plain.main_text, plain.markdown) == ("", "")
    only_text = HtmlReader(max_links=9, main_text=True).read(html, URL)
    assert (only_text.main_text, only_text.markdown) == (f"{prose(1)}\n{prose(2)}", "")
    only_markdown = HtmlReader(max_links=9, markdown=True).read(html, URL)
    assert (only_markdown.main_text, only_markdown.markdown) == ("", f"{prose(1)}\n\n{prose(2)}")


def article(html: str) -> list[str] | None:
    return HtmlReader(max_links=9, article=True).read(html, URL).article


def test_pages_may_be_compared_by_the_paragraphs_of_their_main_text() -> None:
    html = f"<nav>Menu</nav><article>{paragraphs(1, 2)}</article><div>Powered by blog</div>"
    found = HtmlReader(max_links=9, article=True).read(html, URL)
    assert found.article == [prose(1), prose(2)]
    assert found.blocks == [prose(1), prose(2), "Powered by blog"]
    assert found.main_text == ""
    assert HtmlReader(max_links=9).read(html, URL).article is None


def test_dates_and_names_beside_an_article_are_not_compared() -> None:
    byline = "<p>By Staff Writer, 5 October 2026</p>"
    assert article(f"<article>{byline}{paragraphs(1, 2)}</article>") == [prose(1), prose(2)]


def test_an_article_of_short_paragraphs_is_compared_with_all_of_them() -> None:
    lines = [f"She said it {number} times, he nodded." for number in range(20)]
    html = "".join(f"<p>{line}</p>" for line in lines)
    assert article(f"<article>{html}<p>{prose(1)}</p></article>") == [*lines, prose(1)]


@pytest.mark.parametrize("name", ["comments", "responses", "discussion"])
def test_comments_are_not_compared(name: str) -> None:
    html = f"<div><div>{paragraphs(1, 2)}</div><ol class={name}><li>{paragraphs(3)}</ol></div>"
    assert article(html) == [prose(1), prose(2)]


def test_a_page_with_little_main_text_is_no_article() -> None:
    chairs = "".join(f"<li><a href=/{number}>Chair {number}</a>" for number in range(150))
    assert article(f"<main>{paragraphs(1)}</main><ul>{chairs}</ul>") is None
    html = f"<main>{paragraphs(1, 2, 3)}</main><ul>{chairs}</ul>"
    assert article(html) == [prose(1), prose(2), prose(3)]


MENU = "<nav><ul>" + "".join(f"<li><a href=/{n}>Entry {n}</a>" for n in range(10)) + "</ul></nav>"
FOOTER = f"<footer>{paragraphs(98, 99)}</footer>"


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        # A vacancy.
        ("<h2>Tasks</h2><ul><li>Write<li>Read</ul>", ["Tasks", "Write", "Read"]),
        # The page of a function.
        (f"<dl><dt>open(file)<dd>Opens it.<pre>open('x')\nopen('y')</pre><p>{prose(1)}</p></dl>"
         + "<p>See also.</p>" * 50,
         ["open(file)", "Opens it.", "open('x')", "open('y')", prose(1), *["See also."] * 50]),
        # A list of articles.
        ("".join(f"<div class=teaser><h2>Title</h2>{paragraphs(n)}</div>" for n in range(3)),
         ["Title", prose(0), "Title", prose(1), "Title", prose(2)]),
        # A discussion.
        ("<div class=comments>" + "".join(
            f"<div class=comment><div class=comment-text>{paragraphs(n)}</div></div>"
            for n in range(9)) + "</div>",
         [prose(n) for n in range(9)]),
        ("<my-app><my-text>Some words.</my-text></my-app>", ["Some words."]),
    ],
)  # fmt: skip
def test_a_page_without_prose_has_all_text_that_is_in_no_frame(
    html: str, expected: list[str]
) -> None:
    assert main_text(f"{MENU}{html}{FOOTER}") == expected


def test_few_characters_of_chinese_are_a_paragraph() -> None:
    texts = ["今天天气很好，我们去公园。", "公园里有很多人在散步。", "孩子们在草地上玩耍。"]
    html = "".join(f"<p>{text}</p>" for text in texts)
    assert main_text(f"{MENU}<div>{html}</div><div class=sidebar>{paragraphs(1, 2)}</div>") == texts


def test_comments_do_not_become_the_article() -> None:
    comments = "".join(f"<div class=comment>{paragraphs(n)}</div>" for n in range(20, 40))
    assert main_text(f"<div>{paragraphs(1, 2)}{comments}</div>") == [prose(1), prose(2)]


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<h2>A <i>b</i></h2><p>x</p>", "## A b\n\nx"),
        ("<p>a <b> b </b><em>c</em></p>", "a **b** *c*"),
        ("<p><strong>a <b>b</b> c</strong></p>", "**a b c**"),
        ('<p>See <a href="../a b?x=(1)">this <b>page</b></a>.</p>',
         "See [this **page**](https://example.com/a%20b?x=%281%29)."),
        ("<p>No <a href='#x'>a</a> <a href='javascript:x'>b</a> <a>c</a></p>", "No a b c"),
        ("<ul><li>a<li>b<ol><li>c<li>d</ol></ul>", "- a\n- b\n  1. c\n  2. d"),
        ("<ul><li><p>a</p><p>b</p></ul>", "- a\n\n  b"),
        ("<blockquote><p>a</p><p>b<br>c</p></blockquote>", "> a\n>\n> b  \n> c"),
        ("<pre>if x:\n    `y`\n\n  z  \n</pre>", "```\nif x:\n    `y`\n\n  z\n```"),
        ("<pre>```</pre>", "````\n```\n````"),
        ("<div class=social-embed><blockquote>a</blockquote></div>", "> a"),
        ("<p>Call <code>a_b()</code> or <code>`x`</code></p>", "Call `a_b()` or `` `x` ``"),
        ("<p><code>a</code><code>b</code></p>", "`a` `b`"),
        ("<p><code>``</code></p>", "``` `` ```"),
        ("<table><tr><th>a<th>b|c<tr><td><b>1</b><td></table>",
         "| a | b\\|c |\n| --- | --- |\n| **1** |  |"),
        ("<table><tr><td>a<td>b</table><table><tr><td>c<td>d</table>",
         "| a | b |\n| --- | --- |\n\n| c | d |\n| --- | --- |"),
        ("<table><tr><td><p>a</p><td><div>b</div></table>", "| a | b |\n| --- | --- |"),
        ("<table><tr><td><p>a</p><p>b</p><td>c</table>", "a\n\nb\n\nc"),
        ("<table><tr><td>a<td>b<tr><td>1<td>2<td>3</table>",
         "| a | b | |\n| --- | --- | --- |\n| 1 | 2 | 3 |"),
        ("<pre><code><div>a</div><div>  b</div></code></pre>", "```\na\n  b\n```"),
        ("<pre><span>a<br></span><span>  b</span></pre>", "```\na\n  b\n```"),
        ("<h2>A<br>b C #<a href=#a>¶</a></h2><p>x</p>", "## A b C \\#\n\nx"),
        ("<ol start=3><li>a<li>b</ol>", "3. a\n4. b"),
        ("<ul><li>a<ol start=3><li><li>b<li>c</ol></ul>", "- a\n  1. b\n  2. c"),
        ("<blockquote><p>a</p><ul><li>b</ul></blockquote>", "> a\n>\n> - b"),
        ("<p>&amp;amp; a&b ~~c~~ d!<a href=/e>f</a></p>",
         "\\&amp; a&b \\~~c\\~~ d\\![f](https://example.com/e)"),
        ("<p>e <a href='/a\\b\n c'>d</a></p>", "e [d](https://example.com/a%5Cb%20c)"),
        # Emphasis that Markdown would not see: between a letter and the mark of a sentence.
        ("<p><b>a:</b>b <i>(c)</i>d <b>e.</b> <b>「中」</b>文</p>", "a:b (c)d **e.** 「中」文"),
        ("<p><b>*</b><b>b</b></p>", "\\*b"),
        ("<p><b>a</b><b>b</b> <i>c</i><b>d</b> <b><i>e</i></b>f</p>", "**ab** *c*d ***e***f"),
        ("<p>*a* [b] &lt;c> 1_2</p><p># d</p><p>3. e</p>",
         "\\*a\\* \\[b\\] \\<c> 1\\_2\n\n\\# d\n\n3\\. e"),
    ],
)  # fmt: skip
def test_markdown_of_elements(html: str, expected: str) -> None:
    assert markdown(html) == expected


def test_links_follow_the_base_of_the_page() -> None:
    html = f'<base href="/docs/"><p>{prose(1)} <a href="x">x</a></p>'
    assert read(html).markdown == f"{prose(1)} [x](https://example.com/docs/x)"


# Pages that would be slow if time grew with the square of their size.
HOSTILE = {
    "nested": "<div class=a>text of it",
    "nested frames": "<div class=comment>" + PROSE,
    "nested links": "<a href=/x>a<table><tr><td>",
    "nested paragraphs": "<p>" + PROSE + "<button>",
    "nested lists": "<ul><li>a",
    "nested quotes": "<blockquote>a<br>",
    "nested tables": "<table><tr><td>a<td>",
    "nested emphasis": "<b><i><span>a",
    "headings": "<h1><div>",
    "breaks": "a<br>",
    "backticks": "<pre>```````````",
    "classes": "<div class='" + "sidebar-" * 30 + "'>a",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pages_are_read(name: str) -> None:
    found = read(HOSTILE[name] * (200_000 // len(HOSTILE[name])))
    assert len(found.main_text) <= 1_000_000
    assert len(found.markdown) <= 4_000_000


def test_long_articles_are_cut() -> None:
    found = read(f"<article>{''.join(f'<p>{prose(n) * 20}</p>' for n in range(1000))}</article>")
    assert 990_000 < len(found.main_text) <= 1_000_000
    assert re.fullmatch(r"(?:In the year \d+ [^\n]+\n)+.*", found.main_text)


def test_the_tree_of_a_page_is_freed_without_the_garbage_collector() -> None:
    html = f"<article>{paragraphs(1, 2, 3)}</article><div>{paragraphs(4)}</div>"
    read(html)
    gc.collect()
    gc.disable()
    try:
        read(html)
        assert gc.collect() == 0
    finally:
        gc.enable()
