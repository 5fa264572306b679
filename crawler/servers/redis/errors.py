"""Errors of calls to Redis: which of them pass, and what to do about the others."""

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

# One of RedisAway: the server answers, but has no room.
RedisFull = OutOfMemoryError

# Raised while the server is away, failing over or full: the call is worth repeating.
RedisAway = (
    RedisConnectionError,
    RedisTimeoutError,
    ReadOnlyError,
    MasterDownError,
    # The cluster is down, or its nodes redirect a client in circles ("TTL exhausted.").
    ClusterError,
    TryAgainError,
    OutOfMemoryError,
    # Somebody changed the rights of the user.
    NoPermissionError,
    # No node of a cluster answers.
    RedisClusterException,
    OSError,
)

# Members of RedisAway from a server that refuses this user. Running processes wait until somebody
# corrects that; a start fails.
RedisRefuses = (AuthenticationError, AuthorizationError, NoPermissionError)

# Refusal of a command inside a script: Redis 6 puts the code into the error's text, Redis 7 in
# front of it, and the client adds the command of a pipeline. NOREPLICAS, MISCONF (the disk is full)
# and BUSY pass, as if the server were away.
_REFUSED = re.compile(
    r"(?:^|-|caused error: \W*)(OOM|READONLY|NOREPLICAS|MISCONF|BUSY|MASTERDOWN) "
)
# A command or a key inside a script for which the user has no right: Redis 7, and Redis 6.
_FORBIDDEN = re.compile(r"ACL failure in script: (.*?)(?: script: |$)|user executing the script")
_REFUSALS: dict[str, type[Exception]] = {"OOM": OutOfMemoryError, "READONLY": ReadOnlyError}

# Error of redis-py for a connection that it closed while it was in use, as it does with all
# connections of a cluster when one node says that the cluster is down.
CutOff = AttributeError


def translated(error: ResponseError | CutOff) -> Exception:
    """Return the error of a command, a script or a pipeline as its proper class."""
    if isinstance(error, CutOff):
        return RedisConnectionError("its connection was closed")
    if type(error) is not ResponseError:
        return error
    if (forbidden := _FORBIDDEN.search(str(error))) is not None:
        return NoPermissionError(forbidden[1] or str(error))
    found = _REFUSED.search(str(error))
    if found is None:
        return error
    # Without the line of the script, which does not help people.
    return _REFUSALS.get(found[1], RedisConnectionError)(str(error)[found.start(1) :])


_REMEDIES: tuple[tuple[type[BaseException], str], ...] = (
    (OutOfMemoryError, "it is full, give it more maxmemory"),
    (AuthenticationError, "correct user and password, there or in REDIS_URL"),
    (NoPermissionError, "give its user the rights in docs/security.md"),
)


def remedy(error: BaseException) -> str:
    """Return what somebody has to do about one of RedisAway; empty if it passes by itself."""
    if "MISCONF" in str(error):
        return "its disk is full or broken, see its log"
    return next((text for kind, text in _REMEDIES if isinstance(error, kind)), "")


def explain(error: BaseException) -> str:
    """Describe one of RedisAway for people: in brackets, followed by the remedy."""
    return f"({error}): {remedy(error)}" if remedy(error) else f"({error})"


async def answered(command: Awaitable[Any]) -> Any:
    """Await a command; a temporary refusal is raised as one of RedisAway."""
    try:
        return await command
    except (ResponseError, CutOff) as error:
        raise translated(error) from error


async def executed(pipeline: Any) -> list[Any]:
    """Execute a pipeline; a temporary refusal is raised as one of RedisAway."""
    answers: list[Any] = await answered(pipeline.execute())
    return answers
