"""Print answers: fields, tables and progress bars for people, JSON for programs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from crawler.admin.queries import json_default

# Control characters, except line ends and tabs: a terminal would obey them.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def as_json(value: Any, *, indent: int | None = None) -> str:
    """Format a value as JSON; dates in ISO 8601."""
    return json.dumps(value, indent=indent, ensure_ascii=False, default=json_default)


def print_json(value: Any) -> None:
    """Print one JSON document."""
    print(as_json(value, indent=2))


def shown(value: Any) -> str:
    """Format a value of a crawl for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return "–" if value is None else shown_raw(value)


def shown_raw(value: Any) -> str:
    """Format a stored value for people: dates with their zone, numbers as they are."""
    if isinstance(value, datetime):
        return time(value)
    return harmless(as_json(value) if isinstance(value, list | dict) else str(value))


def fields(values: Mapping[str, Any], show: Callable[[Any], str] = shown) -> str:
    """Format a line for each field, with names aligned."""
    width = max(map(len, values), default=0)
    return "\n".join(f"{name:<{width}}  {show(value)}" for name, value in values.items())


def print_table(titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a line for each row under titles; the last column may have any width."""
    lines = [list(titles), *([shown(value) for value in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles) - 1)]
    for line in lines:
        cells = [f"{text:<{width}}" for text, width in zip(line, widths, strict=False)]
        print("  ".join([*cells, line[-1]]).rstrip())


def harmless(text: str) -> str:
    """Replace control characters in a text from the web, so that it cannot steer a terminal."""
    return _CONTROLS.sub("\ufffd", text)


def time(at: datetime) -> str:
    """Format a time with its zone."""
    return f"{at:%Y-%m-%d %H:%M:%S %Z}"


def confirmed(question: str) -> bool:
    """Ask the user for a yes; without a terminal the answer is no."""
    if not sys.stdin.isatty():
        return False
    # Not by input(): standard output is for results.
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar during the block, which gets the function that advances it."""
    console = Console(stderr=True)
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task(what, total=total)
        yield lambda steps: progress.advance(task, steps)
