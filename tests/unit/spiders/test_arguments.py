"""Arguments of the spider, options of the crawl: what is taken, and how mistakes are told."""

import logging
from typing import Any

import pytest

from crawler.errors import ConfigurationError
from crawler.scheduling import options
from crawler.scheduling.options import CrawlOptions, checked, new_seed_domains
from crawler.spiders.web import Arguments, read_arguments


def test_all_arguments_are_read() -> None:
    found = read_arguments(
        {
            "seeds": "http://h.test/",
            "sitemaps": "http://h.test/a.xml, http://h.test/b.xml",
            "scope": "seeds",
            "allowed_domains": "B.test *.a.test",
            "excluded_domains": ".c.test",
            "include": "/a/ /b/",
            "exclude": r"\?x,y",
            "follow": "no",
            "max_depth": "3",
            "max_pages": 10,
            "max_pages_per_host": "0",
            "max_pages_per_minute": "600",
            "topic": "news.topic",
            "render": "auto",
            "scroll": "5",
            "max_time": "10m",
            "user_agent": "mybot/1.0 (+https://h.test/bot)",
            "crawl": "mine",
            "_job": "6487ec79947edab326d6db28a2d86511e8247444",
        }
    )
    assert found == Arguments(
        seeds="http://h.test/",
        sitemaps="http://h.test/a.xml, http://h.test/b.xml",
        options={
            "scope": "seeds",
            "allowed_domains": ["a.test", "b.test"],
            "excluded_domains": ["c.test"],
            "include": ["/a/", "/b/"],
            "exclude": [r"\?x,y"],
            "follow": False,
            "max_depth": 3,
            "max_pages": 10,
            "max_pages_per_host": 0,
            "max_pages_per_minute": 600,
        },
        topic="news.topic",
        rendering={"RENDER": "auto", "RENDER_SCROLL": 5},
        max_time_s=600,
        user_agent="mybot/1.0 (+https://h.test/bot)",
        crawl="mine",
    )
    assert read_arguments({}) == Arguments()


def test_domains_that_are_named_need_not_link_to_themselves_only() -> None:
    assert read_arguments({"allowed_domains": "a.test"}).options["scope"] == "any"
    assert read_arguments({"allowed_domains": "a.test", "scope": "host"}).options["scope"] == "host"


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86_400)]
)
def test_times_have_units(text: str, seconds: int) -> None:
    assert read_arguments({"max_time": text}).max_time_s == seconds


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"colour": "1"}, "no argument 'colour'. It has seeds, sitemaps, scope"),
        ({"seed": "http://a.test"}, "no argument 'seed'. Did you mean seeds? It has"),
        ({"Start_URLs": "http://a.test"}, "Did you mean seeds?"),
        ({"max-pages": "1"}, "Did you mean max_pages?"),
        ({"depth": "1"}, "Did you mean max_depth?"),
        ({"scope": "world"}, "scope is 'world'; use one of host, domain, seeds, any"),
        ({"allowed_domains": "http://a.test"}, "allowed_domains has 'http://a.test', which is no"),
        ({"allowed_domains": "a.test:80"}, "allowed_domains has 'a.test:80'"),
        ({"excluded_domains": "a.test/x"}, "excluded_domains has 'a.test/x'"),
        ({"include": "("}, "include: '(' is no regular expression"),
        ({"exclude": "(a+)+$"}, "exclude: '(a+)+$' takes too long"),
        ({"follow": "maybe"}, "follow is 'maybe'; say yes or no"),
        ({"max_depth": "1.5"}, "max_depth is '1.5'; give a whole number"),
        ({"max_pages": "-1"}, "max_pages is '-1'; give a whole number"),
        (
            {"recrawl": "weekly"},
            "recrawl is 'weekly'; use off, adaptive, fixed: and an interval",
        ),
        ({"recrawl": "budget:1000000"}, "budget: and visits an hour, day or week, as in"),
        ({"recrawl": "budget:0/d"}, "recrawl is 'budget:0/d'; use off, adaptive"),
        ({"recrawl": "fixed:99999999d"}, "recrawl is 'fixed:99999999d'; use off, adaptive"),
        # As of a variable that is not set.
        ({"topic": ""}, "topic is ''; give the file of a topic"),
        ({"render": "sometimes"}, "render is 'sometimes'; use one of never, auto, always"),
        ({"render": ""}, "render is ''; use one of never, auto, always"),
        ({"scroll": "down"}, "scroll is 'down'; give a whole number"),
        ({"scroll": "1.5"}, "scroll is '1.5'; give a whole number"),
        ({"scroll": "-1"}, "scroll is '-1'; give a whole number from 0 to 100"),
        ({"scroll": "101"}, "scroll is '101'; give a whole number from 0 to 100"),
        ({"max_time": "soon"}, "max_time is 'soon'; give seconds, or a number with m, h or d"),
        ({"max_time": "-1"}, "max_time is '-1'"),
        ({"user_agent": ""}, "user_agent is ''"),
        ({"user_agent": "a\r\nX: y"}, "user_agent is 'a"),
    ],
)
def test_a_mistake_names_argument_value_and_rule(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_arguments(arguments)
    assert text in str(caught.value)


@pytest.mark.parametrize("text", ["off", "adaptive", "fixed:7d", "fixed:30m", "budget:10/h"])
def test_recrawls_are_an_option_of_the_whole_crawl(text: str) -> None:
    assert read_arguments({"recrawl": text}).options == {"recrawl": text}
    assert CrawlOptions().changed({"recrawl": text}).recrawl == text
    assert CrawlOptions().recrawl == "off"


def test_options_that_are_wrong_in_redis_are_left_out_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        found = CrawlOptions().changed(
            {"scope": "world", "include": ["("], "max_pages": 5, "exclude": ["a"], "other": 1}
        )
    assert found == CrawlOptions(max_pages=5, exclude=("a",))
    assert len(caplog.messages) == 2
    assert found.url_filter().exclude[0].pattern == "a"


def test_options_are_checked_before_they_are_shared() -> None:
    assert checked({"excluded_domains": ["B.test", "a.test"]}) == {
        "excluded_domains": ["a.test", "b.test"]
    }
    with pytest.raises(ConfigurationError, match="no option 'depth'; there are scope"):
        checked({"depth": 1})


def test_the_domains_of_seeds_are_remembered_up_to_a_number(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(options, "MAX_DOMAINS", 3)
    current = CrawlOptions(seed_domains=frozenset({"a.test"}))
    urls = ["http://www.b.test/", "http://b.test/x", "http://a.test/"]
    assert new_seed_domains(current, urls) == ["b.test"]
    urls += ["http://c.test/", "http://d.test/"]
    assert new_seed_domains(current, urls) == ["b.test", "c.test"]
    assert "more than 3 domains" in caplog.text


@pytest.mark.parametrize("text", ["", " ", ",", " , "])
def test_domains_that_are_none_do_not_open_the_whole_web(text: str) -> None:
    assert read_arguments({"allowed_domains": text}).options == {"allowed_domains": []}
