"""Values of settings are checked before anything starts."""

import re
from typing import Any

import pytest
from scrapy.settings import Settings

from crawler.commands import _validate
from crawler.errors import ConfigurationError
from crawler.servers.connections import redis_limit_s


def settings_with(**values: Any) -> Settings:
    settings = Settings()
    settings.setmodule("crawler.settings")
    settings.setdict(values, priority="cmdline")
    return settings


def test_the_defaults_are_right() -> None:
    _validate.check(settings_with())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DELAY_MIN", "0.5"),
        ("DOWNLOAD_DELAY", "0.5"),
        ("DOWNLOAD_TIMEOUT", "2.5"),
        ("RETRY_TIMES", "0"),
        ("AUTOTHROTTLE_ENABLED", "True"),
        ("DNS_OVERRIDES", '{"h.test": "127.0.0.1:80"}'),
        ("ALLOW_NETWORKS", "127.0.0.0/8,10.0.0.0/8"),
        ("REDIS_PARAMS", "{}"),
    ],
)
def test_values_from_a_command_line_are_taken(name: str, value: str) -> None:
    _validate.check(settings_with(**{name: value}))


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("DELAY_MIN", "abc", "a number"),
        ("DELAY_MIN", "-1", "a number, 0 or more"),
        ("DELAY_MIN", "nan", "a number"),
        ("LEASE_TTL", "inf", "0.5 seconds or more"),
        ("DELAY_MIN", "", "a number"),
        ("RETRY_TIMES", "1.5", "a whole number"),
        ("RETRY_TIMES", "-1", "a whole number, 0 or more"),
        ("CONCURRENT_REQUESTS", "0", "a whole number, 1 or more"),
        ("CONCURRENT_REQUESTS_PER_DOMAIN", "0", "a whole number, 1 or more"),
        ("MAX_OUTLINKS", "x", "a whole number"),
        ("DOWNLOAD_TIMEOUT", "soon", "a number"),
        ("AUTOTHROTTLE_ENABLED", "perhaps", "True or False"),
        ("DNS_OVERRIDES", "{bad", "a JSON object"),
        ("REDIS_PARAMS", "[1]", "a JSON object"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named(name: str, value: str, rule: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        _validate.check(settings_with(**{name: value}))
    assert f"{name} is {value!r}; give {rule}" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"), [("DNS_OVERRIDES", '{"a.test": "b"}'), ("ALLOW_NETWORKS", "foo")]
)
def test_an_address_that_is_none_is_named(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        _validate.check(settings_with(**{name: value}))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("FRONTIER_SHARD", "FRONTIER_SHARDS"),
        ("CRAWL_IDEL", "CRAWL_IDLE"),
        ("DELAY_MINN", "DELAY_MIN"),
        ("CONCURENT_REQUESTS", "CONCURRENT_REQUESTS"),
        ("MY_REDIS_URL", None),
        ("REDIS_URL_OF_TEAM", None),
        ("SOMETHING_ELSE", None),
    ],
)
def test_a_slip_on_the_command_line_is_told(
    name: str, meant: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    _validate.check(settings_with(**{name: "1"}))
    said = [f"There is no setting {name}; did you mean {meant}?"] if meant else []
    assert [record.getMessage() for record in caplog.records] == said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("USER_AGENT", "mybot/1.0 (+https://x.test)\n"),
        ("REDIS_START_URLS_KEY", "%(foo)s"),
        ("REDIS_HOST", "redis://r/"),
    ],
)
def test_what_would_fail_later_is_told_at_once(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is "):
        _validate.check(settings_with(**{"REDIS_URL": None, name: value}))


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"REDIS_TIMEOUT": "0"}, "REDIS_TIMEOUT is '0'; give seconds, more than 0"),
        (
            {"FRONTIER_SHARDS": "100000"},
            "FRONTIER_SHARDS is '100000'; give a whole number up to 1024",
        ),
        ({"MONGO_TIMEOUT": "0"}, "MONGO_TIMEOUT is '0'; give seconds, more than 0"),
        (
            {"REDIS_TIMEOUT": "10"},
            "REDIS_TIMEOUT is 10 and LEASE_TTL 30: a connection that goes silent would cost",
        ),
        (
            {"REDIS_TIMEOUT": "10"},
            "its leases. Set REDIS_TIMEOUT to 7.5 or less, or LEASE_TTL to 40 or more.",
        ),
    ],
)
def test_time_limits_of_servers_that_cost_leases_or_are_none_are_refused(
    values: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(text)):
        _validate.check(settings_with(**values))


def test_the_time_limit_of_redis_follows_the_one_of_leases() -> None:
    assert redis_limit_s(settings_with()) == 7.5
    assert redis_limit_s(settings_with(LEASE_TTL=6)) == 1.5
    assert redis_limit_s(settings_with(LEASE_TTL=2)) == 1
    assert redis_limit_s(settings_with(LEASE_TTL=400)) == 7.5
    assert redis_limit_s(settings_with(LEASE_TTL=400, REDIS_TIMEOUT=90)) == 90


def test_leases_that_would_end_at_once_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"LEASE_TTL is '0'; give 0.5 seconds or more"):
        _validate.check(settings_with(LEASE_TTL="0"))
