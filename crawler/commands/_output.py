"""Print answers: fields, tables and progress bars for people, JSON for programs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


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


# What a terminal would obey instead of showing it, line ends and tabs aside.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def as_json(value: Mapping[str, Any], *, indent: int | None = None) -> str:
    """As one JSON object."""
    return json.dumps(value, indent=indent, ensure_ascii=False, default=_page_as_json)


def fields(values: Mapping[str, Any]) -> str:
    """A line a field, for people."""
    width = max(len(name) for name in values)
    return "\n".join(f"{name:<{width}}  {_shown(value)}" for name, value in values.items())


def harmless(text: str) -> str:
    """A text from the web that steers no terminal."""
    return _CONTROLS.sub("\ufffd", text)


def time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S %Z}"


def decoded(body: bytes, charset: str | None) -> str:
    """A body as text, by the charset that the page has."""
    try:
        return body.decode(charset or "utf-8", "replace")
    except LookupError:
        return body.decode("utf-8", "replace")


def _shown(value: object) -> object:
    if isinstance(value, datetime):
        return time(value)
    if isinstance(value, list | dict):
        return harmless(json.dumps(value, ensure_ascii=False, default=_page_as_json))
    return harmless(value) if isinstance(value, str) else value


def _page_as_json(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


@contextmanager
def bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Inside the block, the function that is given moves the bar."""
    console = Console(stderr=True)
    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task(what, total=total)
        yield lambda steps: progress.advance(task, steps)
