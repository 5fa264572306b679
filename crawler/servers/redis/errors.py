"""What a call to Redis may raise, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Awaitable
from typing import Any

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ClusterError,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

# One of RedisAway: it answers, but has no room.
RedisFull = OutOfMemoryError

# While the server is away, failing over or full: worth sending again.
RedisAway = (
    RedisConnectionError,
    RedisTimeoutError,
    ReadOnlyError,
    MasterDownError,
    # It is down, or its nodes send a client from one to the other ("TTL exhausted.").
    ClusterError,
    TryAgainError,
    OutOfMemoryError,
    # Of a user whose rights somebody changed.
    NoPermissionError,
    # No node of a cluster answers.
    RedisClusterException,
    OSError,
)

# Of those: it is there, and does not want us. Processes that run wait until somebody corrects that;
# a start tells it.
RedisRefuses = (AuthenticationError, AuthorizationError, NoPermissionError)

# A command inside a script was refused: Redis 6 puts the code into the error's text, Redis 7 in
# front of it, and the client what a pipeline's command was. NOREPLICAS, MISCONF (the disk is full)
# and BUSY pass like an absence.
_REFUSED = re.compile(
    r"(?:^|-|caused error: \W*)(OOM|READONLY|NOREPLICAS|MISCONF|BUSY|MASTERDOWN) "
)
_REFUSALS: dict[str, type[Exception]] = {"OOM": OutOfMemoryError, "READONLY": ReadOnlyError}

# What redis-py makes of a connection that it closed under the hands of whoever was using it, as it
# does with all of a cluster when one node says that the cluster is down.
CutOff = AttributeError


def translated(error: ResponseError | CutOff) -> Exception:
    """The error of a command, a script or a pipeline as the kind of error it is."""
    if isinstance(error, CutOff):
        return RedisConnectionError("its connection was closed")
    found = _REFUSED.search(str(error)) if type(error) is ResponseError else None
    if found is None:
        return error
    # Without the place in the script, which tells people nothing.
    return _REFUSALS.get(found[1], RedisConnectionError)(str(error)[found.start(1) :])


_REMEDIES: tuple[tuple[type[BaseException], str], ...] = (
    (OutOfMemoryError, "it is full, give it more maxmemory"),
    (AuthenticationError, "correct user and password, there or in REDIS_URL"),
    (NoPermissionError, "give its user the rights for all commands"),
)


def remedy(error: BaseException) -> str:
    """What somebody has to do about one of RedisAway; empty if that passes by itself."""
    if "MISCONF" in str(error):
        return "its disk is full or broken, see its log"
    return next((text for kind, text in _REMEDIES if isinstance(error, kind)), "")


def explain(error: BaseException) -> str:
    """Describe one of RedisAway for people: in brackets, followed by the remedy."""
    return f"({error}): {remedy(error)}" if remedy(error) else f"({error})"


async def answered(command: Awaitable[Any]) -> Any:
    """The answer to a command; a server that refuses it for a while is one of RedisAway."""
    try:
        return await command
    except (ResponseError, CutOff) as error:
        raise translated(error) from error


async def executed(pipeline: Any) -> list[Any]:
    """The same for those of a pipeline."""
    answers: list[Any] = await answered(pipeline.execute())
    return answers
