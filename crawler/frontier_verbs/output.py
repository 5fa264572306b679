"""Print answers: fields and tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any


def print_json(value: Any) -> None:
    """One JSON document."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=_as_json))


def print_fields(fields: Mapping[str, Any]) -> None:
    """A line each, names aligned."""
    width = max(map(len, fields), default=0)
    for name, value in fields.items():
        print(f"{name:<{width}}  {shown(value)}")


def print_table(titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A line a row under titles; the last column may be as wide as it is."""
    lines = [list(titles), *([shown(value) for value in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles) - 1)]
    for line in lines:
        cells = [f"{text:<{width}}" for text, width in zip(line, widths, strict=False)]
        print("  ".join([*cells, line[-1]]).rstrip())


def shown(value: Any) -> str:
    """A value as people read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=_as_json)
    return "–" if value is None else str(value)


def moment(at_ms: float) -> datetime | None:
    """A time in ms since 1970; None for none."""
    return datetime.fromtimestamp(at_ms / 1000, UTC) if at_ms > 0 else None


def confirmed(question: str) -> bool:
    """Does the user, if there is one, say yes?"""
    if not sys.stdin.isatty():
        return False
    # Not by input(): standard output is for results.
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _as_json(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
