"""`scrapy crawl`: errors in one line, and an exit code that says how the crawl ended.

When the spider is closed, all data is safe. The rest (closing connections, joining threads) has a
time limit: then the stacks are printed and the process exits.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from io import StringIO
from threading import Timer
from traceback import format_stack
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.commands.crawl import Command as ScrapyCrawl
from scrapy.exceptions import CloseSpider, UsageError

from crawler.commands import _validate, frontier
from crawler.commands._arguments import WithSpiderHelp, check_words
from crawler.commands._settings import check_spider, completed, crawl_settings, use_frontier
from crawler.commands._verbs import report_error
from crawler.errors import CrawlerError, ExitCode
from crawler.monitoring import logs
from crawler.pipelines.runs import EXIT_CODES, exit_code
from crawler.servers.connections import Servers
from crawler.servers.redis.checks import required
from crawler.storage.sinks import uses_mongo
from crawler.util import interrupts

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


# Time limit from the end of the spider: an embedded MongoDB may take minutes to stop.
_CLOSE_S = 240.0
# Time limit from the end of the embedded servers.
_EXIT_S = 10.0


class Command(WithSpiderHelp, ScrapyCrawl):
    """Scrapy's command, with checks of settings and servers before the crawl."""

    _is_open = False
    _is_closed = False

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        frontier.add_fresh_options(parser)

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings is not None
        # Before Scrapy makes its crawler process, which logs at once.
        try:
            logs.install(self.settings)
        except CrawlerError as error:
            raise UsageError(str(error), print_help=False) from error

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        check_words("crawl", args)
        assert self.crawler_process is not None
        assert self.settings is not None
        if not use_frontier(self.settings):
            super().run(args, opts)
            return
        logs.hide_listings()
        try:
            settings = completed(self.settings)
            _validate.check(settings)
            # Before servers are started for nothing.
            check_spider(settings, args[0])
            settings, crawl = crawl_settings(self.settings, args[0], opts.spargs)
        except CrawlerError as error:
            report_error(self, "crawl", error)
            return
        servers = Servers.from_settings(settings)
        try:
            interrupts.unwind()
            spider = opts.spargs.get("name", args[0])
            urls = interrupts.run(_count_urls(servers, settings, crawl, spider))
            if opts.fresh:
                # Outside an event loop, so that Ctrl-C ends the question.
                frontier.confirm_deletion(crawl, urls or 0, yes=opts.yes or not urls)
                interrupts.run(_delete(servers, settings, crawl))
            crawler = self._create_crawler(args[0])
            crawler.signals.connect(self._opened, signals.spider_opened)
            crawler.signals.connect(self._closed, signals.spider_closed)
            task: Any = self.crawler_process.crawl(crawler, **opts.spargs)
            task.add_done_callback(self._report)
            interrupts.remember()
            self.crawler_process.start()
            if crawler.spider is not None and not self.exitcode:
                stats = crawler.stats.get_stats()
                self.exitcode = exit_code(stats.get("finish_reason", ""), stats)
            if not self.exitcode and not self.crawler_process.bootstrap_failed:
                self._report_early_end()
        except CrawlerError as error:
            report_error(self, "crawl", error)
        except KeyboardInterrupt:
            self._report_stop("stopped before the crawl began")
        finally:
            servers.release()
            end_within(_EXIT_S, code=self.exitcode or ExitCode.FAILED)
        if self.crawler_process.bootstrap_failed and not self.exitcode:
            self.exitcode = ExitCode.FAILED

    def _report(self, task: asyncio.Task[None]) -> None:
        """Print an error meant for the user in a line; other errors keep their traceback."""
        if task.cancelled():
            return
        error: BaseException | None = task.exception()
        while error is not None and not isinstance(error, CrawlerError):
            error = error.__cause__ or error.__context__
        if error is not None:
            report_error(self, "crawl", error)
        elif (unexpected := task.exception()) is not None:
            raise unexpected

    def _opened(self) -> None:
        self._is_open = True
        if interrupts.came():
            # The signal came before Scrapy handled signals.
            raise CloseSpider("shutdown")

    def _closed(self, reason: str) -> None:
        self._is_closed = True
        code = EXIT_CODES.get(reason, ExitCode.FAILED)
        end_within(_CLOSE_S, asyncio.get_running_loop(), code=code)

    def _report_early_end(self) -> None:
        """Report a signal while the spider opened, or a second one: Scrapy ends silently then."""
        if not self._is_open:
            self._report_stop("stopped before the crawl began")
        elif not self._is_closed:
            self._report_stop(
                "stopped at once, so there is no summary; what was in flight comes back when the "
                "same command is run again"
            )

    def _report_stop(self, text: str) -> None:
        print(logs.line(f"scrapy crawl: {text}"), file=sys.stderr)
        self.exitcode = ExitCode.INTERRUPTED


async def _count_urls(
    servers: Servers, settings: BaseSettings, crawl: str, spider: str
) -> int | None:
    """Check that the servers answer and that the crawl is this spider's; count its URLs.

    Returns None if there is no such crawl yet.
    """
    async with servers.checked(mongo=uses_mongo(settings)) as redis:
        return await required(frontier.count_urls(redis, crawl, spider))


async def _delete(servers: Servers, settings: BaseSettings, crawl: str) -> None:
    async with servers.checked(mongo=uses_mongo(settings)):
        await required(frontier.delete_crawl(crawl, servers, settings))


def end_within(
    seconds: float,
    loop: asyncio.AbstractEventLoop | None = None,
    *,
    code: int = ExitCode.FAILED,
) -> None:
    """After a time limit, print the stacks and exit with a code; `loop` has the tasks to print."""
    timer = Timer(seconds, _exit, (seconds, loop, code))
    # A daemon thread runs while the interpreter waits for other threads, and is not waited for.
    timer.daemon = True
    timer.start()


def _exit(seconds: float, loop: asyncio.AbstractEventLoop | None, code: int) -> None:
    try:
        if sys.__stderr__ is not None:
            text = (
                f"The crawl is over and safe, but the process did not end within {seconds:g} s; "
                "it is ended now. What it waited for:"
            )
            text = logs.line(f"{text}\n{_stacks(loop)}", level=logging.ERROR)
            print(text, file=sys.__stderr__, flush=True)
    finally:
        # Even if that failed: tasks may change meanwhile, standard error may be closed.
        os._exit(code)


def _stacks(loop: asyncio.AbstractEventLoop | None) -> str:
    stacks = StringIO()
    for task in asyncio.all_tasks(loop) if loop is not None else ():
        task.print_stack(file=stacks)
    for frame in sys._current_frames().values():  # noqa: SLF001 - there is no other way
        stacks.write("Thread:\n" + "".join(format_stack(frame)))
    return stacks.getvalue()
