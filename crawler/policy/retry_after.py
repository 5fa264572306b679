"""Read a Retry-After header. Pure but for dates, which are compared with the given time."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime

MAX_S = 86_400


def retry_after_s(value: bytes | None, *, now_s: float | None = None) -> float | None:
    """Seconds to wait, a day at the most, or None for a header that is missing or is nonsense."""
    if not value:
        return None
    text = value.decode("latin-1").strip()
    if text.isascii() and text.isdigit():
        return float(min(int(text[:9]), MAX_S))
    try:
        then = parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return min(max(0.0, then - (time.time() if now_s is None else now_s)), MAX_S)
