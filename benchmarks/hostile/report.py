"""The table of the docs: what each hostile server does, and how a crawl ended it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from demo.hostile.zoo import GROUPS

if TYPE_CHECKING:
    from benchmarks.hostile.zoo import Row

BEGIN: Final = "<!-- Written by `make hostile`: change what it is made of, not this table. -->"
END: Final = "<!-- The end of what `make hostile` writes. -->"
_BETWEEN: Final = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
_HEADS: Final = ("behaviour", "a server that …", "outcome", "s", "hold, ms", "peak, MB")


def table(rows: Iterable[Row] = ()) -> str:
    """Return the table of all behaviours, with the figures of those that were crawled."""
    by_name = {row.name: row for row in rows}
    lines = [_line(_HEADS), _line(["---"] * 3 + ["--:"] * 3)]
    for group, members in GROUPS.items():
        lines.append(_line([f"**{group}**", *[""] * (len(_HEADS) - 1)]))
        lines += [
            _line([f"`{each.name}`", each.does, *_figures(each.name, each.outcome, by_name)])
            for each in members
        ]
    return "\n".join(lines)


def replaced(page: str, text: str, below: str) -> str:
    """Return a page with another table, and what is said below it."""
    return _BETWEEN.sub(lambda _: f"{BEGIN}\n\n{text}\n\n{below}\n\n{END}", page)


def _figures(name: str, outcome: str, rows: Mapping[str, Row]) -> list[str]:
    row = rows.get(name)
    if row is None:
        return [outcome, "", "", ""]
    return [row.outcome, f"{row.seconds:.1f}", f"{row.hold_ms:.0f}", f"{row.peak_mb:.0f}"]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
