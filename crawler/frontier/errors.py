"""What a call to the frontier may raise."""

from __future__ import annotations

import re
from typing import Any

from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
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
    ClusterDownError,
    TryAgainError,
    OutOfMemoryError,
    # Of a user whose rights somebody changed.
    NoPermissionError,
    # No node of a cluster answers.
    RedisClusterException,
    OSError,
)

# A command inside a script was refused: Redis 6 puts the code into the error's text, Redis 7 in
# front of it, and the client what a pipeline's command was. NOREPLICAS, MISCONF (the disk is full)
# and BUSY pass like an absence.
_REFUSED = re.compile(
    r"(?:^|-|caused error: \W*)(OOM|READONLY|NOREPLICAS|MISCONF|BUSY|MASTERDOWN) "
)
_REFUSALS: dict[str, type[Exception]] = {"OOM": OutOfMemoryError, "READONLY": ReadOnlyError}


def translated(error: ResponseError) -> Exception:
    """The error of a script or a pipeline as the kind of error it is."""
    found = _REFUSED.search(str(error)) if type(error) is ResponseError else None
    if found is None:
        return error
    return _REFUSALS.get(found[1], RedisConnectionError)(str(error))


_ADVICE: tuple[tuple[type[BaseException], str], ...] = (
    (OutOfMemoryError, "it is full: give it more maxmemory; pages wait with their links"),
    (ReadOnlyError, "it is a replica now; nothing new is started until it is a master again"),
    (AuthenticationError, "it refuses this process: correct user and password there, or REDIS_URL"),
    (NoPermissionError, "it refuses this process: give its user the rights for all commands"),
    (BusyLoadingError, "it is loading its data; nothing new is started meanwhile"),
)


def advice(error: BaseException) -> str:
    """What somebody can do about one of RedisAway, or what happens meanwhile."""
    if "MISCONF" in str(error):
        return "its disk is full or broken, see its log; nothing new is started until it writes"
    found = (text for kind, text in _ADVICE if isinstance(error, kind))
    return next(found, "fetches in flight finish, nothing new is started")


async def executed(pipeline: Any) -> list[Any]:
    """The answers to a pipeline; a server that refuses it for a while is one of RedisAway."""
    try:
        answers: list[Any] = await pipeline.execute()
    except ResponseError as error:
        raise translated(error) from error
    return answers


class OwnerDead(Exception):
    """This instance was declared dead: its leases belong to others now."""
