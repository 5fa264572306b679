"""Rules for single hosts: which one fits, and what is wrong with those that do not."""

from typing import Any

import pytest

from crawler.politeness.host_rules import HostRule, HostRules

RULES = HostRules(
    {
        ".example.com": {"delay": 5},
        "www.example.com": {"delay": 1},
        ".slow.example.com": {"per_minute": 6, "budget": 10},
        "h.test:8080": {"blocked": True},
    },
    per_minute=30,
)


@pytest.mark.parametrize(
    ("host", "rule"),
    [
        ("example.com", HostRule(delay=5, per_minute=30)),
        ("a.example.com", HostRule(delay=5, per_minute=30)),
        ("A.Example.COM", HostRule(delay=5, per_minute=30)),
        ("a.example.com:8080", HostRule(delay=5, per_minute=30)),
        ("www.example.com", HostRule(delay=1, per_minute=30)),
        ("very.slow.example.com", HostRule(per_minute=6, budget=10)),
        ("notexample.com", HostRule(per_minute=30)),
        ("h.test:8080", HostRule(per_minute=30, blocked=True)),
        ("h.test", HostRule(per_minute=30)),
        ("[::1]:80", HostRule(per_minute=30)),
        ("", HostRule(per_minute=30)),
    ],
)
def test_the_longest_name_that_fits_has_its_say(host: str, rule: HostRule) -> None:
    assert RULES.for_host(host) == rule


def test_without_rules_nothing_is_different() -> None:
    assert HostRules({}).for_host("h.test") == HostRule()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"": {}}, "is no host"),
        ({".": {}}, "is no host"),
        ({"http://h.test/": {}}, "is no host"),
        ({"*.test": {}}, "is no host"),
        ({"h.test": 5}, "give an object"),
        ({"h.test": {"pause": 5}}, "use any of delay, per_minute, budget, parallelism, blocked"),
        ({"h.test": {"parallelism": 0}}, "a whole number of fetches, 1 to 100"),
        ({"h.test": {"parallelism": 2.0}}, "a whole number of fetches"),
        ({"h.test": {"parallelism": True}}, "a whole number of fetches"),
        ({"h.test": {"delay": -1}}, "delay of 'h.test' is -1; give seconds, 0 or more"),
        ({"h.test": {"delay": "1"}}, "give seconds"),
        ({"h.test": {"delay": float("nan")}}, "give seconds"),
        ({"h.test": {"per_minute": 0}}, "a number above 0"),
        ({"h.test": {"budget": 1.5}}, "a whole number of pages"),
        ({"h.test": {"budget": True}}, "a whole number of pages"),
        ({"h.test": {"blocked": "yes"}}, "true or false"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text.replace(".", r"\.")):
        HostRules(given)
