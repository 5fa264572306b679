"""What URL-seen knows a URL by, and what shares one clock."""

import pytest

from crawler.frontier import Entry
from crawler.urls import UrlRules, Urls, fingerprint, icann_domain, registered_domain
from crawler.urls.canonical import folded

ALL = frozenset({"scheme", "www", "slash", "index", "case"})


@pytest.mark.parametrize(
    ("fold", "one", "other"),
    [
        ("scheme", "http://h.test/a?b", "https://h.test/a?b"),
        ("www", "http://www.h.test/", "http://h.test/"),
        ("slash", "http://h.test/a/?b", "http://h.test/a?b"),
        ("index", "http://h.test/a/index.html", "http://h.test/a/"),
        ("index", "http://h.test/Default.aspx?b", "http://h.test/?b"),
        ("case", "http://h.test/A?B=C", "http://h.test/a?b=c"),
    ],
)
def test_folded_urls_are_one_and_others_are_not(fold: str, one: str, other: str) -> None:
    urls = Urls(UrlRules(fold=frozenset({fold})))
    assert urls.fingerprint(one) == urls.fingerprint(other)
    others = Urls(UrlRules(fold=ALL - {fold}))
    assert others.fingerprint(one) != others.fingerprint(other)
    assert fingerprint(one) != fingerprint(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://h.test/a", "http://h.test/b"),
        ("http://h.test/a?b", "http://h.test/a?c"),
        ("http://wwww.h.test/", "http://h.test/"),
        ("http://h.test/reindex.html", "http://h.test/"),
        ("http://h.test/a?x=/", "http://h.test/a?x="),
    ],
)
def test_what_differs_otherwise_is_never_folded(one: str, other: str) -> None:
    assert folded(one, ALL) != folded(other, ALL)


def test_folding_is_off_by_default_and_takes_the_body_in() -> None:
    assert Urls().fingerprint("http://h.test/a", "POST", b"x") == fingerprint(
        "http://h.test/a", "POST", b"x"
    )


@pytest.mark.parametrize(
    ("url", "group"),
    [
        ("http://h.test/", "h.test"),
        ("http://www.example.co.uk/a", "example.co.uk"),
        ("http://a.b.example.com:8080/a", "example.com:8080"),
        ("http://1.2.3.4/", "1.2.3.4"),
        ("http://[::1]:80/", "[::1]:80"),
        ("http://localhost/", "localhost"),
        ("http://co.uk/", "co.uk"),
        ("http://www.alice.github.io:8080/a", "alice.github.io:8080"),
        ("http://github.io/", "github.io"),
    ],
)
def test_hosts_of_a_domain_share_a_group(url: str, group: str) -> None:
    urls = Urls(UrlRules(group_by="domain"))
    assert Entry(id=1, url=url, group_skip=urls.group_skip(url)).host == group
    assert Urls().group_skip(url) == 0


def test_crawls_that_began_without_private_suffixes_group_as_before() -> None:
    now = Urls(UrlRules(group_by="domain", fold=ALL))
    before = now.with_private_suffixes(False)
    url = "http://www.alice.github.io/"
    assert Entry(id=1, url=url, group_skip=before.group_skip(url)).host == "github.io"
    assert Entry(id=1, url=url, group_skip=now.group_skip(url)).host == "alice.github.io"
    assert before.fingerprint(url) == now.fingerprint(url)
    assert before.with_private_suffixes(False) is before


def test_domains_are_remembered_but_not_all_of_them() -> None:
    for domain_of in (registered_domain, icann_domain):
        size = domain_of.cache_info().maxsize
        assert size is not None
        assert size <= 100_000


@pytest.mark.parametrize("fold", [frozenset(), ALL])
def test_many_fingerprints_are_those_of_each(fold: frozenset[str]) -> None:
    urls = Urls(UrlRules(fold=fold))
    some = ["http://www.h.test/A/index.html?b", "https://h.test/", "http://h.test/?%C3%A4"]
    assert urls.fingerprints(some) == [urls.fingerprint(url) for url in some]
