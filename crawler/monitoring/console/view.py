"""Draw a snapshot of a crawl: a live view for a terminal, or one line for a log. No I/O.

Two kinds of figures must not be confused: those of this run (this process, or all processes of a
fleet, since they started), and those of the whole crawl, which the frontier counts for all
processes and runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from crawler.frontier import Sizes
from crawler.frontier.entry import PAGE_QUEUES
from crawler.frontier.records import by_queue
from crawler.monitoring.figures import by_word, success_rate
from crawler.storage.storage import SPOOL_LEFT
from crawler.util.format import by_reason, duration, plural, rate, share, size

RUNNING = "running"
_BAR_WIDTH = 16
_COLOURS = {RUNNING: "green", "restarting": "yellow", "given up": "bold red"}


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Figures of this run, as monitoring/figures.py defines them; causes and reasons are counted.

    None is not known, and not shown.
    """

    elapsed_s: float = 0.0
    pages: int = 0
    not_modified: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    # Pages whose content every sink or the spool has, and those that are not kept (noindex …).
    stored: int = 0
    not_kept: int | None = 0
    # Pages that are left in the spool at the end.
    spooled: int = 0
    # Items that are no pages: those of spiders other than the web spider.
    items: int = 0
    duplicates_exact: int = 0
    duplicates_near: int = 0
    robots_denied: int = 0
    # Pages that browsers rendered, and how often one had to wait for a browser.
    rendered: int = 0
    rendering_put_off: int = 0
    # Pages that were visited again: changed, unchanged, failed.
    recrawled: Mapping[str, int] = field(default_factory=dict)
    # Pages of a focused crawl, by whether they are on its topic.
    topic: Mapping[str, int] = field(default_factory=dict)
    # Fetches that failed and are tried again, and URLs in the dead-letter queue.
    retries: Mapping[str, int] = field(default_factory=dict)
    dead: Mapping[str, int] = field(default_factory=dict)
    errors: int = 0
    size_bytes: int = 0
    # Hosts with a page in this run.
    hosts: int = 0
    # Seeds that were new, those of them that others pushed to Redis, and seeds seen before.
    seeds_added: int = 0
    seeds_pushed: int = 0
    seeds_known: int = 0
    sitemaps_added: int = 0
    in_flight: int | None = 0
    # Pages a second over the last seconds.
    recent_s: float | None = None

    @classmethod
    def from_stats(cls, stats: Mapping[str, Any], **more: Any) -> RunFigures:
        """Read Scrapy's stats of this process; `more` are fields that they do not have."""
        numbers = {name: value for name, value in stats.items() if isinstance(value, int)}
        recrawled = by_word(numbers, "recrawl")
        recrawled.pop("unwanted", None)
        pushed = stats.get("seeds/pushed", 0)
        return cls(
            pages=stats.get("pages/crawled", 0),
            not_modified=stats.get("pages/not_modified", 0),
            failed=by_word(numbers, "failed"),
            stored=stats.get("store/pages", 0),
            not_kept=stats.get("store/not_kept", 0),
            spooled=stats.get(SPOOL_LEFT, 0),
            duplicates_exact=stats.get("duplicates/exact", 0),
            duplicates_near=stats.get("duplicates/near", 0),
            robots_denied=stats.get("robots/denied", 0),
            rendered=stats.get("render/pages", 0),
            rendering_put_off=stats.get("render/put_off", 0),
            recrawled=recrawled,
            topic=by_word(numbers, "topic"),
            retries=by_word(numbers, "retry"),
            dead=by_word(numbers, "dead"),
            errors=stats.get("log_count/ERROR", 0) + stats.get("log_count/CRITICAL", 0),
            size_bytes=stats.get("store/bytes", stats.get("downloader/response_bytes", 0)),
            seeds_added=stats.get("seeds/added", 0) + pushed,
            seeds_pushed=pushed,
            seeds_known=stats.get("seeds/known", 0),
            sitemaps_added=stats.get("sitemaps/added", 0),
            **more,
        )

    @classmethod
    def from_figures(cls, figures: Mapping[str, int], **more: Any) -> RunFigures:
        """Read figures that a fleet counted; `more` are fields that they do not have."""
        return cls(
            not_modified=figures.get("not_modified", 0),
            failed=by_word(figures, "failed"),
            stored=figures.get("store/pages", 0),
            not_kept=None,
            duplicates_exact=figures.get("duplicates/exact", 0),
            duplicates_near=figures.get("duplicates/near", 0),
            robots_denied=figures.get("robots/denied", 0),
            rendered=figures.get("render/pages", 0),
            rendering_put_off=figures.get("render/put_off", 0),
            topic=by_word(figures, "topic"),
            retries=by_word(figures, "retries"),
            errors=figures.get("errors", 0),
            size_bytes=figures.get("bytes", 0),
            in_flight=None,
            **more,
        )

    @property
    def average_s(self) -> float:
        """Pages a second since the start."""
        return self.pages / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def visits(self) -> int:
        """Visits that found a page or failed."""
        return self.pages + self.not_modified + sum(self.failed.values())

    @property
    def success(self) -> float | None:
        """Success rate; None before the first visit ended."""
        return success_rate(self.pages, self.not_modified, sum(self.failed.values()))


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """Process of a fleet: its state, and what it last reported of itself."""

    name: str
    state: str
    pid: int | None
    restarts: int
    # Why it is not running.
    why: str
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State of a crawl as it is shown at one moment."""

    name: str
    run: RunFigures
    # None until the frontier has answered.
    crawl: Sizes | None = None
    # Live processes of the whole crawl.
    processes: int = 0
    # Address of the dashboard; empty while there is none.
    dashboard: str = ""
    # Sinks that are away and what is spooled, in a few words; empty if nothing is.
    outage: str = ""
    # Processes of a fleet; empty for a process that shows itself.
    rows: Sequence[ProcessRow] = ()
    stopping: bool = False


def live_view(snapshot: Snapshot) -> RenderableType:
    """Return what a terminal shows while the crawl runs."""
    run, crawl = snapshot.run, snapshot.crawl
    both = Table.grid(expand=True, padding=(0, 2, 0, 0))
    # Two halves of fixed width: a view that jumps cannot be read.
    both.add_column(ratio=1)
    both.add_column(ratio=1)
    waiting = Text("waiting for the frontier …", style="dim")
    both.add_row(
        _run_table(run, "All processes" if snapshot.rows else "This process"),
        waiting if crawl is None else _crawl_table(crawl, snapshot.processes),
    )
    states = ["paused"] if crawl is not None and crawl.paused else []
    states += [snapshot.outage] if snapshot.outage else []
    shown = "".join(f" · [yellow]{escape(state)}[/]" for state in states)
    dashboard = f"{escape(snapshot.dashboard)} · " if snapshot.dashboard else ""
    hint = "fetches in flight finish" if snapshot.stopping else "Ctrl-C stops and keeps everything"
    return Panel(
        Group(both, "", _processes_table(snapshot.rows)) if snapshot.rows else both,
        title=f"[bold]{escape(snapshot.name)}[/] · {duration(run.elapsed_s)}{shown}",
        subtitle=f"[dim]{dashboard}{hint}[/]",
        title_align="left",
        subtitle_align="right",
        border_style="cyan",
    )


def plain_line(snapshot: Snapshot) -> str:
    """Return the line that a log shows every few seconds."""
    run, crawl = snapshot.run, snapshot.crawl
    speed = f"{rate(run.recent_s)}/s now, {rate(run.average_s)}/s on average"
    parts = [
        f"{plural(run.pages, 'page')}{_items(run)} in {duration(run.elapsed_s)} ({speed})",
        f"{size(run.size_bytes)} read",
        f"success {share(run.success)}",
        *([] if run.in_flight is None else [f"{run.in_flight:,} in flight"]),
        *([] if run.not_kept is None else [f"{run.not_kept:,} not kept"]),
        f"{run.duplicates_exact:,} + {run.duplicates_near:,} duplicates (exact + near)",
        *([f"rendered {rendered(run)}"] if run.rendered or run.rendering_put_off else []),
        f"{run.robots_denied:,} denied by robots.txt",
        f"{sum(run.retries.values()):,} retries",
        f"{sum(run.failed.values()):,} failed",
        *([snapshot.outage] if snapshot.outage else []),
    ]
    who = "this process"
    if snapshot.rows:
        running = sum(row.state == RUNNING for row in snapshot.rows)
        who = f"{running} of {len(snapshot.rows)} processes run"
    line = f"{who}: {', '.join(parts)}"
    if crawl is None:
        return line
    front = " ".join(f"{name} {count:,}" for name, count in by_queue(crawl.front).items())
    return (
        f"{line}; whole crawl: {crawl.pages:,} pages crawled, waiting {front} back {crawl.back:,}, "
        f"{plural(crawl.hosts, 'host')} waiting, {crawl.leased:,} leased, "
        f"{crawl.retries:,} to retry, {_processes(snapshot.processes)}"
        f"{', paused' if crawl.paused else ''}"
    )


def _processes(count: int) -> str:
    return plural(count, "process", "processes")


def _items(run: RunFigures) -> str:
    return f" and {plural(run.items, 'item')}" if run.items else ""


def rendered(run: RunFigures) -> str:
    """Return how many pages were rendered, and how often one had to wait for a browser."""
    return f"{run.rendered:,} ({run.rendering_put_off:,} put off)"


def _run_table(run: RunFigures, whose: str) -> Table:
    table = _table(f"{whose}, this run", names=10)
    table.add_row("pages", f"[bold green]{run.pages:,}[/]{_items(run)}")
    speed = f"[bold]{rate(run.recent_s)}[/] now · {rate(run.average_s)} on average"
    table.add_row("pages/s", speed)
    table.add_row("success", share(run.success))
    if run.in_flight is not None:
        table.add_row("in flight", f"{run.in_flight:,}")
    if run.not_kept is not None:
        table.add_row("not kept", f"{run.not_kept:,}")
    duplicates = f"{run.duplicates_exact:,} exact · {run.duplicates_near:,} near"
    table.add_row("duplicates", duplicates)
    if run.rendered or run.rendering_put_off:
        table.add_row("rendered", rendered(run))
    table.add_row("robots.txt", f"{run.robots_denied:,} denied")
    table.add_row("retries", by_reason(run.retries))
    table.add_row("failed", _alarming(by_reason(run.failed)))
    table.add_row("errors", _alarming(f"{run.errors:,}"))
    return table


def _crawl_table(crawl: Sizes, processes: int) -> Table:
    table = _table(f"The whole crawl, {_processes(processes)}", names=5)
    most = max(*crawl.front, crawl.back, 1)
    for number, count in enumerate(crawl.front[:PAGE_QUEUES], start=1):
        table.add_row(f"F{number}", _bar(count, most, "cyan"))
    # Always, so that the view keeps its size.
    table.add_row("files", _bar(sum(crawl.front[PAGE_QUEUES:]), most, "cyan"))
    table.add_row("back", _bar(crawl.back, most, "blue"))
    table.add_row("hosts", f"{crawl.hosts:,} waiting · {plural(crawl.leased, 'URL')} leased")
    urls = f"{crawl.pages:,} crawled · {crawl.retries:,} to retry · {crawl.dead:,} dead"
    table.add_row("URLs", urls)
    return table


def _processes_table(rows: Sequence[ProcessRow]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for head in ("process", "state", "pid", "pages", "pages/s", "held", "restarts"):
        table.add_column(head, justify="left" if head in ("process", "state") else "right")
    for row in rows:
        about = row.about
        table.add_row(
            row.name,
            Text(row.why or row.state, style=_COLOURS.get(row.state, "dim")),
            str(row.pid or "–"),
            f"{about['pages']:,}" if "pages" in about else "–",
            rate(about.get("pages_per_s")),
            str(about.get("held", "–")),
            str(row.restarts or "–"),
        )
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
    filled = max(round(_BAR_WIDTH * count / most), 1 if count else 0)
    return f"[{colour}]{'━' * filled}[/][dim]{'─' * (_BAR_WIDTH - filled)}[/] {count:,}"


def _alarming(text: str) -> str:
    return text if text == "0" else f"[bold red]{text}[/]"
