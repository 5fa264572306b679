"""How a URL is written, beside the canonical form that it is known by."""

import random

import can_ada
import pytest
from scrapy import Request

from crawler.parsing.document import canonical_links
from crawler.parsing.html import HtmlReader
from crawler.urls import DEFAULT, Base, Rejected, UrlRules, Urls, authority_of, written_url
from crawler.urls.canonical import undotted
from tests.unit.urls.test_resolve_all import link as any_link

SESSION = "12345678901234567890123456789012"


@pytest.mark.parametrize(
    ("url", "canonical", "part"),
    [
        ("http://h.test", "http://h.test/", ""),
        ("HTTP://H.test.:80/a/../b#c", "http://h.test/b", ""),
        ("http://h.test/p?a=1&b=2", "http://h.test/p?a=1&b=2", ""),
        ("http://h.test/p?b=2&a=1", "http://h.test/p?a=1&b=2", "?b=2&a=1"),
        ("http://h.test/p?utm_id=1&a=1", "http://h.test/p?a=1", "?utm_id=1&a=1"),
        ("http://h.test/p?sid=" + SESSION, "http://h.test/p", "?sid=" + SESSION),
        ("http://h.test/p?", "http://h.test/p", "?"),
        ("http://h.test/p?a&&b#c", "http://h.test/p?a&b", "?a&&b"),
        ("http://h.test/%c3%a9", "http://h.test/%C3%A9", "%"),
        ("http://h.test/%c3%A9", "http://h.test/%C3%A9", "/%c3%A9"),
        ("http://h.test/%c3%a9?b&a", "http://h.test/%C3%A9?a&b", "/%c3%a9?b&a"),
        ("http://h.test/%C3%A9?q=%c3%a9", "http://h.test/%C3%A9?q=%C3%A9", "?q=%c3%a9"),
        ("http://h.test/%7Eme", "http://h.test/~me", "/%7Eme"),
        ("http://h.test/é|", "http://h.test/%C3%A9%7C", ""),
        (
            f"http://h.test/a;jsessionid={SESSION}/b?q",
            "http://h.test/a/b?q",
            f"/a;jsessionid={SESSION}/b?q",
        ),
        # Some servers see a dot segment here: it is resolved, so that robots.txt sees it as well.
        (f"http://h.test/a/..;jsessionid={SESSION}/b?b&a", "http://h.test/b?a&b", "?b&a"),
        (f"http://h.test/a/..;jsessionid={SESSION}/b", "http://h.test/b", ""),
    ],
)
def test_what_is_kept_is_what_differs(url: str, canonical: str, part: str) -> None:
    # Of a host that is not known, and of one that is.
    urls = Urls()
    for _ in range(2):
        assert urls.spelling(url) == (canonical, part)
        urls.canonical("http://h.test/")


def browsers_url(url: str, canonical: str) -> str:
    """What the browsers' parser makes of a URL, at the canonical host, as Scrapy sends it."""
    href = str(can_ada.parse(url).href).partition("#")[0]
    authority = authority_of(canonical)
    return undotted(authority + href[href.index("/", 8) :], len(authority))


@pytest.mark.parametrize("seed", range(4))
def test_a_url_is_written_as_browsers_read_it(seed: int) -> None:
    chance, urls = random.Random(seed), Urls()
    for _ in range(5_000):
        url = f"http://h.test/{any_link(chance)}"
        found = urls.spelling(url)
        if isinstance(found, Rejected):
            continue
        written = written_url(*found)
        assert Request(written).url == Request(browsers_url(url, found[0])).url, url
        # It is still the same URL, and final.
        assert urls.spelling(written) == found, url
        assert len(found[1]) <= len(written)
        assert (written == found[0]) == (not found[1])


def test_a_url_is_as_long_as_it_is_written() -> None:
    urls = Urls(UrlRules(max_length=30))
    fits = f"http://h.test/?utm_id={'1' * 8}"
    assert len(fits) == 30
    assert urls.spelling(fits) == ("http://h.test/", f"?utm_id={'1' * 8}")
    assert urls.spelling(fits + "1") == Rejected("too_long")
    assert urls.resolve(Base("http://h.test/"), f"/?utm_id={'1' * 9}") == Rejected("too_long")


@pytest.mark.parametrize("max_links", [10, 3])
@pytest.mark.parametrize(
    ("hrefs", "written"),
    [
        (["/p?b&a", "/p?a&b", "/p?b&a&utm_id=1"], {"http://h.test/p?a&b": "?b&a"}),
        (["/p?a&b", "/p?b&a"], {}),
        (["/p", "/p?utm_id=1"], {}),
        (["/p?utm_id=1", "/p"], {"http://h.test/p": "?utm_id=1"}),
        (["/%c3%a9", "/p", "/%C3%A9", "/p?"], {"http://h.test/%C3%A9": "%"}),
    ],
)
def test_of_several_spellings_the_first_counts(
    hrefs: list[str], written: dict[str, str], max_links: int
) -> None:
    _, found = canonical_links(
        hrefs, urls=Urls(), base=Base("http://h.test/"), charset="utf-8", max_links=max_links
    )
    assert found == written


@pytest.mark.parametrize(
    ("page", "base", "written"),
    [
        ("/dir/page?b&a", "", "/dir/x?z&y"),
        (f"/dir;jsessionid={SESSION}/page", "", f"/dir;jsessionid={SESSION}/x?z&y"),
        ("/%c3%a9/page", "", "/%c3%a9/x?z&y"),
        ("/page", "/%c3%a9/", "/%c3%a9/x?z&y"),
        ("/%c3%a9/page", "/other/", "/other/x?z&y"),
    ],
)
def test_links_are_relative_to_the_page_as_it_is_written(
    page: str, base: str, written: str
) -> None:
    head = f'<base href="{base}">' if base else ""
    document = HtmlReader(max_links=10).read(f'{head}<a href="x?z&amp;y">', f"http://h.test{page}")
    (url,) = document.links
    assert url == DEFAULT.canonical(f"http://h.test{written}")
    assert written_url(url, document.written[url]) == f"http://h.test{written}"
