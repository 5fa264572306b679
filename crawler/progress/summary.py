"""The summary of a run: what it did, how the whole crawl stands, why it ended, what to do next.

Pure: it is built from plain data, and drawn or turned into JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from rich.text import Text

from crawler.ending import BAD_SEEDS, DATA_LOST, NO_SEEDS, REDIS_LOST
from crawler.frontier import Sizes
from crawler.progress.figures import Process
from crawler.progress.no_page import why_no_page
from crawler.progress.text import by_reason, duration, plural, rate, share, size

# Version of the JSON: raised when a field changes its meaning or goes away.
JSON_VERSION = 2
_NAME_WIDTH = 18


@dataclass(frozen=True, slots=True)
class Commands:
    """What to type next."""

    # Shows a page that was really stored; empty when there is none.
    look: str
    # Goes on where this run ended.
    resume: str
    # Forgets the crawl.
    forget: str
    requeue: str
    # Serves the dashboard of the crawl, whose own has ended with this process.
    dashboard: str


@dataclass(frozen=True, slots=True)
class Summary:
    """All that is known at the end of a run."""

    crawl: str
    # Scrapy's reason: finished, max_pages, waiting, shutdown (Ctrl-C), or another component's.
    reason: str
    ended_at: datetime
    process: Process
    # Hosts that gave a page in this run; `hosts_cut` says that there were more than are counted.
    hosts: int
    hosts_cut: bool
    seeds_added: int
    seeds_known: int
    # None when Redis did not answer at the end.
    sizes: Sizes | None
    # Seconds until the earliest URL that is put off, when that is why the run ended.
    waits_s: float | None
    # Where the frontier and the pages lie, in words.
    frontier_at: str
    pages_at: str
    commands: Commands
    # Of those that were added, by others through Redis.
    seeds_pushed: int = 0
    sitemaps_added: int = 0
    # False where only feeds and users' own pipelines have the pages.
    has_store: bool = True

    @property
    def finished(self) -> bool:
        """Whether nothing is left of the whole crawl."""
        return self.reason == "finished" and self.sizes is not None and not self.sizes.unfinished

    @property
    def nothing_to_do(self) -> bool:
        """Whether this run found the crawl finished already."""
        process = self.process
        worked = process.visits or process.items or process.robots_denied or process.retries
        began = self.seeds_added or self.sitemaps_added
        return self.finished and not worked and not began

    def why(self) -> str:
        """Why the run ended, in a sentence."""
        if self.sizes is None:
            waits = "Redis does not answer, so what waits is not known"
        else:
            left = self.sizes.unfinished
            waits = f"{plural(left, 'URL')} wait{'s' if left == 1 else ''}"
        if self.nothing_to_do:
            pages = plural(self.sizes.pages if self.sizes is not None else 0, "page")
            seeds = plural(self.seeds_known, "seed")
            known = "is" if self.seeds_known == 1 else "are"
            return (
                f"nothing left to crawl: {seeds} {known} known, {pages} crawled; "
                f"{self._to_try_again()}`{self.commands.forget}` forgets{self._to_visit_again()}"
            )
        if self.reason == NO_SEEDS:
            return (
                "there are no seeds to begin with; give URLs, or a file with one URL a line: "
                "-a seeds=https://example.com"
            )
        if self.reason == BAD_SEEDS:
            return f"the seeds cannot be read, as the error above says; {waits}"
        if self.reason == "finished":
            return f"finished: nothing is left to crawl{self._to_visit_again()}"
        if self.reason == "max_pages":
            return (
                f"the crawl {self.crawl!r} has all the pages that max_pages allows; {waits}. "
                "-a max_pages=N raises the limit (0 lifts it), -a crawl=NAME begins another crawl"
            )
        if self.reason == "closespider_timeout":
            return f"max_time is reached; {waits}"
        if self.reason == REDIS_LOST:
            return "Redis was away for longer than REDIS_GIVE_UP; what it has is kept"
        if self.reason == DATA_LOST:
            return (
                "Redis has lost a part of the crawl, as the error above says; run it again with "
                f"its seeds; {waits}"
            )
        if self.reason == "shutdown":
            return f"stopped by Ctrl-C or a signal; {waits}"
        if self.reason == "waiting" and self.waits_s is not None:
            due = self.ended_at + timedelta(seconds=self.waits_s)
            return (
                f"{waits}, the earliest until {due:%Y-%m-%d %H:%M:%S} "
                f"(in {duration(self.waits_s)}; CRAWL_MAX_WAIT is shorter)"
            )
        return f"{self.reason}; {waits}"

    def _to_try_again(self) -> str:
        if self.sizes is None or not self.sizes.dead:
            return ""
        given_up = plural(self.sizes.dead, "URL")
        return f"{given_up} given up, `{self.commands.requeue}` tries again; "

    def _to_visit_again(self) -> str:
        if self.sizes is None or not self.sizes.recrawls:
            return ""
        pages = plural(self.sizes.recrawls, "page")
        return f"; {pages} will be visited again by later runs, or with -s CRAWL_IDLE=wait"

    def figures(self) -> dict[str, Any]:
        """Its numbers, as a structured log has them."""
        names = ("crawl", "reason", "finished", "this_run", "whole_crawl")
        return {name: value for name, value in self.to_json().items() if name in names}

    def to_json(self) -> dict[str, Any]:
        """The summary for programs."""
        process = asdict(self.process)
        del process["in_flight"], process["recent_s"]
        process |= {
            "hosts": self.hosts,
            "success_rate": self.process.success,
            "pages_per_s": round(self.process.average_s, 3),
            "seeds_added": self.seeds_added,
            "seeds_pushed": self.seeds_pushed,
            "seeds_known": self.seeds_known,
        }
        crawl = None
        if self.sizes is not None:
            crawl = asdict(self.sizes) | {"unfinished": self.sizes.unfinished}
        return {
            "version": JSON_VERSION,
            "crawl": self.crawl,
            "reason": self.reason,
            "why": self.why(),
            "finished": self.finished,
            "nothing_to_do": self.nothing_to_do,
            "ended_at": self.ended_at.isoformat(),
            "waits_s": self.waits_s,
            "this_run": process,
            "whole_crawl": crawl,
            "frontier_at": self.frontier_at,
            "pages_at": self.pages_at,
            "commands": asdict(self.commands),
        }


def summary_text(summary: Summary) -> Text:
    """The summary for people. Print it with soft_wrap: a command stays one line to copy."""
    parts: list[tuple[str, Iterator[tuple[str, str]]]] = []
    if not summary.nothing_to_do:
        parts.append(("This run", _run_rows(summary)))
    if summary.sizes is not None:
        parts.append(("The whole crawl, all runs and processes", _crawl_rows(summary)))
    parts.append(("", _closing_rows(summary)))
    text = Text()
    for title, rows in parts:
        text.append(f"\n{title}\n" if title else "\n", style="bold")
        for name, value in rows:
            text.append(f"  {name:<{_NAME_WIDTH}}", style="dim")
            text.append(f"{value}\n")
    return text


def _run_rows(summary: Summary) -> Iterator[tuple[str, str]]:
    process = summary.process
    more = "+" if summary.hosts_cut else ""
    yield "pages crawled", f"{process.pages:,} ({size(process.size_bytes)} read)"
    if process.not_modified:
        yield "not modified", f"{process.not_modified:,}"
    yield "failed", by_reason(process.failed)
    yield "success rate", share(process.success)
    if summary.has_store:
        yield "pages stored", f"{process.stored:,}"
    if process.items:
        yield "items scraped", f"{process.items:,}"
    if summary.seeds_pushed:
        yield "seeds pushed", f"{summary.seeds_pushed:,}"
    yield "hosts", f"{summary.hosts:,}{more}"
    yield "duplicates", f"{process.duplicates_exact:,} exact, {process.duplicates_near:,} near"
    if process.not_kept:
        yield "not kept", f"{process.not_kept:,} (noindex, or a type or size that is not stored)"
    if process.recrawled:
        yield "visited again", by_reason(process.recrawled)
    yield "denied by robots", f"{process.robots_denied:,}"
    yield "retried", by_reason(process.retries)
    if process.errors:
        yield "errors logged", f"{process.errors:,}"
    yield "elapsed", f"{duration(process.elapsed_s)}, {rate(process.average_s)} pages/s"


def _crawl_rows(summary: Summary) -> Iterator[tuple[str, str]]:
    sizes = summary.sizes
    assert sizes is not None
    yield "pages crawled", f"{sizes.pages:,}"
    # A page that is visited again is done once more.
    done = "visits" if sizes.recrawls else "done"
    yield "URLs", f"{sizes.added:,} found, {sizes.done:,} {done}, {sizes.dead:,} given up"
    if sizes.recrawls:
        yield "to visit again", f"{sizes.recrawls:,}"
    dropped = sizes.dropped_excluded + sizes.dropped_purged + sizes.dropped_budget + sizes.refused
    if dropped:
        yield "dropped", f"{dropped:,} (excluded, purged, over a budget, or no room)"
    if sizes.unfinished:
        left = f"{sizes.waiting:,} waiting, {sizes.retries:,} to retry"
        yield "left", f"{left}, {sizes.leased:,} in other processes"


def _closing_rows(summary: Summary) -> Iterator[tuple[str, str]]:
    yield "ended", summary.why()
    if no_page := why_no_page(summary.process):
        yield "no page, because", no_page
    yield "pages lie in", summary.pages_at
    yield "frontier lies in", summary.frontier_at
    if summary.commands.look:
        yield "look at a page", summary.commands.look
    yield "dashboard", summary.commands.dashboard
    if not summary.finished and summary.reason not in (NO_SEEDS, BAD_SEEDS):
        yield "resume", summary.commands.resume
