"""What a server that refuses for a while says, by scripts, commands and pipelines."""

import pytest
from redis.exceptions import (
    ClusterError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError

from crawler.servers.redis.errors import RedisAway, translated


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("MISCONF Errors writing to the AOF file", RedisConnectionError),
        ("Error running script: @user_script:9: -MISCONF Errors", RedisConnectionError),
        ("Command # 1 (HINCRBY a b 1) of pipeline caused error: MISCONF E", RedisConnectionError),
        ("Command # 1 (HSET k) caused error: ('MISCONF Errors writing',)", RedisConnectionError),
        ("OOM command not allowed when used memory > 'maxmemory'", OutOfMemoryError),
        ("READONLY You can't write against a read only replica", ReadOnlyError),
        (
            "ACL failure in script: User c has no permissions to run the 'hset' command script: 1f",
            NoPermissionError,
        ),
        (
            "@user_script:2: The user executing the script can't run this command or subcommand",
            NoPermissionError,
        ),
    ],
)
def test_a_refusal_that_passes_is_an_absence(text: str, kind: type[Exception]) -> None:
    found = translated(ResponseError(text))
    assert type(found) is kind
    assert isinstance(found, RedisAway)


def test_a_connection_that_the_client_closed_under_our_hands_is_an_absence() -> None:
    found = translated(AttributeError("'NoneType' object has no attribute 'writelines'"))
    assert isinstance(found, RedisAway)


def test_a_cluster_whose_nodes_send_us_from_one_to_the_other_is_away() -> None:
    assert isinstance(ClusterError("TTL exhausted."), RedisAway)


@pytest.mark.parametrize(
    "text", ["WRONGTYPE Operation against a key", "ERR unknown command 'MISCONF '"]
)
def test_other_errors_stay_what_they_are(text: str) -> None:
    error = ResponseError(text)
    assert translated(error) is error
