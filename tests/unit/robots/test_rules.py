"""Rules of robots.txt after RFC 9309, from an answer to a decision."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.parsing.rights import MAX_STATEMENTS
from crawler.robots.rules import (
    FORBIDDEN_FILE_RULES,
    MAX_BYTES,
    ForbiddenFile,
    RobotsRules,
    Unreachable,
    content_of,
    text_of,
)
from demo.robots_kinds import DEMO_KINDS, FULL_KINDS, RobotsKind

HOST = "http://h.test"
# The others are decided by how they are fetched.
READ_KINDS = [kind for kind in DEMO_KINDS + FULL_KINDS if kind.access != "may" and not kind.fault]


def allows(body: bytes, path: str, agent: str = "crawler") -> bool:
    return RobotsRules(body, agent).allows(HOST + path)


@pytest.mark.parametrize("status", [200, 204, 299])
def test_a_success_speaks_for_itself(status: int) -> None:
    assert content_of(status, b"rules") == b"rules"


@pytest.mark.parametrize("status", [400, 404, 410, 451, 301, 304])
def test_an_answer_without_rules_allows_everything(status: int) -> None:
    assert content_of(status, b"User-agent: *\nDisallow: /") == b""
    assert allows(b"", "/private")


@pytest.mark.parametrize("status", [407, 429, 500, 502, 503, 504, 599])
def test_a_server_in_trouble_allows_nothing(status: int) -> None:
    assert content_of(status, b"") == Unreachable(f"status {status}")


@pytest.mark.parametrize(
    ("body", "path", "allowed"),
    [
        (b"User-agent: *\nDisallow: /", "/", False),
        (b"User-agent: *\nDisallow:", "/x", True),
        (b"User-agent: *\nDisallow: /a", "/ab", False),
        (b"User-agent: *\nDisallow: /a", "/A", True),
        (b"User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b", True),
        (b"User-agent: *\nAllow: /a/b\nDisallow: /a", "/a/b", True),
        (b"User-agent: *\nDisallow: /a\nAllow: /a", "/a", True),
        (b"User-agent: *\nDisallow: /*.php$", "/x/y.php", False),
        (b"User-agent: *\nDisallow: /*.php$", "/x/y.php?z", True),
        (b"User-agent: *\nDisallow: /*?id=", "/x?id=1", False),
        (b"User-agent: crawler\nDisallow: /\n\nUser-agent: *\nDisallow:", "/", False),
        (b"User-agent: CRAWLER\nDisallow: /\n\nUser-agent: *\nDisallow:", "/", False),
        (b"User-agent: other\nDisallow: /", "/", True),
        (b"User-agent: crawler\nAllow: /\n\nUser-agent: *\nDisallow: /", "/", True),
        (b"User-agent: a\nUser-agent: crawler\nDisallow: /", "/", False),
        (b"User-agent: crawler\nDisallow: /a\n\nUser-agent: crawler\nDisallow: /b", "/a", False),
        (b"User-agent: crawler\nDisallow: /a\n\nUser-agent: crawler\nDisallow: /b", "/b", False),
        (b"\xef\xbb\xbfUser-agent: *\nDisallow: /", "/", False),
        (b"User-agent: *\rDisallow: /", "/", False),
        (b"User-agent: *\r\nDisallow: /", "/", False),
        (b"User-agent: *\nDisallow: /\xff\xfe", "/", True),
        (b"user-agent:*#all\nDISALLOW:/x#y", "/x", False),
        (b"Disallow: /", "/", True),
        (b"<html>no rules</html>", "/", True),
        (b"\0\0\0", "/", True),
    ],
)
def test_rules_are_read_as_the_standard_says(body: bytes, path: str, allowed: bool) -> None:
    assert allows(body, path) is allowed


@pytest.mark.parametrize(
    ("agent", "line", "meant"),
    [
        ("MJ12bot", b"MJ12bot", True),
        ("MJ12bot", b"mj12BOT/v1.4.8", True),
        ("MJ12bot", b"MJ12bot v1.4.8 # all of them", True),
        ("MJ12bot", b"MJ12bot, others", True),
        ("MJ12bot", b"Mozilla/5.0 (compatible; MJ12bot/v1.4.8; http://mj12bot.com/)", True),
        ("MJ12bot", b"MJ", False),
        ("MJ12bot", b"MJ12", False),
        ("MJ12bot", b"MJ12bots", False),
        ("MJ12bot", b"MJ12bot-news", False),
        ("MJ12bot", b"MJ12bot.net", False),
        ("bot1", b"bot12", False),
        ("my.bot", b"My.Bot", True),
        ("my.bot", b"my", False),
        ("360Spider", b"360spider", True),
        # By the standard a name ends where its letters do.
        ("crawler", b"crawler2", True),
        ("crawler", b"crawler.example", True),
        # Names that the parser has a meaning of its own for.
        ("nobody", b"other", False),
        ("ours", b"other", False),
        ("?", b"other", False),
        ("", b"", False),
        ("", b"other", False),
    ],
)
def test_a_group_is_ours_by_the_whole_name(agent: str, line: bytes, meant: bool) -> None:
    body = b"User-agent: " + line + b"\nDisallow: /x\nCrawl-delay: 3\n"
    assert allows(body, "/x", agent) is not meant
    assert RobotsRules(body, agent).crawl_delay_s == (3.0 if meant else 0.0)


@pytest.mark.parametrize(
    "field", [b"User-agent ", b"User agent: ", b"useragent:", b"\xc2\xa0User-agent:\xc2\xa0"]
)
@pytest.mark.parametrize(("line", "meant"), [(b"My2Bot/1", True), (b"my2", False), (b"*", True)])
def test_a_line_that_the_parser_understands_is_one(field: bytes, line: bytes, meant: bool) -> None:
    assert allows(field + line + b"\nDisallow: /x\n", "/x", "my2bot") is not meant


@pytest.mark.parametrize("kind", READ_KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("agent", ["crawler", "otherbot", "stranger"])
def test_every_kind_of_the_synthetic_web_means_what_its_table_says(
    kind: RobotsKind, agent: str
) -> None:
    body = content_of(200 if kind.redirect else kind.status, kind.body)
    if isinstance(body, Unreachable):
        assert kind.access == "deny"
        return
    if isinstance(body, ForbiddenFile):
        body = FORBIDDEN_FILE_RULES["allow"]
    rules = RobotsRules(body, agent)
    for path in {*kind.probes, "/other"}:
        assert rules.allows(HOST + path) is (kind.decide(path, agent) == "allow"), path
    assert rules.crawl_delay_s == kind.crawl_delay_s(agent)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_file_of_wide_characters_is_obeyed(encoding: str, mark: str) -> None:
    text = f"{mark}User-agent: other\r\nDisallow: /a\r\n\r\nUser-Agent: *\r\nDisallow: /x\r\n"
    body = text.encode(encoding)
    assert not allows(body, "/x")
    assert allows(body, "/a")
    assert not allows(body, "/a", "other")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_letters_of_utf_16_are_read_as_such(encoding: str, mark: str) -> None:
    # U+010A has the byte of a line feed in it.
    body = f"{mark}# \u010a\nUser-agent: *\nDisallow: /\u0434\u043e\u043c\n".encode(encoding)
    assert not allows(body, "/%D0%B4%D0%BE%D0%BC")
    assert allows(body, "/other")


@pytest.mark.parametrize("lost", [1, 2])
def test_a_utf_16_file_that_lost_a_part_of_its_mark_is_obeyed(lost: int) -> None:
    for encoding in ("utf-16-le", "utf-16-be"):
        body = "\ufeffUser-agent: *\nDisallow: /x\n".encode(encoding)[lost:]
        assert not allows(body, "/x"), encoding


def test_a_utf_16_file_is_cut_between_its_lines() -> None:
    line = "Disallow: /0123456789\n"
    body = ("\ufeffUser-agent: *\n" + line * (MAX_BYTES // len(line))).encode("utf-16-le")
    text = text_of(body)
    assert MAX_BYTES // 2 - len(line) <= len(text) <= MAX_BYTES // 2
    assert text.endswith(line)


def test_a_crawl_delay_between_names_binds_those_before_it_alone() -> None:
    """What it stands below is what its author meant; the rules bind all of them."""
    body = (
        b"User-agent: first\nCrawl-delay: 30\nUser-agent: second\nUser-agent: third\n"
        b"Crawl-delay: 20\nUser-agent: *\nDisallow: /x\nCrawl-delay: 10\nSitemap: http://h.test/m\n"
    )
    delays = {"first": 30.0, "second": 20.0, "third": 20.0, "stranger": 10.0}
    for agent, delay_s in delays.items():
        rules = RobotsRules(body, agent)
        assert not rules.allows(HOST + "/x")
        assert rules.allows(HOST + "/y")
        assert rules.crawl_delay_s == delay_s
        assert rules.sitemaps == ["http://h.test/m"]


def test_a_body_is_cut_at_the_last_whole_line_within_the_limit() -> None:
    line = b"Disallow: /0123456789\n"
    body = b"User-agent: *\n" + line * (MAX_BYTES // len(line) + 10)
    text = text_of(body)
    assert len(text) <= MAX_BYTES
    assert text.endswith("Disallow: /0123456789\n")


def test_all_line_ends_are_one() -> None:
    assert text_of(b"\xef\xbb\xbfa\rb\r\nc\n\0d") == "a\nb\nc\nd"


def test_a_rule_that_the_limit_cuts_in_two_does_not_count() -> None:
    filler = b"#" * (MAX_BYTES - 30) + b"\n"
    body = b"User-agent: *\n" + filler + b"Disallow: /private-and-long"
    assert allows(body, "/privateer")


@pytest.mark.parametrize("value", [b"nan", b"inf", b"-5", b"1e999", b"many", b""])
def test_a_senseless_crawl_delay_is_none(value: bytes) -> None:
    assert RobotsRules(b"User-agent: *\nCrawl-delay: " + value, "crawler").crawl_delay_s == 0.0


def test_a_crawl_delay_of_ages_can_be_counted_with() -> None:
    rules = RobotsRules(b"User-agent: *\nCrawl-delay: 1e308", "crawler")
    assert rules.crawl_delay_s == 365 * 86_400


def test_a_hostile_pattern_is_matched_in_no_time() -> None:
    body = b"User-agent: *\nDisallow: /" + b"*a" * 40 + b"b\n"
    assert allows(body, "/" + "a" * 2000)


@pytest.mark.parametrize(
    "line", [b"allow" + b" " * 200_000 + b"x" * 200_000 + b": y", b" " * 400_000, b"\0" * 400_000]
)
def test_a_hostile_line_is_read_in_no_time(line: bytes) -> None:
    assert not allows(line + b"\nUser-agent: *\nDisallow: /x", "/x")


@given(st.binary(max_size=300))
def test_any_bytes_are_rules(body: bytes) -> None:
    rules = RobotsRules(body, "crawler")
    assert rules.allows(HOST + "/x") in (True, False)
    assert rules.crawl_delay_s >= 0


@pytest.mark.parametrize("rule", ["Disallow: /private{}/", "Allow: /*/print{}$"])
@pytest.mark.parametrize("number", [1, 30, 1000])
def test_the_memory_of_parsed_rules_is_estimated(number: int, rule: str) -> None:
    lines = ["User-agent: *", *(rule.format(each) for each in range(number))]
    body = "\n".join(lines).encode()
    RobotsRules(body, "crawler").allows("https://h.test/a")
    tracemalloc.start()
    try:
        rules = RobotsRules(body, "crawler")
        rules.allows("https://h.test/a")
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert rules.memory_bytes / 3 < taken < rules.memory_bytes * 3


USAGE = b"""Content-Signal: search=yes
User-agent: *
Content-Signal: search=yes, ai-train=no  # as always
Content-Usage: train-ai=n
Content-Usage: /open/*.txt$ train-ai=y
Disallow: /private

User-agent: other
User-agent: Crawler
content-signal : ai-train=yes
Disallow:
"""


@pytest.mark.parametrize(
    ("agent", "path", "lines"),
    [
        (
            "anybody",
            "/",
            [
                "Content-Signal: search=yes",
                "Content-Signal: search=yes, ai-train=no",
                "Content-Usage: train-ai=n",
            ],
        ),
        (
            "anybody",
            "/open/a/b.txt",
            [
                "Content-Signal: search=yes",
                "Content-Signal: search=yes, ai-train=no",
                "Content-Usage: /open/*.txt$ train-ai=y",
            ],
        ),
        ("crawler", "/open/b.txt", ["Content-Signal: search=yes", "content-signal : ai-train=yes"]),
    ],
)
def test_lines_about_use_are_told_as_they_apply(agent: str, path: str, lines: list[str]) -> None:
    rules = RobotsRules(USAGE, agent)
    assert rules.usage(HOST + path) == lines


def test_lines_about_use_do_not_change_what_is_allowed() -> None:
    rules = RobotsRules(USAGE, "anybody")
    assert not rules.allows(HOST + "/private")
    assert rules.allows(HOST + "/open")


def test_a_file_without_lines_about_use_tells_none() -> None:
    assert RobotsRules(b"User-agent: *\nDisallow: /content-usage", "x").usage(HOST) == ()


@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("/a", "/ab", True),
        ("/a$", "/ab", False),
        ("/a$", "/a", True),
        ("/*.php$", "/x/y.php?z", False),
        ("/*.php$", "/x.php/y.php", True),
        ("/*a*" * 50 + "b", "/" + "a" * 2000, False),
    ],
)
def test_paths_of_lines_about_use_match_as_those_of_rules(
    pattern: str, path: str, found: bool
) -> None:
    rules = RobotsRules(f"User-agent: *\nContent-Usage: {pattern} x=y".encode(), "any")
    assert bool(rules.usage(HOST + path)) is found


def test_of_many_lines_about_use_each_page_gets_its_own() -> None:
    lines = "".join(f"Content-Usage: /{number}/ train-ai=n\n" for number in range(50))
    rules = RobotsRules(f"User-agent: *\n{lines}".encode(), "any")
    assert rules.usage(HOST + "/49/a") == ["Content-Usage: /49/ train-ai=n"]
    assert rules.usage(HOST + "/50/a") == []
    same = RobotsRules(b"User-agent: *\n" + b"Content-Signal: search=yes\n" * 50, "any")
    assert len(same.usage(HOST + "/")) == MAX_STATEMENTS


def test_a_line_about_use_with_a_path_longer_than_urls_is_left_out() -> None:
    body = f"User-agent: *\nContent-Usage: /{'*a' * 500} x=y\nContent-Usage: a=b".encode()
    rules = RobotsRules(body, "any")
    assert rules.usage(HOST + "/" + "a" * 1000) == ["Content-Usage: a=b"]
