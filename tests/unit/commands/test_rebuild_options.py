"""Options of a crawl whose frontier is made anew: those of its last run, and those given now."""

from datetime import UTC, datetime
from typing import Any

import pytest

from crawler.commands.frontier import _check_generic, _options_of
from crawler.errors import ConfigurationError
from crawler.storage.runs import Run
from tests.support.crawlers import project_crawler

AT = datetime(2026, 3, 1, tzinfo=UTC)


def run(**options: Any) -> Run:
    return Run("r1", "web", "web", "box", 1, "me", "w1", "", AT, AT, options=options)


def test_the_options_of_the_last_run_are_taken() -> None:
    # As a run records them: lists as text, settings and seeds among them.
    recorded = {
        "scope": "any",
        "max_depth": 3,
        "allowed_domains": "['a.test', 'b.test']",
        "recrawl": "fixed:7d",
        "seeds": "http://a.test/",
        "DELAY_MIN": 0.5,
    }
    assert _options_of(run(**recorded), []) == {
        "scope": "any",
        "max_depth": 3,
        "allowed_domains": ["a.test", "b.test"],
        "recrawl": "fixed:7d",
    }


def test_given_options_count_more() -> None:
    given = ["scope=seeds", "seeds=http://a.test/"]
    assert _options_of(run(scope="any"), given) == {"scope": "seeds"}


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        ("scope", "no NAME=VALUE"),
        ("scop=any", "no argument 'scop'"),
        ("scope=all", "scope is 'all'"),
    ],
)
def test_wrong_arguments_are_named(argument: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        _options_of(run(), [argument])


def test_an_option_that_its_record_cut_is_asked_for() -> None:
    with pytest.raises(ConfigurationError, match="give it by -a allowed_domains="):
        _options_of(run(allowed_domains="['a.test', 'b.te"), [])


def test_only_crawls_of_the_generic_spider_are_rebuilt() -> None:
    settings = project_crawler().settings
    _check_generic("web", settings)
    with pytest.raises(ConfigurationError, match="the spider 'shop', which is not the generic one"):
        _check_generic("shop", settings)
