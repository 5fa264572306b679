"""Keys of indexes: those of the library that replay tools use, also for odd URLs."""

from time import perf_counter

import pytest
import surt as library
from hypothesis import example, given
from hypothesis import strategies as st

from crawler.storage.warc.keys import surt

PIECES = st.text("aZ09-_.~!$&'*+,;=:@/?%#( é", max_size=12)
HOSTS = st.one_of(
    st.sampled_from(
        "a.test www.a.test www2.b.a.test www.test localhost 10.0.0.1 A.Test [::1] a.test. "
        "xn--bcher-kva.test a_b.test 1.a.test user@a.test".split()
    ),
    st.from_regex(r"\A(www\d?\.)?([a-z0-9-]{1,5}\.){1,3}[a-z][a-z0-9]{1,3}\Z"),
)
PORTS = st.sampled_from(["", ":80", ":443", ":8080", ":65535", ":"])


@given(st.sampled_from(["http", "https", "HTTP"]), HOSTS, PORTS, PIECES, PIECES)
@example("http", "a.test", "", "", "")
@example("http", "a.test", "", "A/b/", "b=2&a=1&a&a=")
@example("https", "a.test", ":443", "x.aspx", "jsessionid=" + "0" * 32)
@example("http", "a.test", "", "", "CFID=1&CFTOKEN=2&x=3")
@example("http", "a.test", "", "(S(" + "a" * 24 + "))/x.aspx", "")
@example("http", "a.test", "", "(" + "a" * 24 + ")/x.aspx", "PHPSESSID=" + "a" * 32)
@example(
    "http", "a.test", "", "a;jsessionid=" + "0" * 32, "sid=" + "0" * 32 + "&a=1&sid=" + "1" * 32
)
@example("http", "a.test", "", "../a/.//../b/%2e%2E/c", "ASPSESSIONIDABCDEFGH=" + "a" * 24)
@example("http", "bücher.test", ":80", "%25%41%zz%C3%a9", "x=%26&é")
def test_keys_are_those_of_the_library(
    scheme: str, host: str, port: str, path: str, query: str
) -> None:
    url = f"{scheme}://{host}{port}/{path}" + (f"?{query}" if query else "")
    assert surt(url) == library.surt(url).replace(" ", "%20")


@pytest.mark.parametrize("part", ["cfid=", "id=a", "sid=", "%25", "(a(", "/../", "&"])
def test_long_urls_cost_no_more_than_their_length(part: str) -> None:
    def cost_s(length: int) -> float:
        url = "http://a.test/x?id=" + part * (length // len(part))
        started = perf_counter()
        surt(url)
        surt(url.replace("?", ""))
        return perf_counter() - started

    # Some ms; a pattern that begins anew at each character takes minutes.
    assert min(cost_s(200_000) for _ in range(3)) < 20.0


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://a.test", "test,a)/"),
        ("https://www.a.test/News/", "test,a)/news"),
        ("http://a.test:8080/?b=2&A=1", "test,a:8080)/?a=1&b=2"),
        ("http://a.test/a%20b", "test,a)/a%20b"),
    ],
)
def test_a_key_has_the_host_reversed_and_all_in_lower_case(url: str, key: str) -> None:
    assert surt(url) == key
