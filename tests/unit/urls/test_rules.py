"""The rules for spelling URLs: each in a table, with the settings that change them."""

import pytest
from scrapy.settings import Settings

from crawler import config, settings
from crawler.errors import ConfigurationError
from crawler.urls import Rejected, UrlRules, Urls, canonical, dropped_parameters
from crawler.urls.canonical import Parameters

SESSION = "0123456789abcdef0123456789abcdef"


def urls_with(**values: object) -> Urls:
    found = Settings()
    found.setmodule(settings)
    found.setdict(values)
    return Urls(config.url_rules(found))


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/%7Euser", "/~user"),
        ("/%41%2d%5f%2E", "/A-_."),
        ("/%c3%a9", "/%C3%A9"),
        ("/a%2fb", "/a%2Fb"),
        ("/a%2Bb+c", "/a%2Bb+c"),
        ("/%25%34%31", "/%2541"),
        # Half an escape must not become a whole one.
        ("/%%34%31", "/%%341"),
        ("/%4%31", "/%4%31"),
        ("/%zz%", "/%zz%"),
        ("/A/a", "/A/a"),
        ("//a//b/", "//a//b/"),
        ("/a%2e%2e/b", "/a../b"),
        ("/%2e%2e;x/", "/..;x/"),
        ("/?a=%7e&b=%2f", "/?a=~&b=%2F"),
        ("/?a=b+c%20d", "/?a=b+c%20d"),
    ],
)
def test_escapes_have_one_spelling(path: str, found: str) -> None:
    assert canonical(f"http://h.test{path}") == f"http://h.test{found}"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("?", ""),
        ("?&&", ""),
        ("?b=2&a=1", "?a=1&b=2"),
        # Equal names keep their order: it may mean something.
        ("?b=1&a=2&a=1", "?a=2&a=1&b=1"),
        ("?a&&b", "?a&b"),
        ("?B=1&a=1", "?B=1&a=1"),
        ("?a[]=1", "?a%5B%5D=1"),
        ("?UTM_Source=x&Fbclid=1", ""),
        ("?utm%5Fsource=x", ""),
        ("?utm=1", "?utm=1"),
        ("?gclid", ""),
        ("?PHPSESSID=1", ""),
        (f"?sid={SESSION}", ""),
        ("?sid=story-17", "?sid=story-17"),
        (f"?id={SESSION}", f"?id={SESSION}"),
        ("?ref=home", "?ref=home"),
    ],
)
def test_queries_are_sorted_and_less_what_makes_no_page(query: str, found: str) -> None:
    assert canonical(f"http://h.test/{query}") == f"http://h.test/{found}"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/a;jsessionid=1", "/a"),
        ("/a;JSESSIONID=1.node2?b", "/a?b"),
        ("/a;jsessionid=1/b;c=1", "/a/b;c=1"),
        ("/a/..;jsessionid=1/b", "/b"),
        ("/;jsessionid=1", "/"),
        ("/a;b", "/a;b"),
    ],
)
def test_sessions_in_paths_are_left_out(path: str, found: str) -> None:
    assert canonical(f"http://h.test{path}") == f"http://h.test{found}"


@pytest.mark.parametrize(
    ("host", "found"),
    [
        ("h.test.", "h.test"),
        ("h.test.:8080", "h.test:8080"),
        ("1.2.3.4.", "1.2.3.4"),
        ("h.test..", None),
        (".h.test", None),
        ("h..test", None),
        (".", None),
        ("0x7f.1..", None),
        ("a." * 130 + "test", None),
    ],
)
def test_full_names_lose_their_dot_and_impossible_ones_are_refused(
    host: str, found: str | None
) -> None:
    wanted = Rejected("malformed") if found is None else f"http://{found}/"
    assert canonical(f"http://{host}/") == wanted


@pytest.mark.parametrize("text", ["x" * 10**6, "http://h.test/" + "a" * 10**6, "\0", "http://\0"])
def test_no_text_is_too_much(text: str) -> None:
    assert isinstance(canonical(text), Rejected)


def test_settings_change_the_rules() -> None:
    urls = urls_with(
        URL_SORT_QUERY=False, URL_DROP_PARAMETERS=["ref", "x_*", "t=id"], URL_LENGTH_LIMIT=60
    )
    assert urls.canonical("http://h.test/?b=2&ref=1&a=1&x_y=2&t=3") == "http://h.test/?b=2&a=1&t=3"
    assert urls.canonical(f"http://h.test/?t={SESSION}") == "http://h.test/"
    assert urls.canonical("http://h.test/?utm_source=1") == "http://h.test/"
    assert urls.canonical("http://h.test/" + "a" * 60) == Rejected("too_long")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"URL_FOLD": ["www", "dots"]}, "URL_FOLD is ['www', 'dots']; use any of scheme, www"),
        ({"URL_DROP_PARAMETERS": ["a=b"]}, "URL_DROP_PARAMETERS: 'a=b' is no parameter"),
        ({"GROUP_BY": "ip"}, "GROUP_BY is 'ip'; use one of host, domain."),
    ],
)
def test_a_wrong_setting_is_named(values: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        urls_with(**values)
    assert text in str(error.value)


def test_the_settings_defaults_are_the_rules_defaults() -> None:
    assert urls_with().rules == UrlRules()


def test_the_bundled_list_is_sorted_out() -> None:
    found = dropped_parameters()
    assert found.names.isdisjoint(found.sessions)
    assert not any(name.startswith(found.prefixes) for name in found.names | found.sessions)


def test_comments_and_blank_lines_are_no_parameters() -> None:
    assert Parameters.parse(["# no", "", " A ", "b*"]) == Parameters(
        frozenset({"a"}), ("b",), frozenset()
    )
