"""Numbers and durations as people read and write them: 1,234, 2h 5m, 10m, 7d. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

_REASONS_SHOWN = 5


def duration(seconds: float) -> str:
    """5 s, 3:07 or 2:03:07."""
    whole = max(0, round(seconds))
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}" if minutes else f"{rest} s"


def rate(per_second: float | None) -> str:
    """One decimal where it matters, none above ten."""
    if per_second is None:
        return "–"
    return f"{per_second:.1f}" if per_second < 10 else f"{per_second:,.0f}"


def share(part: float | None) -> str:
    """In percent; never 100% of what is not all, nor 0% of what is not nothing."""
    if part is None:
        return "–"
    percent = part * 100
    if 0 < percent < 100:
        percent = min(99.9, max(0.1, percent))
    return f"{percent:.1f}%"


def size(count_bytes: int) -> str:
    """In units of 1,000, as disks are sold."""
    value = float(count_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"


def by_reason(counts: Mapping[str, int]) -> str:
    """The total, then the reasons with the most: 12 (timeout 9, status_503 3)."""
    total = sum(counts.values())
    if not total:
        return "0"
    shown = [f"{reason} {count:,}" for reason, count in list(counts.items())[:_REASONS_SHOWN]]
    if len(counts) > _REASONS_SHOWN:
        shown.append("…")
    return f"{total:,} ({', '.join(shown)})"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


_DURATION = re.compile(r"(\d{1,9})\s*([smhd]?)", re.ASCII)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds(text: str) -> int | None:
    """The seconds of a duration, or None for what is none."""
    found = _DURATION.fullmatch(text.strip())
    return int(found[1]) * _SECONDS[found[2]] if found is not None else None
