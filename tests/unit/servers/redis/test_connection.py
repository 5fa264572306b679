"""Connections to Redis: time limits by redis-py's own names, and commands as bytes."""

import math
from typing import Any

import pytest
from redis.asyncio import Connection
from redis.exceptions import DataError

from crawler.errors import ConfigurationError
from crawler.servers.redis.connection import quick, time_limits

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


@pytest.mark.parametrize(
    "command",
    [
        ("GET", "a"),
        ("CONFIG GET", b"maxmemory"),
        (b"CONFIG SET", "maxmemory", 0),
        ("SET", "é", 1.5),
        ("EVALSHA", "0" * 40, 1, "{web:0}", bytes(range(256)) * 400, *["x"] * 100),
        ("SET", "a", memoryview(b"bytes")),
        ("MGET", *map(str, range(1000))),
    ],
)
def test_commands_are_packed_as_by_redis_py(command: tuple[Any, ...]) -> None:
    assert b"".join(quick(Connection)().pack_command(*command)) == b"".join(
        bytes(part) for part in Connection().pack_command(*command)
    )


def test_an_argument_that_redis_cannot_keep_is_refused() -> None:
    with pytest.raises(DataError, match="NoneType"):
        quick(Connection)().pack_command("SET", "a", None)
