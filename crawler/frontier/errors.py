"""What a call to the frontier may raise."""

from __future__ import annotations

import re
from typing import Any

from redis.exceptions import (
    ClusterDownError,
    MasterDownError,
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


async def executed(pipeline: Any) -> list[Any]:
    """The answers to a pipeline; a server that refuses it for a while is one of RedisAway."""
    try:
        answers: list[Any] = await pipeline.execute()
    except ResponseError as error:
        raise translated(error) from error
    return answers


class OwnerDead(Exception):
    """This instance was declared dead: its leases belong to others now."""
