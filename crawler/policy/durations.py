"""Read durations as people write them: 90, 30s, 10m, 2h, 7d. Pure."""

from __future__ import annotations

import re

_DURATION = re.compile(r"(\d{1,9})\s*([smhd]?)", re.ASCII)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds(text: str) -> int | None:
    """The seconds of a duration, or None for what is none."""
    found = _DURATION.fullmatch(text.strip())
    return int(found[1]) * _SECONDS[found[2]] if found is not None else None
