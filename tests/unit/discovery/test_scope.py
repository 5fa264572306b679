"""Which links belong to a crawl."""

from typing import Any

import pytest

from crawler.discovery.scope import (
    DOCUMENTS,
    KIND_OF_ENDING,
    MEDIA,
    OLD_DOCUMENTS,
    Scope,
    extension,
    is_within,
    kind_of,
    skipped_extensions,
)
from crawler.scheduling.options import BadPattern, CrawlOptions, compiled, new_seed_domains
from crawler.urls import icann_domain, registered_domain
from tests.support.crawlers import project_crawler

PAGE = "http://www.example.co.uk/a"


@pytest.mark.parametrize(
    ("scope", "url", "reason"),
    [
        ("host", "http://www.example.co.uk/b", None),
        ("host", "https://www.example.co.uk/b", None),
        ("host", "http://www.example.co.uk:8080/b", "scope"),
        ("host", "http://example.co.uk/b", "scope"),
        ("domain", "http://example.co.uk/b", None),
        ("domain", "http://shop.example.co.uk:8080/b", None),
        ("domain", "http://other.co.uk/b", "scope"),
        ("domain", "http://example.com/b", "scope"),
        ("any", "http://example.com/b", None),
        ("any", "http://example.com/b.PDF", "extension"),
        ("any", "http://example.com/b.pdf?page=1", "extension"),
        ("any", "http://example.com/b?file=c.pdf", None),
        ("any", "http://example.com/b.pdf/", None),
    ],
)
def test_scope_and_extension_decide(scope: str, url: str, reason: str | None) -> None:
    assert Scope(scope=scope).refuses(url, page_url=PAGE, depth=1) == reason


@pytest.mark.parametrize(
    ("max_url_length", "reason"),
    [(0, None), (len(PAGE), None), (len(PAGE) - 1, "too_long")],
)
def test_a_maximum_length_is_the_longest_followed_and_zero_is_none(
    max_url_length: int, reason: str | None
) -> None:
    scope = Scope(max_url_length=max_url_length)
    assert scope.refuses(PAGE, page_url=PAGE, depth=1) == reason


@pytest.mark.parametrize(
    ("max_depth", "depth", "reason"), [(0, 1000, None), (2, 2, None), (2, 3, "depth")]
)
def test_a_maximum_depth_is_the_last_one_followed_and_zero_is_none(
    max_depth: int, depth: int, reason: str | None
) -> None:
    assert Scope(max_depth=max_depth).refuses(PAGE, page_url=PAGE, depth=depth) == reason


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("www.example.com", "example.com"),
        ("example.com:8080", "example.com"),
        ("a.b.example.co.uk", "example.co.uk"),
        ("localhost", "localhost"),
        ("192.168.0.1", "192.168.0.1"),
        ("192.168.0.1:80", "192.168.0.1"),
        ("[::1]", "[::1]"),
        ("[::1]:8080", "[::1]"),
        ("co.uk", "co.uk"),
        ("s0.test", "s0.test"),
        ("www.shop.test:80", "shop.test"),
        ("a.b.shop.test.", "shop.test"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("www.rack.node1", "rack.node1"),
        ("www.xn--80akhbyknj4f.xn--p1ai", "xn--80akhbyknj4f.xn--p1ai"),
    ],
)
def test_the_registered_domain_of_a_host(host: str, domain: str) -> None:
    assert registered_domain(host) == domain
    assert icann_domain(host) == domain


@pytest.mark.parametrize(
    ("host", "domain", "by_icann"),
    [
        ("alice.github.io", "alice.github.io", "github.io"),
        ("www.alice.github.io:8080", "alice.github.io", "github.io"),
        ("github.io", "github.io", "github.io"),
        ("shop.myshopify.com", "shop.myshopify.com", "myshopify.com"),
        ("app.pages.dev", "app.pages.dev", "pages.dev"),
        ("blog.blogspot.com", "blog.blogspot.com", "blogspot.com"),
        ("www.firm.uk.com", "firm.uk.com", "uk.com"),
        ("uk.com", "uk.com", "uk.com"),
        ("www.firm.co.uk", "firm.co.uk", "firm.co.uk"),
        # A wildcard, what it leaves out, and what it stands below.
        ("a.b.kobe.jp", "a.b.kobe.jp", "a.b.kobe.jp"),
        ("www.city.kobe.jp", "city.kobe.jp", "city.kobe.jp"),
        ("b.kobe.jp", "b.kobe.jp", "b.kobe.jp"),
    ],
)
def test_a_domain_ends_below_private_suffixes_too(host: str, domain: str, by_icann: str) -> None:
    assert registered_domain(host) == domain
    assert icann_domain(host) == by_icann


def test_sites_of_a_platform_are_not_in_each_others_scope() -> None:
    page, other = "http://alice.github.io/", "http://bob.github.io/"
    below = "http://www.alice.github.io/"
    for scope in (Scope(), Scope("seeds", seed_domains={"alice.github.io"})):
        assert scope.refuses(other, page_url=page, depth=1) == "scope"
        assert scope.refuses_sitemap(other, site=page) == "scope"
        assert scope.refuses_redirect(other, source_url=page, depth=1) == "scope"
        assert scope.refuses(below, page_url=page, depth=1) is None
        assert scope.refuses("http://github.io/", page_url=page, depth=1) == "scope"
    former = CrawlOptions(private_suffixes=False).url_filter()
    assert former.refuses(other, page_url=page, depth=1) is None


def test_seeds_are_noted_by_the_suffixes_that_count_in_their_crawl() -> None:
    seeds = ["http://www.alice.github.io/", "http://bob.github.io/"]
    assert new_seed_domains(CrawlOptions(), seeds) == ["alice.github.io", "bob.github.io"]
    assert new_seed_domains(CrawlOptions(private_suffixes=False), seeds) == ["github.io"]


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://h.com/", ""),
        ("http://h.com/a.tar.gz", "gz"),
        ("http://h.com/a.b/c", ""),
        ("http://h.com/.", ""),
        ("http://h.com/a.HTML", "html"),
    ],
)
def test_an_extension_is_of_the_path_only(url: str, found: str) -> None:
    assert extension(url) == found


@pytest.mark.parametrize(
    ("rules", "takes"),
    [
        ({"scope": "any"}, True),
        ({"scope": "any", "allowed_domains": {"b.com"}}, False),
        ({"scope": "any", "excluded_domains": {"a.com"}}, False),
        ({"scope": "host"}, False),
        ({"scope": "domain"}, False),
        ({"scope": "seeds", "seed_domains": {"b.com"}}, False),
    ],
)
def test_a_scope_that_takes_any_host_refuses_none(rules: dict[str, Any], takes: bool) -> None:
    scope = Scope(**rules)
    assert scope.takes_any_host() is takes
    assert (scope.refuses_host("a.com", "example.org") is None) is takes


@pytest.mark.parametrize(
    ("rules", "url", "reason"),
    [
        ({"allowed_domains": {"a.com"}}, "http://a.com/", None),
        ({"allowed_domains": {"a.com"}}, "http://www.a.com:8080/", None),
        ({"allowed_domains": {"a.com"}}, "http://xa.com/", "scope"),
        # Also what is on the page's own host.
        ({"allowed_domains": {"a.com"}}, "http://www.example.co.uk/b", "scope"),
        ({"excluded_domains": {"a.com"}}, "http://www.a.com/", "excluded"),
        ({"excluded_domains": {"example.co.uk"}}, "http://www.example.co.uk/b", "excluded"),
        ({"excluded_domains": {"com"}}, "http://a.com/", "excluded"),
        ({"excluded_domains": {"a.com"}}, "http://a.org/", None),
        ({"include": compiled([r"/blog/"])}, "http://a.com/blog/1", None),
        ({"include": compiled([r"/blog/"])}, "http://a.com/shop/1", "include"),
        ({"include": compiled([r"/blog/", r"^https:"])}, "https://a.com/", None),
        ({"exclude": compiled([r"[?&]print="])}, "http://a.com/a?print=1", "exclude"),
        ({"exclude": compiled([r"[?&]print="])}, "http://a.com/a?p=1", None),
        ({"include": compiled(["a"]), "exclude": compiled(["a"])}, "http://a.com/", "exclude"),
        ({"skipped_extensions": set()}, "http://a.com/b.pdf", None),
    ],
)
def test_domains_and_patterns_decide(rules: dict[str, Any], url: str, reason: str | None) -> None:
    scope = Scope(scope="any", **rules)
    assert scope.refuses(url, page_url=PAGE, depth=1) == reason


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://a.com/x", None),
        ("http://deep.a.com/x", None),
        ("http://b.com/x", "scope"),
        # A page that was reached is within: a seed may have led there.
        ("http://other.example.co.uk/", None),
    ],
)
def test_the_scope_of_seeds_spans_their_domains(url: str, reason: str | None) -> None:
    scope = Scope(scope="seeds", seed_domains={"a.com"})
    assert scope.refuses(url, page_url=PAGE, depth=1) == reason


@pytest.mark.parametrize(
    ("depth", "url", "reason"),
    [
        (0, "http://elsewhere.org/", None),
        (0, "http://elsewhere.org/a.pdf", None),
        (0, "http://bad.com/", "excluded"),
        (1, "http://elsewhere.org/", "scope"),
        (1, "http://example.co.uk/", None),
        (1, "http://bad.com/", "excluded"),
        (9, "http://example.co.uk/", None),  # no step deeper
    ],
)
def test_a_seed_may_redirect_anywhere_and_other_pages_within_the_scope(
    depth: int, url: str, reason: str | None
) -> None:
    scope = Scope(excluded_domains={"bad.com"}, max_depth=2)
    assert scope.refuses_redirect(url, source_url=PAGE, depth=depth) == reason


@pytest.mark.parametrize(
    ("scope", "url", "reason"),
    [
        ("host", "http://maps.example.co.uk/s.xml.gz", None),
        ("host", "http://cdn.com/s.xml", "scope"),
        ("any", "http://cdn.com/s.xml", None),
        ("any", "http://bad.com/s.xml", "excluded"),
    ],
)
def test_a_sitemap_may_be_anywhere_in_its_sites_domain(
    scope: str, url: str, reason: str | None
) -> None:
    rules = Scope(scope=scope, excluded_domains={"bad.com"})
    assert rules.refuses_sitemap(url, site=PAGE) == reason


@pytest.mark.parametrize(
    ("host", "domains", "found"),
    [
        ("a.com", {"a.com"}, True),
        ("b.a.com:80", {"a.com"}, True),
        ("xa.com", {"a.com"}, False),
        ("[::1]:80", {"[::1]"}, True),
        ("127.0.0.1", {"127.0.0.1"}, True),
        ("com", {"a.com"}, False),
    ],
)
def test_a_host_is_within_a_domain(host: str, domains: set[str], found: bool) -> None:
    assert is_within(host, domains) == found


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(", "is no regular expression: missing"),
        ("a" * 501, "has 501 characters; use 500 at the most"),
        ("(a+)+$", "takes too long"),
        (r"(\w+/?)*#", "takes too long"),
        (r".*.*.*.*=x", "takes too long"),
    ],
)
def test_a_pattern_that_will_not_do_is_named(pattern: str, text: str) -> None:
    with pytest.raises(BadPattern, match=text) as caught:
        compiled([pattern])
    assert repr(pattern)[:5] in str(caught.value)


def test_there_is_a_limit_on_patterns() -> None:
    with pytest.raises(BadPattern, match="101 patterns are too many"):
        compiled(["a"] * 101)


@pytest.mark.parametrize(
    "pattern", [r"/blog/", r".*\.html$", r"^https?://[^/]+/(a|b)/\d+", r"(?i)PRINT"]
)
def test_usual_patterns_are_taken(pattern: str) -> None:
    assert compiled([pattern])[0].pattern == pattern


@pytest.mark.parametrize(
    ("given", "skipped"),
    [("", frozenset()), ([], frozenset()), (".PDF, zip,", {"pdf", "zip"}), (["", "a"], {"a"})],
)
def test_extensions_that_are_skipped_may_be_given(given: Any, skipped: set[str]) -> None:
    found = skipped_extensions(project_crawler(SKIPPED_EXTENSIONS=given).settings)
    assert found == skipped
    page = "http://h.test/a"
    assert Scope(skipped_extensions=found).refuses(page, page_url=page, depth=1) is None


@pytest.mark.parametrize(
    ("settings", "followed"),
    [
        ({}, DOCUMENTS),
        ({"FOLLOW_DOCUMENTS": False}, frozenset()),
        ({"FOLLOW_MEDIA": True}, DOCUMENTS | MEDIA),
        ({"FOLLOW_DOCUMENTS": "0", "FOLLOW_MEDIA": "1"}, MEDIA),
    ],
)
def test_documents_and_media_are_followed_if_they_are_wanted(
    settings: dict[str, Any], followed: frozenset[str]
) -> None:
    found = skipped_extensions(project_crawler(**settings).settings)
    assert set(KIND_OF_ENDING) - found == followed


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("http://h.test/", "page"),
        ("http://h.test/a.html?b=c.pdf", "page"),
        ("http://h.pdf/a", "page"),
        ("http://h.test/a.PDF?b", "document"),
        ("http://h.test/a.doc", "document"),
        ("http://h.test/a.mp4", "medium"),
        ("http://h.test/a.tar.gz", "file"),
    ],
)
def test_a_url_has_a_kind_by_its_ending(url: str, kind: str) -> None:
    assert kind_of(url) == kind


def test_no_ending_is_of_two_kinds() -> None:
    assert not MEDIA & DOCUMENTS
    assert not DOCUMENTS & OLD_DOCUMENTS
    assert {KIND_OF_ENDING[ending] for ending in MEDIA} == {"medium"}
    assert {KIND_OF_ENDING[ending] for ending in DOCUMENTS | OLD_DOCUMENTS} == {"document"}
