"""Read msgpack that may be damaged, or somebody else's: one exception for all that is wrong. Pure.

Redis may be shared, its records may be of another version, and workers may have been taken over.
"""

from __future__ import annotations

from typing import Any

import msgpack


class Damaged(ValueError):
    """Bytes that are no msgpack; the text says what is wrong."""


def unpacked(data: bytes, **options: Any) -> Any:
    """Return what was packed, or raise Damaged; `options` are those of msgpack."""
    try:
        return msgpack.unpackb(data, **options)
    # msgpack has no class of its own that all of its errors share.
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as error:
        raise Damaged(str(error)) from error
