"""Time limits that users give to redis-py, by its own names."""

import math
from typing import Any

import pytest

from crawler.errors import ConfigurationError
from crawler.servers.redis.connection import time_limits

URL = "redis://:p@h:6379/0"


@pytest.mark.parametrize(
    ("url", "params", "found"),
    [
        (URL, {}, {}),
        (f"{URL}?db=1", {"password": "p"}, {}),
        (URL, {"socket_timeout": 30, "retry_on_timeout": True}, {"socket_timeout": 30}),
        (URL, {"socket_timeout": None}, {"socket_timeout": math.inf}),
        # As redis-py has it, what the URL says wins.
        (f"{URL}?socket_timeout=2&db=1", {"socket_timeout": 30}, {"socket_timeout": 2}),
        (f"{URL}?socket_connect_timeout=2.5", {}, {"socket_connect_timeout": 2.5}),
        ("unix:///s?socket_timeout=3", {}, {"socket_timeout": 3}),
    ],
)
def test_they_are_found_in_urls_and_parameters(
    url: str, params: dict[str, Any], found: dict[str, float]
) -> None:
    assert time_limits(url, params) == found


@pytest.mark.parametrize("value", ["soon", 0, -1, "nan", []])
def test_what_is_no_time_limit_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"socket_timeout is .* in REDIS_URL or REDIS_PAR"):
        time_limits(URL, {"socket_timeout": value})
