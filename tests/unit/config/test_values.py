"""Settings as the scheduler's parts take them."""

from types import SimpleNamespace
from typing import Any

import pytest
from scrapy.settings import Settings

from crawler import settings as ours
from crawler.config.values import value
from crawler.errors import ConfigurationError
from crawler.frontier.tuning import TypeBudget, TypeBudgets
from crawler.scheduler import frontier_tuning
from crawler.scheduling.options import CrawlOptions, budgets_of, given_options
from crawler.scheduling.outcome import RetryPolicy
from tests.support.crawlers import project_crawler


def given(spider: Any = None, **settings: Any) -> dict[str, Any]:
    return given_options(project_crawler(**settings).settings, spider)


def test_settings_as_they_are_by_default_order_nothing_for_the_fleet() -> None:
    assert given() == {}


def test_weights_that_were_set_are_options_of_the_fleet() -> None:
    weights = [1, 2, 3, 4, 5]
    spider = SimpleNamespace(options={"scope": "any"})
    assert given(spider, FRONTIER_WEIGHTS=weights) == {"weights": weights, "scope": "any"}
    assert given(FRONTIER_LOAD_THRESHOLD="7") == {"load_threshold": 7}


def test_weights_that_were_set_to_their_defaults_on_the_command_line_count_too() -> None:
    settings = Settings(
        {name: getattr(ours, name) for name in dir(ours) if name.isupper()}, priority="project"
    )
    settings.set("FRONTIER_LOAD_WEIGHTS", "60,25,10,4,1", "cmdline")
    assert given_options(settings, None) == {"load_weights": [60, 25, 10, 4, 1]}


@pytest.mark.parametrize("weights", [[1, 2, 3], "a,b,c,d,e", [0] * 5, [-1, 1, 1, 1, 1], [999] * 5])
def test_wrong_weights_are_told_by_the_settings_name(weights: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"FRONTIER_WEIGHTS is .*; give 5 whole numbers"):
        given(FRONTIER_WEIGHTS=weights)


def test_budgets_of_types_are_options_of_the_fleet_and_may_be_given_in_part() -> None:
    text = '{"document": {"share": 0.5, "max_per_host": "7"}}'
    budgets = {
        "document": {"share": 0.5, "max_per_host": 7, "max": 0},
        "medium": ours.TYPE_BUDGETS["medium"],
    }
    assert given(TYPE_BUDGETS=text) == {"type_budgets": budgets}
    assert budgets_of(budgets).document == TypeBudget(0.5, max_per_host=7)
    assert budgets_of(CrawlOptions().type_budgets) == TypeBudgets()


@pytest.mark.parametrize(
    ("budgets", "message"),
    [
        ("0.2", "TYPE_BUDGETS is '0.2'; give a JSON object"),
        ("{", "TYPE_BUDGETS is '{'; give a JSON object"),
        ({"pdf": {}}, "TYPE_BUDGETS has 'pdf'; use document, medium"),
        (
            {"document": 0.2},
            r"\['document'\] is 0.2; give an object with share, max_per_host",
        ),
        (
            {"document": {"most": 1}},
            r"\['document'\] has 'most'; use share, max_per_host",
        ),
        (
            {"medium": {"share": "a"}},
            r"\['medium'\]\['share'\] is 'a'; give a number from 0",
        ),
        ({"medium": {"share": -0.1}}, "give a number from 0 to 0.8"),
        ({"medium": {"max": 1.5}}, r"\['medium'\]\['max'\] is 1.5; give a whole number, 0 for no"),
        ({"document": {"share": 0.8}}, "give shares of 0.8 together at the most"),
    ],
)
def test_wrong_budgets_are_told_by_the_settings_name(budgets: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        given(TYPE_BUDGETS=budgets)


@pytest.mark.parametrize(("setting", "last"), [(0, 0), (3, 3), (31, 31), (99, 31)])
def test_retries_have_an_end_that_an_entry_can_count_to(setting: int, last: int) -> None:
    policy = RetryPolicy.from_settings(Settings({**vars(ours), "RETRY_TIMES": setting}))
    assert policy.is_last(last)
    assert not policy.is_last(last - 1)


def test_retries_may_be_switched_off() -> None:
    assert RetryPolicy.from_settings(project_crawler(RETRY_ENABLED="0").settings).is_last(0)
    assert not RetryPolicy.from_settings(project_crawler().settings).is_last(0)


@pytest.mark.parametrize(
    ("waiting", "shards", "full_at"), [(0, 12, 0), (1000, 1, 800), (1200, 12, 80), (10, 12, 1)]
)
def test_a_limit_of_waiting_urls_is_for_all_shards_together(
    waiting: int, shards: int, full_at: int
) -> None:
    whole = frontier_tuning(project_crawler(FRONTIER_MAX_WAITING=waiting).settings, beat_s=2.0)
    assert whole.per_shard(shards).full_at == full_at


@pytest.mark.parametrize(
    "given", [["a b"], "a:b", ["X-\u00e9"], [b"Server"], [1], 5, True, '["Server"]']
)
def test_what_is_no_name_of_a_header_is_told(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"PAGES_HEADERS is .*; give names of headers"):
        value(project_crawler(PAGES_HEADERS=given).settings, "PAGES_HEADERS")


def test_an_error_shows_no_password() -> None:
    given = '{"password": "hunter22"'
    with pytest.raises(ConfigurationError, match="REDIS_PARAMS is ") as error:
        value(project_crawler(REDIS_PARAMS=given).settings, "REDIS_PARAMS")
    assert "hunter22" not in str(error.value)
