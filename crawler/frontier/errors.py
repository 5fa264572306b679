"""What a call to the frontier may raise."""

from __future__ import annotations

from redis.exceptions import (
    ClusterDownError,
    MasterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

# While the server is away, failing over or full: worth sending again.
RedisAway = (
    RedisConnectionError,
    RedisTimeoutError,
    ReadOnlyError,
    MasterDownError,
    ClusterDownError,
    TryAgainError,
    OutOfMemoryError,
    OSError,
)


class OwnerDead(Exception):
    """This instance was declared dead: its leases belong to others now."""
