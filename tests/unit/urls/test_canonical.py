"""Canonical URLs: one spelling, for any text; joined as browsers join."""

from urllib.parse import urlsplit

import ada_url
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scrapy import Request

from crawler.urls import (
    DEFAULT,
    Base,
    Rejected,
    authority_of,
    canonical,
    fingerprint,
    host_of,
)
from crawler.urls.canonical import hostname_of

BASE = "http://h.test/a/b?c"
urls = st.builds(
    "{}://{}/{}?{}#{}".format,
    st.sampled_from(["http", "HTTPS", "ftp"]),
    st.sampled_from(["h.test", "H.TEST:80", "h.test:8080", "[::1]", "127.1", "bücher.example", ""]),
    *[st.text(max_size=20)] * 3,
)


@given(st.one_of(st.text(), urls, st.text(st.characters(categories=["Cs", "Cc", "Zs", "L"]))))
@example("\ud800")
@example("http://h.test/\ud800")
@example("http://h.test/?&&utm_source=1&&")
@example("http://h.test/?&utm_source=1")
@example("http://h.test/%%34%31/%4%31%")
@example("http://h.test/..;jsessionid=1/a;jsessionid=2?b&a;jsessionid=3")
@example("http://h.test./?&&b&a")
@example("http://h.test/a|b^[c]`{}\\d?e|f^[g]`{}\\h'\"<>")
def test_canonical_takes_any_text_and_its_result_is_final(text: str) -> None:
    found = canonical(text)
    if isinstance(found, Rejected):
        return
    assert canonical(found) == found
    assert found.startswith(("http://", "https://"))
    assert host_of(found) in authority_of(found)
    assert fingerprint(found) == fingerprint(found)
    # What is fetched is what the fingerprint stands for.
    assert Request(found).url == found


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://H.Test", "http://h.test/"),
        ("  http://h.test/a  ", "http://h.test/a"),
        ("HTTP://h.test:80/", "http://h.test/"),
        ("https://h.test:443/", "https://h.test/"),
        ("https://h.test:80/", "https://h.test:80/"),
        ("http://h.test/a/../b/./c", "http://h.test/b/c"),
        ("http://h.test/a#b", "http://h.test/a"),
        ("http://h.test/?", "http://h.test/"),
        ("http://h.test/?utm_source=x&a=1&fbclid=y", "http://h.test/?a=1"),
        ("http://h.test/?utm_source=x", "http://h.test/"),
        ("http://h.test/?b=2&a=1", "http://h.test/?a=1&b=2"),
        ("http://bücher.example/ü", "http://xn--bcher-kva.example/%C3%BC"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://[0:0::1]:8080/", "http://[::1]:8080/"),
        ("http:\\\\h.test\\a", "http://h.test/a"),
        ("http://h.test/a b", "http://h.test/a%20b"),
        ("http://h.te\nst/", "http://h.test/"),
        ("http://h.test/a|b", "http://h.test/a%7Cb"),
    ],
)
def test_spellings_of_one_url_become_one(url: str, found: str) -> None:
    assert canonical(url) == found


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "no_scheme"),
        ("not a url", "no_scheme"),
        ("h.test/a", "no_scheme"),
        ("//h.test/a", "no_scheme"),
        ("http://", "malformed"),
        ("http://h test/", "malformed"),
        ("http://h.test:99999/", "malformed"),
        ("http://[::1/", "malformed"),
        ("http://1.2.3.256/", "malformed"),
        ("ftp://h.test/", "scheme"),
        ("javascript:alert(1)", "scheme"),
        ("data:text/html,x", "scheme"),
        ("mailto:a@h.test", "scheme"),
        ("http://user:secret@h.test/", "credentials"),
        ("http://user@h.test/", "credentials"),
        ("http://h.test/" + "a" * 2048, "too_long"),
    ],
)
def test_what_is_not_crawled_is_rejected_with_a_reason(url: str, reason: str) -> None:
    assert canonical(url) == Rejected(reason)


def test_the_longest_url_is_still_one() -> None:
    longest = "http://h.test/" + "a" * (2048 - len("http://h.test/"))
    assert canonical(longest) == longest


@pytest.mark.parametrize(
    ("link", "found"),
    [
        # From the URL standard's own test data, and what pages contain.
        ("", "http://h.test/a/b?c"),
        ("#x", "http://h.test/a/b?c"),
        ("?d", "http://h.test/a/b?d"),
        ("?", "http://h.test/a/b"),
        ("d", "http://h.test/a/d"),
        ("./d", "http://h.test/a/d"),
        ("../d", "http://h.test/d"),
        ("../../../d", "http://h.test/d"),
        ("/d", "http://h.test/d"),
        ("/", "http://h.test/"),
        ("//other.test/d", "http://other.test/d"),
        ("//other.test", "http://other.test/"),
        ("\\d", "http://h.test/d"),
        ("\\\\other.test\\d", "http://other.test/d"),
        ("/\\other.test/d", "http://other.test/d"),
        ("d\\e", "http://h.test/a/d/e"),
        ("http:d", "http://h.test/a/d"),
        ("http:/d", "http://h.test/d"),
        ("http:?d", "http://h.test/a/b?d"),
        ("http:", "http://h.test/a/b?c"),
        ("http://other.test", "http://other.test/"),
        ("HTTP://other.test/d", "http://other.test/d"),
        ("https:other.test", "https://other.test/"),
        ("https:/other.test", "https://other.test/"),
        (" \t\n/d\r\n ", "http://h.test/d"),
        ("/d\n/e", "http://h.test/d/e"),
        ("/\n/other.test/e", "http://other.test/e"),
        ("d;e?f", "http://h.test/a/d;e?f"),
        (";d", "http://h.test/a/;d"),
        ("d/http://x", "http://h.test/a/d/http://x"),
        ("1:d", "http://h.test/a/1:d"),
        ("d?e:f", "http://h.test/a/d?e:f"),
        (".", "http://h.test/a/"),
        ("..", "http://h.test/"),
        ("%2e%2E/d", "http://h.test/d"),
        ("d?http://x/y", "http://h.test/a/d?http://x/y"),
        ("d#http://x/y", "http://h.test/a/d"),
        ("javascript:void(0)", Rejected("scheme")),
        ("mailto:a@h.test", Rejected("scheme")),
        ("tel:123", Rejected("scheme")),
        ("http://", Rejected("malformed")),
        ("//", Rejected("malformed")),
    ],
)
def test_a_link_is_joined_as_browsers_do(link: str, found: str | Rejected) -> None:
    assert canonical(Base(BASE).join(link)) == found


@given(st.text())
@example("//")
@example(":")
@example("\ud800")
def test_any_link_can_be_joined(link: str) -> None:
    assert isinstance(canonical(Base(BASE).join(link)), str | Rejected)


@given(st.one_of(st.text(), st.text(st.sampled_from("/.\\a1:-_?#%;&= \t\n@[]"))))
@example("/a/.")
@example("a..")
@example("-a")
@example(".a")
@example("/é")
@example("//a")
def test_a_link_is_resolved_as_it_would_be_joined_and_spelled(link: str) -> None:
    assert DEFAULT.resolve(Base(BASE), link) == DEFAULT.spelling(Base(BASE).join(link))


# What decides how a link is joined: schemes, slashes of both kinds, dots, blanks, marks.
_LINK_PARTS = (
    "http: https: HTTP: ftp: javascript: mailto: // / \\ . .. ../ ./ ? # : ; @ % %2e %2F a b1 - _ "
    "é other.test h.test:80 :443 [::1] 127.1 xn-- = &"
).split()
_links = st.lists(st.sampled_from([*_LINK_PARTS, " ", "\t", "\n"]), max_size=8).map("".join)


@pytest.mark.parametrize("base", [BASE, "https://h.test:8443/", "http://h.test/a/b/c/?q=/x/"])
@given(link=st.one_of(_links, st.text(max_size=30)))
@example(link="http:/\\a")
@example(link="//h.test:80/..//.")
@example(link="?\n#")
@example(link="/.a/../b")
@example(link="/a/.b/%2E/c/..")
@example(link=".a/../../../../b/?/../")
def test_a_joined_link_is_what_browsers_make_of_it(base: str, link: str) -> None:
    try:
        expected: str | Rejected = canonical(ada_url.join_url(base, link))
    except (ValueError, UnicodeEncodeError):
        # No URL at all, or only with half a character.
        expected = Rejected("")
    found = canonical(Base(base).join(link))
    if isinstance(expected, Rejected):
        assert isinstance(found, Rejected)
    else:
        assert found == expected


def test_method_url_and_body_make_a_fingerprint() -> None:
    prints = {
        fingerprint("http://h.test/"),
        fingerprint("http://h.test/a"),
        fingerprint("http://h.test/", "POST"),
        fingerprint("http://h.test/", "POST", b"a"),
        fingerprint("http://h.test/", "POST", b"b"),
    }
    assert len(prints) == 5
    assert all(0 <= value < 2**64 for value in prints)


@pytest.mark.parametrize(
    ("url", "host", "authority"),
    [
        ("http://h.test/", "h.test", "http://h.test"),
        ("https://h.test:8443/a?b=/", "h.test:8443", "https://h.test:8443"),
        ("http://[::1]:80/", "[::1]:80", "http://[::1]:80"),
    ],
)
def test_host_and_authority_of_a_canonical_url(url: str, host: str, authority: str) -> None:
    assert host_of(url) == host
    assert authority_of(url) == authority


@pytest.mark.parametrize(
    "url",
    [
        "http://h.test/a/b",
        "HTTPS://User:Secret@H.Test:8443/a",
        "http://[2001:DB8::1]:80/",
        "http://h.test",
        "http://h.test?a=/b",
        "http://h.test#/b",
        f"http://{'h' * 3000}.test/",
        "data:text/html,<html></html>",
        "http:///a",
        "",
    ],
)
def test_hostnames_are_those_of_the_standard_library(url: str) -> None:
    assert hostname_of(url) == hostname_of(url) == (urlsplit(url).hostname or "")
