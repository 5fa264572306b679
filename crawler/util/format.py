"""Numbers and durations as people read and write them: 1,234, 2h 5m, 10m, 7d, 5y. Pure."""

import re
from collections.abc import Mapping

_REASONS_SHOWN = 5


def duration(seconds: float) -> str:
    """Return a duration as 5 s, 3:07 or 2:03:07."""
    whole = max(0, round(seconds))
    minutes, left = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{left:02}"
    return f"{minutes}:{left:02}" if minutes else f"{left} s"


def about(seconds: float) -> str:
    """Return a duration in its largest unit: 5 s, 3 min, 23 h or 12 d."""
    left = max(0.0, seconds)
    for unit, most in (("s", 60), ("min", 60), ("h", 24)):
        if left < most:
            return f"{left:.0f} {unit}"
        left /= most
    return f"{left:,.0f} d"


def rate(per_second: float | None) -> str:
    """Return a rate with one decimal below ten, with none above."""
    if per_second is None:
        return "–"
    return f"{per_second:.1f}" if per_second < 10 else f"{per_second:,.0f}"


def share(part: float | None) -> str:
    """Return a share in percent; only all is 100%, and only nothing is 0%."""
    if part is None:
        return "–"
    percent = part * 100
    if 0 < percent < 100:
        percent = min(99.9, max(0.1, percent))
    return f"{percent:.1f}%"


def size(count_bytes: int) -> str:
    """Return a size in units of 1,000 bytes."""
    value = float(count_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"


def by_reason(counts: Mapping[str, int]) -> str:
    """Return the total and the most frequent reasons: 12 (timeout 9, status_503 3)."""
    total = sum(counts.values())
    if not total:
        return "0"
    shown = [f"{reason} {count:,}" for reason, count in list(counts.items())[:_REASONS_SHOWN]]
    if len(counts) > _REASONS_SHOWN:
        shown.append("…")
    return f"{total:,} ({', '.join(shown)})"


def plural(count: int, noun: str, nouns: str = "") -> str:
    """Return a count with its noun: 1 page, 1,234 pages."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


_DURATION = re.compile(r"(\d{1,9})\s*([smhdwy]?)", re.ASCII)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_536_000}


def seconds(text: str) -> int | None:
    """Return the seconds of a duration such as 90, 10m, 7d or 5y; None if the text is none.

    A year has 365 days.
    """
    found = _DURATION.fullmatch(text.strip())
    return int(found[1]) * _SECONDS[found[2]] if found is not None else None
