"""Draw a fleet and its crawl: a live view on a terminal, else a line every few seconds."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from crawler.frontier import Sizes
from crawler.monitoring import logs
from crawler.monitoring.figures import success_rate
from crawler.util.format import duration, plural, rate, share, size
from crawler.util.tasks import end

_COLOURS = {
    "not started": "dim",
    "running": "green",
    "restarting": "yellow",
    "given up": "bold red",
    "ended": "dim",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One process: how it is by our own account, and what it said of itself."""

    name: str
    state: str
    pid: int | None
    restarts: int
    why: str
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FleetView:
    """All that is shown at one moment; `sizes` is None until the frontier has answered."""

    crawl: str
    elapsed_s: float
    rows: Sequence[Row]
    sizes: Sizes | None
    # What all processes of the crawl counted since this fleet started.
    pages: int = 0
    not_modified: int = 0
    failed: int = 0
    bytes: int = 0
    stopping: bool = False

    @property
    def rate(self) -> float:
        """Pages a second now, of the processes that say so."""
        return sum(float(row.about.get("pages_per_s") or 0) for row in self.rows)

    @property
    def success(self) -> float | None:
        """The success rate of this run; None before the first visit ended."""
        return success_rate(self.pages, self.not_modified, self.failed)

    @property
    def running(self) -> int:
        return sum(row.state == "running" for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """What programs are told at the end."""
        return {
            "crawl": self.crawl,
            "elapsed_s": round(self.elapsed_s, 1),
            "pages": self.pages,
            "not_modified": self.not_modified,
            "failed": self.failed,
            "success_rate": self.success,
            "bytes": self.bytes,
            "processes": [
                {"name": row.name, "state": row.state, "restarts": row.restarts, "why": row.why}
                for row in self.rows
            ],
            "unfinished": None if self.sizes is None else self.sizes.unfinished,
            "whole_crawl": None if self.sizes is None else asdict(self.sizes),
        }


def live_view(view: FleetView) -> RenderableType:
    """What a terminal shows."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for head in ("process", "state", "pid", "pages", "pages/s", "held", "restarts"):
        table.add_column(head, justify="left" if head in ("process", "state") else "right")
    for row in view.rows:
        about = row.about
        table.add_row(
            row.name,
            Text(row.why or row.state, style=_COLOURS.get(row.state, "")),
            str(row.pid or "–"),
            f"{about['pages']:,}" if "pages" in about else "–",
            rate(about.get("pages_per_s")),
            str(about.get("held", "–")),
            str(row.restarts or "–"),
        )
    lines = [Text(text) for text in _crawl_lines(view)]
    hint = "fetches in flight finish" if view.stopping else "Ctrl-C stops and keeps everything"
    return Panel(
        Group(table, Text(""), *lines),
        title=f"[bold]{escape(view.crawl)}[/] · {duration(view.elapsed_s)}",
        subtitle=f"[dim]{hint}[/]",
        title_align="left",
        subtitle_align="right",
        border_style="cyan",
    )


def plain_line(view: FleetView) -> str:
    """What a log shows every few seconds."""
    return f"{view.running} of {len(view.rows)} processes run; " + "; ".join(_crawl_lines(view))


def summary_lines(view: FleetView) -> list[str]:
    """What is said at the end."""
    restarts = sum(row.restarts for row in view.rows)
    count = len(view.rows)
    processes = "1 process" if count == 1 else f"{count} processes"
    pages = f"{plural(view.pages, 'page')} ({size(view.bytes)} read)"
    took = f"{duration(view.elapsed_s)}, {plural(restarts, 'restart')}"
    ended = f"{view.failed:,} failed, success {share(view.success)}"
    lines = [f"{pages} by {processes} in {took}; {ended}"]
    if view.sizes is not None:
        left = view.sizes.unfinished
        given_up = any(row.state == "given up" for row in view.rows)
        nothing = "nothing waits" if given_up else "finished: nothing is left to crawl"
        state = f"{plural(left, 'URL')} left" if left else nothing
        lines.append(
            f"The whole crawl: {view.sizes.pages:,} pages crawled, {view.sizes.dead:,} given up; "
            f"{state}"
        )
    return lines


def _crawl_lines(view: FleetView) -> list[str]:
    done = (
        f"this run: {plural(view.pages, 'page')}, {rate(view.rate)}/s now, "
        f"{size(view.bytes)} read, {view.failed:,} failed, success {share(view.success)}"
    )
    lines = [done]
    if view.sizes is not None:
        sizes = view.sizes
        front = " ".join(f"F{number} {count:,}" for number, count in enumerate(sizes.front, 1))
        lines.append(
            f"whole crawl: {sizes.pages:,} pages crawled, waiting {front} back {sizes.back:,}, "
            f"{sizes.retries:,} to retry, {plural(sizes.hosts, 'host')} waiting"
            + (", paused" if sizes.paused else "")
        )
    return lines


_LIVE_S = 1.0


class Screen:
    """`mode` is a value of PROGRESS. Standard error: standard output is for results."""

    def __init__(self, mode: str, interval_s: float) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._shows = mode != "off"
        self._interval_s = interval_s
        self._live: Live | None = None
        wants_live = mode == "live" or (mode == "auto" and self._console.is_terminal)
        if wants_live and not logs.is_json():
            self._live = Live(console=self._console, auto_refresh=False, transient=True)

    def say(self, text: str) -> None:
        """Print news, above the live view if there is one."""
        if logs.is_json():
            sys.stderr.write(logs.line(text) + "\n")
        else:
            self._console.print(text, soft_wrap=True, markup=False)

    @asynccontextmanager
    async def showing(self, view: Callable[[], Awaitable[FleetView]]) -> AsyncIterator[None]:
        """Show how things are, again and again, inside the block."""
        if not self._shows:
            yield
            return
        if self._live is not None:
            self._live.start()
        task = asyncio.get_running_loop().create_task(self._show_forever(view))
        try:
            yield
        finally:
            await end(task)
            if self._live is not None:
                self._live.stop()

    async def _show_forever(self, view: Callable[[], Awaitable[FleetView]]) -> None:
        while True:
            if self._live is not None:
                self._live.update(live_view(await view()), refresh=True)
                await asyncio.sleep(_LIVE_S)
            else:
                await asyncio.sleep(self._interval_s)
                self.say(plain_line(await view()))
