"""RFC 9309, rule by rule, with files of our own making. The numbers are the RFC's sections."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.robots.rules import (
    FORBIDDEN_FILE_RULES,
    MAX_BYTES,
    MAX_REDIRECTS,
    ForbiddenFile,
    RobotsRules,
    Unreachable,
    content_of,
    rules_ttl_s,
)

HOST = "http://h.test"
ALL = b"User-agent: *\n"


def allows(body: bytes, path: str, agent: str = "crawler") -> bool:
    return RobotsRules(body, agent).allows(HOST + path)


CORPUS = [
    # 2.1: a group is one or more user-agent lines, then rules.
    ("2.1", b"User-agent: a\nUser-agent: crawler\nDisallow: /x\n", "/x", False),
    ("2.1", b"User-agent: a\n\n\nUser-agent: crawler\n\nDisallow: /x\n", "/x", False),
    ("2.1", b"User-agent: a\n# remark\nUser-agent: crawler\nDisallow: /x\n", "/x", False),
    # A rule before any user-agent line belongs to nobody.
    ("2.1", b"Disallow: /x\nUser-agent: *\nDisallow: /y\n", "/x", True),
    ("2.1", b"Disallow: /x\nUser-agent: *\nDisallow: /y\n", "/y", False),
    # 2.2: names of fields in any case, blanks around the colon, comments at the end.
    ("2.2", b"USER-AGENT : *\nDisAllow  :  /x   \n", "/x", False),
    ("2.2", b"user-agent:*\ndisallow:/x\n", "/x", False),
    ("2.2", b"User-agent: * # all\nDisallow: /x # keep out\n", "/x", False),
    ("2.2", ALL + b"Disallow: /x#y\n", "/x", False),
    ("2.2", b"\tUser-agent:\t*\n\tDisallow:\t/x\n", "/x", False),
    # 2.2.1: the product token in any case; what follows it does not count.
    ("2.2.1", b"User-agent: CRAWLER\nDisallow: /x\n", "/x", False),
    ("2.2.1", b"User-agent: crawler/2.0\nDisallow: /x\n", "/x", False),
    ("2.2.1", b"User-agent: crawler bot\nDisallow: /x\n", "/x", False),
    # … as a whole: neither a part of ours, nor one that ours is a part of.
    ("2.2.1", b"User-agent: craw\nDisallow: /x\n", "/x", True),
    ("2.2.1", b"User-agent: crawlers\nDisallow: /x\n", "/x", True),
    ("2.2.1", b"User-agent: my-crawler\nDisallow: /x\n", "/x", True),
    ("2.2.1", b"User-agent: crawler-news\nDisallow: /x\n", "/x", True),
    # … groups of the same name are one.
    (
        "2.2.1",
        b"User-agent: crawler\nDisallow: /x\n\nUser-agent: crawler\nDisallow: /y",
        "/x",
        False,
    ),
    (
        "2.2.1",
        b"User-agent: crawler\nDisallow: /x\n\nUser-agent: crawler\nDisallow: /y",
        "/y",
        False,
    ),
    # … without a group of ours that of "*" counts, without that nothing does.
    ("2.2.1", b"User-agent: other\nDisallow: /\n\nUser-agent: *\nDisallow: /x\n", "/x", False),
    ("2.2.1", b"User-agent: crawler\nAllow: /\n\nUser-agent: *\nDisallow: /\n", "/x", True),
    ("2.2.1", b"User-agent: *\nDisallow: /\n\nUser-agent: crawler\nDisallow: /y\n", "/x", True),
    ("2.2.1", b"User-agent: other\nDisallow: /\n", "/x", True),
    ("2.2.1", b"User-agent: *x\nDisallow: /\n", "/y", True),
    ("2.2.1", b"User-agent:\nDisallow: /\n", "/y", True),
    # 2.2.2: the longest match counts, allow wins ties, order does not matter.
    ("2.2.2", ALL + b"Disallow: /a\nAllow: /a/b\n", "/a/b/c", True),
    ("2.2.2", ALL + b"Allow: /a/b\nDisallow: /a\n", "/a/b/c", True),
    ("2.2.2", ALL + b"Allow: /a\nDisallow: /a/b\n", "/a/b/c", False),
    ("2.2.2", ALL + b"Disallow: /a\nAllow: /a\n", "/a", True),
    ("2.2.2", ALL + b"Allow: /a\nDisallow: /a\n", "/a", True),
    (
        "2.2.2",
        ALL + b"Allow: /example/page/\nDisallow: /example/page/disallowed.gif\n",
        "/example/page/disallowed.gif",
        False,
    ),
    # … from the first byte of the path on, case counts.
    ("2.2.2", ALL + b"Disallow: /b\n", "/a/b", True),
    ("2.2.2", ALL + b"Disallow: /A\n", "/a", True),
    ("2.2.2", ALL + b"Disallow: /a\n", "/ab?c=d", False),
    # … nothing said is allowed, an empty rule says nothing.
    ("2.2.2", ALL + b"Disallow:\n", "/x", True),
    ("2.2.2", ALL + b"Allow: /y\n", "/x", True),
    # … bytes outside ASCII are compared as their escapes, escapes of any case as one.
    ("2.2.2", ALL + b"Disallow: /foo/bar/\xe3\x83\x84\n", "/foo/bar/%E3%83%84", False),
    ("2.2.2", ALL + b"Disallow: /foo/bar/%E3%83%84\n", "/foo/bar/%E3%83%84", False),
    ("2.2.2", ALL + b"Disallow: /foo/bar/%e3%83%84\n", "/foo/bar/%E3%83%84", False),
    ("2.2.2", ALL + b"Disallow: /foo/bar/%62%61%7A\n", "/foo/bar/baz", False),
    # … /robots.txt itself is always allowed.
    ("2.2.2", ALL + b"Disallow: /\n", "/robots.txt", True),
    # 2.2.3: "*" is any text, "$" the end, "#" a remark.
    ("2.2.3", ALL + b"Disallow: /*.php\n", "/a/b.php?c", False),
    ("2.2.3", ALL + b"Disallow: /*.php$\n", "/a/b.php", False),
    ("2.2.3", ALL + b"Disallow: /*.php$\n", "/a/b.php5", True),
    ("2.2.3", ALL + b"Disallow: /a*\n", "/a", False),
    ("2.2.3", ALL + b"Disallow: /a*b*c\n", "/a1b2c3", False),
    ("2.2.3", ALL + b"Disallow: /a*b*c\n", "/acb", True),
    ("2.2.3", ALL + b"Disallow: *\n", "/x", False),
    ("2.2.3", ALL + b"Disallow: /$\n", "/", False),
    ("2.2.3", ALL + b"Disallow: /$\n", "/x", True),
    ("2.2.3", ALL + b"Disallow: /this/path/exactly$\n", "/this/path/exactly", False),
    # 2.2.4: records of others are no part of a group, and end none.
    ("2.2.4", b"User-agent: *\nSitemap: http://h.test/m\nDisallow: /x\n", "/x", False),
    (
        "2.2.4",
        b"User-agent: crawler\nSitemap: http://h.test/m\nUser-agent: b\nDisallow: /x",
        "/x",
        False,
    ),
    ("2.2.4", b"Host: h.test\nUser-agent: *\nClean-param: a\nDisallow: /x\n", "/x", False),
    ("2.2.4", b"User-agent: crawler\nCrawl-delay: 5\nUser-agent: *\nDisallow: /\n", "/x", False),
    ("2.2.4", b"User-agent: crawler\n\nCrawl delay 5\n\nUser agent b\nDisallow: /x", "/x", False),
    ("2.2.4", b"User-agent: crawler\nClean-param: s /f\nUser-agent: b\nDisallow: /", "/x", False),
    (
        "2.2.4",
        b"User-agent: crawler\nContent-Signal: ai-train=no\nUser-agent: b\nDisallow: /\n",
        "/x",
        False,
    ),
    ("2.2.4", b"User-agent: crawler\nUnheard-of: 1\nUser-agent: b\nDisallow: /\n", "/x", False),
    (
        "2.2.4",
        b"User-agent: crawler\nX: 1\nUser-agent: b\nY: 1\nUser-agent: c\nDisallow: /x",
        "/x",
        False,
    ),
    ("2.2.4", b"User-agent: crawler\nX: 1\nUser-agent: b\nDisallow: /\nAllow: /x\n", "/x", True),
    # … while rules do end one, also empty ones and those with what is taken for a name.
    ("2.2.4", b"User-agent: crawler\nDisallow:\nUser-agent: *\nDisallow: /\n", "/x", True),
    ("2.2.4", b"User-agent: crawler\nX: 1\nDisalow /y\nUser-agent: *\nDisallow: /", "/x", True),
    ("2.2.4", b"User-agent: crawler\nX: 1\nAllow\nUser-agent: *\nDisallow: /", "/x", True),
    # … and a group that has only other records is still ours.
    ("2.2.4", b"User-agent: *\nDisallow: /\nUser-agent: crawler\nCrawl-delay: 1\n", "/x", True),
    # 2.3: any line end, a byte order mark, no end of the last line.
    ("2.3", b"\xef\xbb\xbfUser-agent: *\nDisallow: /x\n", "/x", False),
    ("2.3", b"\xef\xbbUser-agent: *\nDisallow: /x\n", "/x", False),
    ("2.3", b"\xefUser-agent: *\nDisallow: /x\n", "/x", False),
    ("2.3", b"\xbb\xbfUser-agent: *\nDisallow: /x\n", "/x", False),
    ("2.3", b"\xef\xbb\xbf\xef\xbb\xbfUser-agent: *\nDisallow: /x\n", "/x", False),
    ("2.3", b"\xffUser-agent: *\nDisallow: /x\n", "/x", False),
    ("2.3", b"User-agent: *\rDisallow: /x\r", "/x", False),
    ("2.3", b"User-agent: *\r\nDisallow: /x", "/x", False),
    ("2.3", b"User-agent: *\n\r\n\rDisallow: /x\r\r\n", "/x", False),
    # 2.5 and nonsense: what is no rule is passed over, what is one counts.
    ("2.5", b"<html><body>User-agent: *\nDisallow: /x</body></html>", "/y", True),
    ("2.5", b"\0\0\0\0", "/x", True),
    ("2.5", b"User-agent: *\0\nDis\0allow: /x\n", "/x", False),
    ("2.5", b"\xff\xfe\x00nonsense\nUser-agent: *\nDisallow: /x\n", "/x", False),
    ("2.5", b"%PDF-1.4\n" + ALL + b"Disallow: /x\n", "/x", False),
    ("2.5", ALL + b"Disallow: /x\n" + b"#" * MAX_BYTES, "/x", False),
    ("2.5", ALL + b"#" * MAX_BYTES + b"\nDisallow: /x\n", "/x", True),
    ("2.5", ALL + b"#" * (MAX_BYTES - 25) + b"\nDisallow: /xyz\n", "/xy", True),
]


@pytest.mark.parametrize(
    ("body", "path", "allowed"),
    [case[1:] for case in CORPUS],
    ids=[f"{number}-{case[0]}" for number, case in enumerate(CORPUS)],
)
def test_a_rule_of_the_standard(body: bytes, path: str, allowed: bool) -> None:
    assert allows(body, path) is allowed


@pytest.mark.parametrize(
    ("section", "status", "answer"),
    [
        ("2.3.1.1", 200, b"rules"),
        ("2.3.1.1", 206, b"rules"),
        ("2.3.1.2", 301, b""),
        ("2.3.1.3", 400, b""),
        ("2.3.1.3", 401, ForbiddenFile()),
        ("2.3.1.3", 403, ForbiddenFile()),
        ("2.3.1.3", 404, b""),
        ("2.3.1.3", 410, b""),
        ("2.3.1.3", 499, b""),
        ("2.3.1.4", 429, Unreachable("status 429")),
        ("2.3.1.4", 500, Unreachable("status 500")),
        ("2.3.1.4", 503, Unreachable("status 503")),
        ("2.3.1.4", 599, Unreachable("status 599")),
    ],
)
def test_what_a_status_means(
    section: str, status: int, answer: bytes | ForbiddenFile | Unreachable
) -> None:
    assert content_of(status, b"rules") == answer


def test_2_3_1_3_a_forbidden_file_is_no_rules_or_a_closed_door() -> None:
    assert allows(FORBIDDEN_FILE_RULES["allow"], "/x")
    assert not allows(FORBIDDEN_FILE_RULES["deny"], "/x")


def test_2_3_1_2_five_redirects_are_followed() -> None:
    assert MAX_REDIRECTS >= 5


@pytest.mark.parametrize(
    ("cache_control", "seconds"),
    [
        (None, 86_400),
        (b"", 86_400),
        (b"public", 86_400),
        (b"max-age=7200", 7200),
        (b"public, Max-Age = 7200", 7200),
        (b'max-age="7200"', 7200),
        (b"max-age=999999999", 86_400),
        (b"max-age=0", 3600),
        (b"no-cache", 3600),
        (b"private, no-store", 3600),
        (b"s-maxage=10", 86_400),
        (b"x-max-age=10", 86_400),
        (b"max-age=-1", 86_400),
        (b"\xff", 86_400),
    ],
)
def test_2_4_rules_are_used_for_a_day_or_as_long_as_the_host_says(
    cache_control: bytes | None, seconds: float
) -> None:
    assert rules_ttl_s(86_400, cache_control) == seconds
    assert rules_ttl_s(60, cache_control) == 60


def test_2_2_4_sitemaps_are_for_everybody_and_each_counts_once() -> None:
    body = (
        b"Sitemap: http://h.test/1.xml\nUser-agent: other\nDisallow: /\n"
        b"sitemap:http://h.test/2.xml # the second\nSITEMAP: http://h.test/1.xml\nSitemap:\n"
    )
    assert RobotsRules(body, "crawler").sitemaps == ["http://h.test/1.xml", "http://h.test/2.xml"]
    assert RobotsRules(b"", "crawler").sitemaps == []
    many = b"".join(b"Sitemap: http://h.test/%d\n" % number for number in range(5000))
    assert len(RobotsRules(many, "crawler").sitemaps) == 1000


LINES = st.sampled_from(
    [
        b"User-agent: *",
        b"User-agent: crawler",
        b"User-agent: other",
        b"Disallow: /",
        b"Disallow: /a",
        b"Allow: /a/b",
        b"Disallow: /*c$",
        b"Crawl-delay: 2",
        b"Sitemap: http://h.test/m",
        b"# remark",
        b"nonsense",
        b"",
    ]
)
PATHS = ("/", "/a", "/a/b", "/b/c", "/c?d")


@given(st.binary(max_size=400), st.text(max_size=20))
def test_no_bytes_are_an_error(body: bytes, path: str) -> None:
    rules = RobotsRules(body, "crawler")
    assert rules.allows(HOST + "/" + path) in (True, False)
    assert rules.crawl_delay_s >= 0
    assert isinstance(rules.sitemaps, list)


@given(st.lists(LINES, max_size=12), st.data())
def test_line_ends_change_nothing(lines: list[bytes], data: st.DataObject) -> None:
    plain = RobotsRules(b"\n".join(lines), "crawler")
    end = st.sampled_from([b"\n", b"\r", b"\r\n"])
    mixed = b"".join(line + data.draw(end) for line in lines)
    other = RobotsRules(b"\xef\xbb\xbf" + mixed, "crawler")
    for path in PATHS:
        assert plain.allows(HOST + path) is other.allows(HOST + path), path
    assert plain.crawl_delay_s == other.crawl_delay_s
    assert plain.sitemaps == other.sitemaps


@given(st.lists(LINES, max_size=12))
def test_rules_for_others_change_nothing(lines: list[bytes]) -> None:
    # Without a rule of its own the last group would get the stranger's.
    body = b"\n".join([*lines, b"Disallow: /z"])
    other = RobotsRules(body + b"\nUser-agent: stranger\nDisallow: /\n", "crawler")
    plain = RobotsRules(body, "crawler")
    for path in PATHS:
        assert plain.allows(HOST + path) is other.allows(HOST + path), path
