"""Which links belong to a crawl."""

import pytest

from crawler.policy.url_filter import Scope, extension, registered_domain

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
    ],
)
def test_the_registered_domain_of_a_host(host: str, domain: str) -> None:
    assert registered_domain(host) == domain


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
