"""Draw a snapshot: a live view at the bottom of a terminal, or one line for a log.

Log lines scroll above the live view.
"""

from __future__ import annotations

import atexit
import logging
import sys
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from scrapy.utils.log import get_scrapy_root_handler

from crawler.frontier import Sizes
from crawler.monitoring import logs
from crawler.monitoring.console.figures import Process, Snapshot
from crawler.util.format import by_reason, duration, plural, rate, share

_BAR_WIDTH = 16


def live_view(snapshot: Snapshot) -> RenderableType:
    """What a terminal shows while the crawl runs."""
    process, crawl = snapshot.process, snapshot.crawl
    both = Table.grid(expand=True, padding=(0, 2, 0, 0))
    # Two halves of fixed width: a view that jumps cannot be read.
    both.add_column(ratio=1)
    both.add_column(ratio=1)
    waiting = Text("waiting for the frontier …", style="dim")
    both.add_row(
        _process_table(process),
        waiting if crawl is None else _crawl_table(crawl, snapshot.processes),
    )
    paused = " · [yellow]paused[/]" if crawl is not None and crawl.paused else ""
    dashboard = f"{escape(snapshot.dashboard)} · " if snapshot.dashboard else ""
    return Panel(
        both,
        title=f"[bold]{escape(snapshot.name)}[/] · {duration(process.elapsed_s)}{paused}",
        subtitle=f"[dim]{dashboard}Ctrl-C stops and keeps everything[/]",
        title_align="left",
        subtitle_align="right",
        border_style="cyan",
    )


def plain_line(snapshot: Snapshot) -> str:
    """What a log shows every few seconds."""
    process, crawl = snapshot.process, snapshot.crawl
    speed = f"{rate(process.recent_s)}/s now, {rate(process.average_s)}/s on average"
    items = f" and {plural(process.items, 'item')}" if process.items else ""
    parts = [
        f"{plural(process.pages, 'page')}{items} in {duration(process.elapsed_s)} ({speed})",
        f"success {share(process.success)}",
        f"{process.in_flight:,} in flight",
        f"{process.not_kept:,} not kept",
        f"{process.duplicates_exact:,} + {process.duplicates_near:,} duplicates (exact + near)",
        f"{process.robots_denied:,} denied by robots.txt",
        f"{sum(process.retries.values()):,} retries",
        f"{sum(process.failed.values()):,} failed",
    ]
    line = "this process: " + ", ".join(parts)
    if crawl is None:
        return line
    front = " ".join(f"F{number} {count:,}" for number, count in enumerate(crawl.front, start=1))
    return (
        f"{line}; whole crawl: {crawl.pages:,} pages crawled, waiting {front} back {crawl.back:,}, "
        f"{plural(crawl.hosts, 'host')} waiting, {crawl.leased:,} leased, "
        f"{crawl.retries:,} to retry, {_processes(snapshot.processes)}"
        f"{', paused' if crawl.paused else ''}"
    )


def _process_table(process: Process) -> Table:
    table = _table("This process, this run", names=10)
    items = f" and {plural(process.items, 'item')}" if process.items else ""
    table.add_row("pages", f"[bold green]{process.pages:,}[/]{items}")
    table.add_row(
        "pages/s", f"[bold]{rate(process.recent_s)}[/] now · {rate(process.average_s)} on average"
    )
    table.add_row("success", share(process.success))
    table.add_row("in flight", f"{process.in_flight:,}")
    table.add_row("not kept", f"{process.not_kept:,}")
    table.add_row(
        "duplicates", f"{process.duplicates_exact:,} exact · {process.duplicates_near:,} near"
    )
    table.add_row("robots.txt", f"{process.robots_denied:,} denied")
    table.add_row("retries", by_reason(process.retries))
    table.add_row("failed", _alarming(by_reason(process.failed)))
    table.add_row("errors", _alarming(f"{process.errors:,}"))
    return table


def _crawl_table(crawl: Sizes, processes: int) -> Table:
    table = _table(f"The whole crawl, {_processes(processes)}", names=5)
    most = max(*crawl.front, crawl.back, 1)
    for number, count in enumerate(crawl.front, start=1):
        table.add_row(f"F{number}", _bar(count, most, "cyan"))
    table.add_row("back", _bar(crawl.back, most, "blue"))
    table.add_row("hosts", f"{crawl.hosts:,} waiting · {plural(crawl.leased, 'URL')} leased")
    urls = f"{crawl.pages:,} crawled · {crawl.retries:,} to retry · {crawl.dead:,} dead"
    table.add_row("URLs", urls)
    return table


def _table(title: str, *, names: int) -> Table:
    table = Table(
        title=title,
        title_style="bold",
        title_justify="left",
        box=None,
        show_header=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column(style="dim", no_wrap=True, min_width=names)
    table.add_column(no_wrap=True, overflow="ellipsis")
    return table


def _bar(count: int, most: int, colour: str) -> str:
    filled = round(_BAR_WIDTH * count / most)
    if count and not filled:
        filled = 1
    return f"[{colour}]{'━' * filled}[/][dim]{'─' * (_BAR_WIDTH - filled)}[/] {count:,}"


def _alarming(text: str) -> str:
    return text if text == "0" else f"[bold red]{text}[/]"


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count:,} processes"


class Terminal:
    """Owns standard error from `start` to `stop`: all that is written there goes above the view."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        # Refreshed by its owner's task: a thread would draw while the process is busy.
        self._live = Live(console=self.console, auto_refresh=False, transient=True)
        self._handler: logging.StreamHandler[Any] | None = None
        self._stream: Any = None

    def start(self) -> None:
        self._live.start()
        # A process that is forced to end must give the cursor back.
        atexit.register(self.stop)
        handler = get_scrapy_root_handler() or logs.root_handler()
        if isinstance(handler, logging.StreamHandler) and not isinstance(
            handler, logging.FileHandler
        ):
            # The handler keeps the stream it was made with; rich has put its own in place.
            self._handler, self._stream = handler, handler.stream
            handler.setStream(sys.stderr)

    def show(self, view: RenderableType) -> None:
        self._live.update(view, refresh=True)

    def stop(self) -> None:
        """Remove the view. May be repeated."""
        atexit.unregister(self.stop)
        if self._handler is not None:
            self._handler.setStream(self._stream)
            self._handler = None
        self._live.stop()
