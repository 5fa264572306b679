"""Which pages are rendered, by what they have and by what is known of their hosts."""

from collections import Counter

import pytest

from crawler.rendering.needs import (
    Content,
    Standing,
    Trials,
    Wish,
    content_of,
    has_gained,
    may_want_rendering,
    wish_of,
)

WORDS = "some words that visitors of this page read " * 20
SHELL = b'<html><body><div id="app"></div><script src="/app.js"></script></body></html>'


def page(body: str) -> Content:
    return content_of(f"<html><body>{body}</body></html>".encode())


def content(chars: int = 1000, links: str = "/a", **others: bool) -> Content:
    facts = {"looks_empty": False, "has_scripts": True} | others
    return Content(chars, frozenset(links.split()), **facts)


@pytest.mark.parametrize(
    "body",
    [
        '<div id="app"></div><script src="/app.js"></script>',
        f"<p>{WORDS}<script>show()</script>",
        '<a href="/a">a</a><script>show()</script>',
        f'<a href="/a">a</a>{WORDS}<noscript>Please enable JavaScript</noscript><script>x</script>',
        f'<a href="/a">a</a>{WORDS}<div id="root"><i></i></div><script>x</script>',
        f"<p>{WORDS}<app-root></app-root><script>x</script>",
    ],
    ids=["shell", "no links", "little text", "a note", "empty root", "component"],
)
def test_a_page_looks_empty(body: str) -> None:
    assert page(body).looks_empty


@pytest.mark.parametrize(
    "body",
    [
        '<div id="app"></div>',
        f'<a href="/a">a</a>{WORDS}<script>count()</script>',
        f'<div id="root"><a href="/a">a</a>{WORDS}</div><script>x</script>',
        f'<a href="/a">a</a>{WORDS}<noscript><img src="/pixel"></noscript><script>x</script>',
    ],
    ids=["without scripts", "ordinary", "root with content", "a pixel"],
)
def test_a_page_does_not_look_empty(body: str) -> None:
    assert not page(body).looks_empty


def test_what_visitors_get_is_counted_without_scripts_and_blanks() -> None:
    found = page('<p>a b\n c <a href=" /x ">d</a><script>long()</script><style>p{}</style>')
    assert found.text_chars == 4
    assert found.links == {"/x"}


def test_a_page_in_another_encoding_is_read() -> None:
    html = '<p>Привет<a href="/a">a</a>'.encode("cp1251")
    assert content_of(html, "text/html; charset=windows-1251").text_chars == 7


@pytest.mark.parametrize(
    ("before", "after", "gained"),
    [
        (content(1000), content(1300), True),
        (content(1000), content(1299), False),
        (content(10), content(60), False),
        (content(10), content(61), True),
        (content(1000, "/a"), content(1000, "/a /b"), True),
        (content(1000, "/a /b"), content(1000, "/b"), False),
    ],
)
def test_a_page_gains_text_or_links(before: Content, after: Content, gained: bool) -> None:
    assert has_gained(before, after) is gained


@pytest.mark.parametrize(
    ("before", "after", "gained"),
    [
        ("/a", "/a http://h.test/a", False),
        ("a?x=1", "http://h.test/dir/a?x=1", False),
        ("/a", "/a http://h.test/dir/page", False),
        ("/a", "/a http://[broken", False),
        ("/a", "/a http://h.test/b", True),
    ],
)
def test_the_same_links_in_another_spelling_are_no_gain(
    before: str, after: str, gained: bool
) -> None:
    url = "http://h.test/dir/page"
    assert has_gained(content(1000, before), content(1000, after), url) is gained


def test_links_that_lead_to_no_page_are_none() -> None:
    hrefs = ["#", "#top", "/a#part", "javascript:void(0)", " JavaScript:x()", "mailto:a@b.test"]
    body = "".join(f'<a href="{href}">x</a>' for href in hrefs)
    assert page(body).links == {"/a"}


@pytest.mark.parametrize(
    ("trials", "gains", "standing"),
    [
        (0, 0, Standing.UNTRIED),
        (1, 0, Standing.UNTRIED),
        (2, 2, Standing.UNTRIED),
        (2, 0, Standing.PLAIN),
        (3, 3, Standing.NEEDS),
        (4, 2, Standing.NEEDS),
        (10, 4, Standing.MIXED),
        (10, 1, Standing.MIXED),
        (11, 1, Standing.PLAIN),
    ],
)
def test_the_trials_of_a_host_tell_what_it_needs(
    trials: int, gains: int, standing: Standing
) -> None:
    assert Trials(trials, gains).standing is standing


UNTRIED, MIXED, NEEDS = Trials(), Trials(10, 4), Trials(3, 3)
PLAIN, SURELY_PLAIN, ONCE_GAINED = Trials(2), Trials(10), Trials(20, 1)


def chosen(known: Trials, page: Content) -> dict[Wish, int]:
    """How many of a hundred pages are rendered."""
    return Counter(wish_of(known, page, fingerprint) for fingerprint in range(100))


def test_pages_that_look_empty_are_rendered_unless_their_host_is_plain() -> None:
    empty = content(looks_empty=True)
    assert chosen(UNTRIED, empty) == chosen(MIXED, empty) == {Wish.NEEDED: 100}
    assert chosen(PLAIN, empty) == {Wish.SAMPLE: 10, Wish.NONE: 90}


def test_the_sample_shrinks_when_trials_were_in_vain() -> None:
    empty = content(looks_empty=True)
    assert chosen(SURELY_PLAIN, empty)[Wish.SAMPLE] == 2
    assert chosen(ONCE_GAINED, empty)[Wish.SAMPLE] == 10


def test_few_pages_that_do_not_look_empty_are_samples() -> None:
    for known in (UNTRIED, MIXED, PLAIN):
        assert chosen(known, content()) == {Wish.SAMPLE: 2, Wish.NONE: 98}


def test_pages_that_are_not_looked_at_would_not_be_rendered() -> None:
    looked_at = [n for n in range(100) if may_want_rendering(PLAIN, n)]
    assert len(looked_at) == 10
    for empty in (True, False):
        wanted = content(looks_empty=empty)
        for number in range(100):
            if wish_of(PLAIN, wanted, number) is not Wish.NONE:
                assert number in looked_at
    for known in (UNTRIED, MIXED, NEEDS):
        assert all(may_want_rendering(known, number) for number in range(100))


def test_pages_without_scripts_are_never_rendered() -> None:
    for known in (UNTRIED, MIXED, PLAIN):
        assert chosen(known, content(has_scripts=False, looks_empty=True)) == {Wish.NONE: 100}
