"""The links of a page are resolved together, and each as if it were alone."""

import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.urls import Base, Rejected, Spelling, UrlRules, Urls

BASES = (
    "http://h.test/",
    "http://h.test/dir/page?q",
    "https://other.test:8443/a/b/",
    "http://h.test/.well-known/a%20b/;x/",
    f"http://h.test/{'d' * 2030}/",
    # Written in another way.
    "http://h.test/dir/page?b&a&utm_id=1",
    "http://h.test/%c3%a9/page",
    f"http://h.test/dir;jsessionid={'a1' * 16}/page?b&a",
)
AUTHORITIES = ("http://h.test", "https://other.test:8443", "http://www.x.test", "http://H.test")
PLAIN = (*string.ascii_letters, *string.digits, *"/-_./-_.", ".html", "index")
ODD = (
    *(
        "/.",
        "/..",
        "//",
        "?",
        "#",
        "%",
        "%41",
        "%2e",
        "&",
        "=",
        ";",
        ":",
        "::",
        "@",
        "\\",
        "[",
        "]",
    ),
    *("^", "|", " ", "\t", "\n", "\r", "é", "\0", "\ud800", "~", "+", ",", "'", '"', "<", "{", "`"),
    *("http:", "https://", "http://h.test", "//x.test", "javascript:", "mailto:", ":80", "h.test."),
    *("%C3%A9", "%c3%a9", "%20", "%2F", "%7E", "%5B", "%5b", "%25", "%2541", "%4", "%%", "%2E/"),
    *("(", ")", "'", "*", "!", "$", "=", "&", "page=1", "b=1&a=2"),
    *("utm_source=a", f"sid={'a1' * 16}", "long" * 500),
)


def alone(base: Base, link: str) -> Spelling | None:
    """What the parser says: without known hosts there are no short cuts."""
    found = Urls().spelling(base.join(link)) if link and link[0] != "#" else None
    return None if isinstance(found, Rejected) else found


def each(base: Base, links: list[str]) -> tuple[list[str | None], dict[str, str]]:
    """What is found of links one by one."""
    found = [alone(base, link) for link in links]
    first: dict[str, str] = {}
    for spelling in found:
        if spelling is not None:
            first.setdefault(*spelling)
    written = {url: part for url, part in first.items() if part}
    return [None if spelling is None else spelling[0] for spelling in found], written


def link(chance: random.Random) -> str:
    start = chance.choice(["", "/", *(f"{authority}/" for authority in AUTHORITIES)])
    parts = chance.choices(PLAIN, k=chance.randint(0, 12))
    while chance.random() < 0.3:
        parts.insert(chance.randint(0, len(parts)), chance.choice(ODD))
    if chance.random() < 0.1:
        start = "".join(chance.choices(ODD, k=2))
    return start + "".join(parts)


@pytest.mark.parametrize("seed", range(4))
def test_links_of_all_kinds_are_resolved_as_each_alone(seed: int) -> None:
    chance = random.Random(seed)
    urls = Urls()
    for _ in range(500):
        base = urls.base(chance.choice(BASES))
        assert isinstance(base, Base)
        links = [link(chance) for _ in range(chance.randint(0, 20))]
        assert urls.resolve_all(base, links) == each(base, links), links


@pytest.mark.parametrize("seed", range(2))
def test_urls_of_known_hosts_are_spelled_as_those_of_others(seed: int) -> None:
    chance = random.Random(seed)
    urls = Urls()
    for _ in range(5_000):
        url = link(chance)
        assert urls.canonical(url) == Urls().canonical(url), url


@given(st.lists(st.one_of(st.text(), st.text(st.sampled_from("/.a1:-_?#%;&= \t\n@")))))
def test_any_links_are_resolved_as_each_alone(links: list[str]) -> None:
    base = Base("http://h.test/dir/page?q")
    assert Urls().resolve_all(base, links) == each(base, links)


@pytest.mark.parametrize("length", [39, 40, 41])
def test_plain_links_are_no_longer_than_allowed(length: int) -> None:
    base = Base("http://h.test/")
    urls = Urls(UrlRules(max_length=40))
    urls.resolve(base, "http://x.test/")
    for start in ("http://h.test", "http://x.test"):
        url = f"{start}/".ljust(length, "a")
        found = url if length <= 40 else None
        links = [url, url.removeprefix("http://h.test"), "/"]
        assert urls.resolve_all(base, links) == ([found, found, "http://h.test/"], {})


def test_a_host_is_plain_only_as_it_is_spelled() -> None:
    base = Base("http://h.test/")
    urls = Urls()
    links = ["http://X.test/a", "http://x.test/b", "http://X.test/c", "http://x.test:80/d"]
    found = [f"http://x.test/{name}" for name in "abcd"]
    assert urls.resolve_all(base, links) == (found, {})
    assert urls.resolve_all(base, links) == (found, {})


def test_a_host_may_begin_with_the_name_of_another() -> None:
    urls = Urls()
    links = ["http://h.tes/", "http://h.test", "http://h.test/a", "http://h.test.x/"]
    found = ["http://h.tes/", "http://h.test/", "http://h.test/a", "http://h.test.x/"]
    assert urls.resolve_all(Base("http://h.test/"), links) == (found, {})
    assert urls.resolve_all(Base("http://h.test/"), links) == (found, {})
