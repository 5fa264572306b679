"""Draw reproducible numbers from names. Pure: the same name gives the same numbers everywhere."""

import hashlib
import struct

_FORMATS: dict[int, struct.Struct] = {}


def draws(name: str, count: int) -> tuple[int, ...]:
    """Return `count` unsigned 32-bit numbers that depend on `name` only."""
    layout = _FORMATS.get(count)
    if layout is None:
        layout = _FORMATS[count] = struct.Struct(f"<{count}I")
    return layout.unpack(hashlib.shake_128(name.encode()).digest(4 * count))


def draw(name: str) -> int:
    """Return one unsigned 32-bit number that depends on `name` only."""
    return draws(name, 1)[0]
