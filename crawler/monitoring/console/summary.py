"""The summary of a run: what it did, how the crawl stands, why it ended, which commands come next.

If a run found no page at all, the summary says why and gives advice.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from rich.text import Text
from scrapy.settings import SETTINGS_PRIORITIES

from crawler.download.errors import KINDS
from crawler.frontier import Sizes
from crawler.monitoring.console.view import RunFigures, rendered
from crawler.scheduling.lease_pool import BAD_SEEDS, DATA_LOST, NO_SEEDS, REDIS_LOST
from crawler.servers.redis.connection import masked
from crawler.servers.redis.settings import redis_url
from crawler.storage.sinks import (
    MONGO,
    POSTGRESQL,
    NamedSink,
    named_sinks,
    shown_sinks,
    targets,
    uses_mongo,
)
from crawler.util.format import by_reason, duration, plural, rate, share, size
from crawler.util.secrets import Mask, url_passwords, without_secrets

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


# Version of the JSON: raised when a field changes its meaning or goes away.
JSON_VERSION = 2
_NAME_WIDTH = 18


@dataclass(frozen=True, slots=True)
class Commands:
    """Commands to type next."""

    # Shows a page that was really stored; empty when there is none.
    look: str
    # Continues the crawl where this run ended.
    resume: str
    # Deletes the crawl.
    forget: str
    requeue: str
    # Serves the dashboard of the crawl; that of this process has ended with it.
    dashboard: str


@dataclass(frozen=True, slots=True)
class Summary:
    """Result of a run: everything that is known at its end."""

    crawl: str
    # Scrapy's reason: finished, max_pages, waiting, shutdown (Ctrl-C), or another component's.
    reason: str
    ended_at: datetime
    run: RunFigures
    # None when Redis did not answer at the end.
    sizes: Sizes | None
    # Seconds until the earliest URL that is put off, if the run ended for that.
    waits_s: float | None
    # Where the frontier and the pages are, in words.
    frontier_at: str
    pages_at: str
    commands: Commands
    # Whether there were more hosts than are counted.
    hosts_cut: bool = False
    # False if only feeds and users' own pipelines have the pages.
    has_store: bool = True
    # Folder of the spool; empty without one.
    spool_at: str = ""

    @property
    def finished(self) -> bool:
        """Whether nothing is left of the whole crawl."""
        return self.reason == "finished" and self.sizes is not None and not self.sizes.unfinished

    @property
    def nothing_to_do(self) -> bool:
        """Whether this run found the crawl finished already."""
        run = self.run
        worked = run.visits or run.items or run.robots_denied or run.retries
        return self.finished and not (worked or run.seeds_added or run.sitemaps_added)

    def why(self) -> str:
        """Return why the run ended, in a sentence."""
        if self.sizes is None:
            waits = "Redis does not answer, so what waits is not known"
        else:
            left = self.sizes.unfinished
            waits = f"{plural(left, 'URL')} wait{'s' if left == 1 else ''}"
        if self.nothing_to_do:
            pages = plural(self.sizes.pages if self.sizes is not None else 0, "page")
            seeds = plural(self.run.seeds_known, "seed")
            known = "is" if self.run.seeds_known == 1 else "are"
            return (
                f"nothing left to crawl: {seeds} {known} known, {pages} crawled; "
                f"{self._to_try_again()}`{self.commands.forget}` forgets{self._to_visit_again()}"
            )
        if self.reason == "waiting" and self.waits_s is not None:
            due = self.ended_at + timedelta(seconds=self.waits_s)
            return (
                f"{waits}, the earliest until {due:%Y-%m-%d %H:%M:%S} "
                f"(in {duration(self.waits_s)}; CRAWL_MAX_WAIT is shorter)"
            )
        reasons = {
            NO_SEEDS: "there are no seeds to begin with; give URLs, or a file with one URL a line: "
            "-a seeds=https://example.com",
            BAD_SEEDS: f"the seeds cannot be read, as the error above says; {waits}",
            "finished": f"finished: nothing is left to crawl{self._to_visit_again()}",
            "max_pages": f"the crawl {self.crawl!r} has all the pages that max_pages allows; "
            f"{waits}. -a max_pages=N raises the limit (0 lifts it), -a crawl=NAME begins another "
            "crawl",
            "closespider_timeout": f"max_time is reached; {waits}",
            REDIS_LOST: "Redis was away for longer than REDIS_GIVE_UP; what it has is kept",
            DATA_LOST: "a part of the crawl is lost; the error above says what to do; " + waits,
            "stopped": f"stopped by the dashboard or the API; {waits}",
            "shutdown": f"stopped by Ctrl-C or a signal; {waits}",
        }
        return reasons.get(self.reason, f"{self.reason}; {waits}")

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
        """Return the numbers of the summary, for a structured log."""
        names = ("crawl", "reason", "finished", "this_run", "whole_crawl")
        return {name: value for name, value in self.to_json().items() if name in names}

    def to_json(self) -> dict[str, Any]:
        """Return the summary for programs."""
        run = asdict(self.run)
        for name in ("in_flight", "recent_s", "sitemaps_added"):
            del run[name]
        run |= {
            "success_rate": self.run.success,
            "pages_per_s": round(self.run.average_s, 3),
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
            "this_run": run,
            "whole_crawl": crawl,
            "frontier_at": self.frontier_at,
            "pages_at": self.pages_at,
            "spool_at": self.spool_at or None,
            "commands": asdict(self.commands),
        }


def summary_text(summary: Summary) -> Text:
    """Return the summary for people. Print it with soft_wrap, so that commands can be copied."""
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
    run = summary.run
    more = "+" if summary.hosts_cut else ""
    yield "pages crawled", f"{run.pages:,} ({size(run.size_bytes)} read)"
    if run.not_modified:
        yield "not modified", f"{run.not_modified:,}"
    yield "failed", by_reason(run.failed)
    yield "success", share(run.success)
    if summary.has_store:
        yield "pages stored", f"{run.stored:,}"
    if run.items:
        yield "items scraped", f"{run.items:,}"
    if run.seeds_pushed:
        yield "seeds pushed", f"{run.seeds_pushed:,}"
    yield "hosts", f"{run.hosts:,}{more}"
    if run.topic:
        on, total = run.topic.get("on", 0), sum(run.topic.values())
        yield "on topic", f"{on:,} of {plural(total, 'page')} ({share(on / total)})"
    yield "duplicates", f"{run.duplicates_exact:,} exact, {run.duplicates_near:,} near"
    if run.rendered or run.rendering_put_off:
        yield "rendered", rendered(run)
    if run.not_kept:
        why = "noindex, another language or topic, or a type or size that is not stored"
        yield "not kept", f"{run.not_kept:,} ({why})"
    if run.recrawled:
        yield "recrawled", by_reason(run.recrawled)
    yield "robots.txt", f"{run.robots_denied:,} denied"
    yield "retries", by_reason(run.retries)
    if run.errors:
        yield "errors", f"{run.errors:,}"
    yield "elapsed", f"{duration(run.elapsed_s)}, {rate(run.average_s)} pages/s"


def _crawl_rows(summary: Summary) -> Iterator[tuple[str, str]]:
    sizes = summary.sizes
    assert sizes is not None
    yield "pages crawled", f"{sizes.pages:,}"
    # A page that is visited again is done once more.
    done = "visits" if sizes.recrawls else "done"
    yield "URLs", f"{sizes.added:,} found, {sizes.done:,} {done}, {sizes.dead:,} given up"
    if sizes.recrawls:
        yield "to recrawl", f"{sizes.recrawls:,}"
    dropped = sizes.dropped_excluded + sizes.dropped_purged + sizes.dropped_budget
    if dropped:
        yield "dropped", f"{dropped:,} (excluded, purged, or over a budget)"
    if sizes.unfinished:
        left = f"{sizes.waiting:,} waiting, {sizes.retries:,} to retry"
        yield "left", f"{left}, {sizes.leased:,} in other processes"


def _closing_rows(summary: Summary) -> Iterator[tuple[str, str]]:
    yield "ended", summary.why()
    if no_page := why_no_page(summary.run):
        yield "no page, because", no_page
    yield "pages lie in", summary.pages_at
    if summary.run.spooled:
        pages = plural(summary.run.spooled, "page")
        them = "it" if summary.run.spooled == 1 else "them"
        where = f"{pages} in {summary.spool_at}"
        yield "still spooled", f"{where}; the next run on this machine writes {them} to the sinks"
    yield "frontier lies in", summary.frontier_at
    if summary.commands.look:
        yield "look at a page", summary.commands.look
    yield "dashboard", summary.commands.dashboard
    if not summary.finished and summary.reason not in (NO_SEEDS, BAD_SEEDS):
        yield "resume", summary.commands.resume


_DEFAULT_FOLDER = ".crawl"
_DEFAULT_CRAWL = "web"
_DEFAULT_DATABASE = "crawler"


def frontier_at(settings: BaseSettings, crawl: str) -> str:
    """Return where the frontier is."""
    where = redis_url(settings)
    return f"crawl {crawl!r} of " + (
        masked(where) if where else f"the embedded Redis in {settings['CRAWL_DIR']}"
    )


def pages_at(settings: BaseSettings) -> str:
    """Return where the pages are."""
    sinks = named_sinks(settings)
    if not sinks:
        return "no sink (SINKS=none): feeds and your own pipelines have them"
    mongo = settings["MONGO_URI"]
    database = f"database {settings['MONGO_DATABASE']!r} of " + (
        masked(mongo) if mongo else f"the embedded MongoDB in {settings['CRAWL_DIR']}"
    )
    return ", ".join(
        database if sink.name == MONGO else f"{sink.name} {_shown_target(sink)}".strip()
        for sink in sinks
    )


def spool_at(settings: BaseSettings, crawl: str) -> str:
    """Return the folder of a crawl's spool; empty if SPOOL_DIR is not set."""
    folder = settings["SPOOL_DIR"]
    return str(PurePath(folder, crawl)) if folder else ""


def _shown_target(sink: NamedSink) -> str:
    return Mask(url_passwords(sink.target))(sink.target)


def scrapy_program(prefix: str, folder: str, environment: Mapping[str, str]) -> str:
    """Return how to call scrapy: by path if its environment is in `folder` and not activated."""
    if "VIRTUAL_ENV" in environment or not PurePath(prefix).is_relative_to(folder):
        return "scrapy"
    return str(PurePath(prefix).relative_to(folder) / "bin" / "scrapy")


def next_commands(
    settings: BaseSettings, *, crawl: str, page_url: str | None, argv: Sequence[str], program: str
) -> Commands:
    """Return what to type next; `argv` is how this process was started, without the word crawl."""
    look = ""
    if page_url is not None and (uses_mongo(settings) or targets(settings, POSTGRESQL)):
        look = f"{program} pages get {shlex.quote(page_url)}{_flags(_page_options(settings))}"
    name = "" if crawl == _DEFAULT_CRAWL else f" --crawl {shlex.quote(crawl)}"
    options = _server_options(settings, "REDIS_URL")
    at_redis = _flags(options)
    options += [option for option in _page_options(settings) if option not in options]
    return Commands(
        look=look,
        resume=settings["RESUME_COMMAND"] or _resume(argv, program),
        forget=f"{program} frontier delete{name}{at_redis}",
        requeue=f"{program} frontier requeue{name}{at_redis}",
        dashboard=f"{program} admin{name}{_flags(options)}",
    )


def _flags(options: Sequence[str]) -> str:
    return "".join(f" -s {shlex.quote(option)}" for option in options)


def _page_options(settings: BaseSettings) -> list[str]:
    """Return the settings by which another process finds the pages."""
    if not uses_mongo(settings) and targets(settings, POSTGRESQL):
        return [f"SINKS={shown_sinks(settings)}"] if _is_given(settings, "SINKS") else []
    options = _server_options(settings, "MONGO_URI")
    if settings["MONGO_DATABASE"] != _DEFAULT_DATABASE:
        options.append(f"MONGO_DATABASE={settings['MONGO_DATABASE']}")
    return options


def _server_options(settings: BaseSettings, name: str) -> list[str]:
    """Return the settings of a server that another process does not have by itself."""
    where = redis_url(settings) if name == "REDIS_URL" else settings[name]
    if where:
        given_as = name if settings[name] else "REDIS_HOST"
        return [f"{name}={masked(where)}"] if _is_given(settings, given_as) else []
    if settings["CRAWL_DIR"] != _DEFAULT_FOLDER:
        return [f"CRAWL_DIR={settings['CRAWL_DIR']}"]
    return []


def _is_given(settings: BaseSettings, name: str) -> bool:
    """Whether the command line has a setting; the environment has it for other processes, too."""
    return (settings.getpriority(name) or 0) >= SETTINGS_PRIORITIES["cmdline"]


def _is_for_once(argument: str) -> bool:
    """Is this an option that a resumed run must not have? It may be abbreviated."""
    return len(argument) > 2 and any(name.startswith(argument) for name in ("--fresh", "--yes"))


def _resume(argv: Sequence[str], program: str) -> str:
    if argv and PurePath(argv[0]).name == "scrapy":
        # Scrapy took the word "crawl" out of the arguments. -O would overwrite what the feed has.
        options = {"-O": "-o", "--overwrite-output": "--output"}
        arguments = [options.get(word, word) for word in argv[1:] if not _is_for_once(word)]
        return without_secrets(shlex.join([program, "crawl", *arguments]))
    return "start it again as before"


_ADVICE = {kind.reason: kind.advice for kind in KINDS if kind.advice}


def why_no_page(run: RunFigures) -> str:
    """Return the most frequent cause, with advice; empty if there was a page or no failure."""
    if run.pages or run.items or run.not_modified:
        return ""
    causes = Counter(run.retries)
    causes.update(run.failed)
    if causes:
        cause, _ = causes.most_common(1)[0]
        return f"{cause}: {_ADVICE[cause]}" if cause in _ADVICE else cause
    if run.robots_denied:
        return "robots.txt denies it to USER_AGENT, or could not be read"
    return ""
