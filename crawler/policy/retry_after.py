"""Read a Retry-After header. Pure but for dates, which are compared with the given time."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime


def retry_after_s(value: bytes | None, *, now_s: float | None = None) -> float | None:
    """Seconds to wait, or None for a header that is missing or makes no sense."""
    if not value:
        return None
    text = value.decode("latin-1").strip()
    if text.isdigit():
        return float(text[:9])
    try:
        then = parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, then - (time.time() if now_s is None else now_s))
