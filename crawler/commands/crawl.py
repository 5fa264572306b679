"""`scrapy crawl`: mistakes are one line, and the exit code says how the crawl went.

When the spider is closed, all that matters is safe. What is left (closing connections, joining
threads) may not keep the process for ever: after a time limit the stacks are printed and it ends.
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
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, UsageError

from crawler.commands import _deletion, _validate
from crawler.commands._settings import check_spider, completed, of_spider, use_frontier
from crawler.errors import CrawlerError, ExitCode
from crawler.monitoring import logs
from crawler.monitoring.logs import hide_listings
from crawler.pipelines.feeds import FEED_FAILED
from crawler.scheduling.completion import BAD_SEEDS, DATA_LOST, NO_SEEDS, REDIS_LOST
from crawler.servers.connections import Servers
from crawler.servers.redis.checks import taken
from crawler.util import interrupts

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


# Reasons to finish that are no success.
_EXIT_CODES = {
    NO_SEEDS: ExitCode.MISTAKE,
    BAD_SEEDS: ExitCode.MISTAKE,
    REDIS_LOST: ExitCode.SERVER_AWAY,
    DATA_LOST: ExitCode.DATA_LOST,
    FEED_FAILED: ExitCode.FAILED,
    "start_error": ExitCode.FAILED,
}
# For what is left when the spider is closed: an embedded MongoDB may take minutes to stop …
_CLOSE_S = 240.0
# … and when the servers are left, nothing is.
_EXIT_S = 10.0


class Command(ScrapyCrawl):
    """Check the settings and the servers first, then crawl."""

    _is_open = False
    _is_closed = False

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        _deletion.add_fresh_options(parser)

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings is not None
        # Before Scrapy's process is made, which logs at once.
        try:
            logs.install(self.settings)
        except CrawlerError as error:
            raise UsageError(str(error), print_help=False) from error

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            raise UsageError("give the name of one spider: scrapy crawl web -a seeds=…")
        assert self.crawler_process is not None
        assert self.settings is not None
        if not use_frontier(self.settings):
            super().run(args, opts)
            return
        hide_listings(self.settings["LOG_LEVEL"])
        try:
            settings = completed(self.settings)
            _validate.check(settings)
            # Before servers are started for it.
            check_spider(settings, args[0])
            settings, crawl = of_spider(self.settings, args[0], opts.spargs)
        except CrawlerError as error:
            self._say(error)
            return
        servers = Servers.from_settings(settings)
        try:
            interrupts.unwind()
            spider = opts.spargs.get("name", args[0])
            urls = interrupts.run(_look(servers, settings, crawl, spider))
            if opts.fresh and urls is not None:
                # Outside of an event loop: Ctrl-C is an answer, too.
                _deletion.confirm_deletion(crawl, urls, yes=opts.yes or not urls)
                interrupts.run(_forget(servers, settings, crawl))
            crawler = self._create_crawler(args[0])
            crawler.signals.connect(self._opened, signals.spider_opened)
            crawler.signals.connect(self._closed, signals.spider_closed)
            task: Any = self.crawler_process.crawl(crawler, **opts.spargs)
            task.add_done_callback(self._report)
            interrupts.remember()
            self.crawler_process.start()
            if crawler.spider is not None and not self.exitcode:
                self.exitcode = self._outcome(crawler)
            if not self.exitcode and not self.crawler_process.bootstrap_failed:
                self._tell_an_early_end()
        except CrawlerError as error:
            self._say(error)
        except KeyboardInterrupt:
            self._say_stopped()
        finally:
            servers.release()
            end_within(_EXIT_S, code=self.exitcode or ExitCode.FAILED)
        if self.crawler_process.bootstrap_failed and not self.exitcode:
            self.exitcode = ExitCode.FAILED

    @staticmethod
    def _outcome(crawler: Crawler) -> ExitCode:
        """The exit code that a crawl which ended by itself deserves."""
        stats = crawler.stats.get_stats()
        code = _EXIT_CODES.get(stats.get("finish_reason", ""), ExitCode.DONE)
        # A feed that is sent away at the end, as to S3, may fail there.
        if not code and any(name.startswith("feedexport/failed_count/") for name in stats):
            return ExitCode.FAILED
        return code

    def _report(self, task: asyncio.Task[None]) -> None:
        """Say what ended the crawl; other errors keep their traceback."""
        if task.cancelled():
            return
        error: BaseException | None = task.exception()
        while error is not None and not isinstance(error, CrawlerError):
            error = error.__cause__ or error.__context__
        if error is not None:
            self._say(error)
        elif (unexpected := task.exception()) is not None:
            raise unexpected

    def _opened(self) -> None:
        self._is_open = True
        if interrupts.came():
            # Before Scrapy handled them.
            raise CloseSpider("shutdown")

    def _closed(self, reason: str) -> None:
        self._is_closed = True
        code = _EXIT_CODES.get(reason, ExitCode.FAILED)
        end_within(_CLOSE_S, asyncio.get_running_loop(), code=code)

    def _tell_an_early_end(self) -> None:
        """Scrapy ends without a word at a signal while the spider opens, and at a second one."""
        if not self._is_open:
            self._say_stopped()
        elif not self._is_closed:
            text = (
                "scrapy crawl: stopped at once, so there is no summary; what was in flight comes "
                "back when the same command is run again"
            )
            print(logs.line(text), file=sys.stderr)
            self.exitcode = ExitCode.INTERRUPTED

    def _say_stopped(self) -> None:
        print(logs.line("scrapy crawl: stopped before the crawl began"), file=sys.stderr)
        self.exitcode = ExitCode.INTERRUPTED

    def _say(self, error: CrawlerError) -> None:
        print(logs.line(f"scrapy crawl: {error}", level=logging.ERROR), file=sys.stderr)
        self.exitcode = error.exit_code


async def _look(servers: Servers, settings: BaseSettings, crawl: str, spider: str) -> int | None:
    """Make sure that the servers answer, and that the crawl is this spider's.

    Returns how many URLs it has; None: there is no such crawl yet.
    """
    async with servers.checked(settings["PAGES_STORE"]) as redis:
        return await taken(_deletion.count_urls(redis, crawl, spider))


async def _forget(servers: Servers, settings: BaseSettings, crawl: str) -> None:
    async with servers.checked(settings["PAGES_STORE"]):
        await taken(_deletion.delete_crawl(crawl, servers, settings))


def end_within(
    seconds: float,
    loop: asyncio.AbstractEventLoop | None = None,
    *,
    code: int = ExitCode.FAILED,
) -> Timer:
    """Give the process so long; then its stacks are printed and it ends with this exit code."""
    # A daemon: it runs while the interpreter waits for other threads, and is not waited for.
    timer = Timer(seconds, _leave, (seconds, loop, code))
    timer.daemon = True
    timer.start()
    return timer


def _leave(seconds: float, loop: asyncio.AbstractEventLoop | None, code: int) -> None:
    try:
        _tell(seconds, loop)
    finally:
        # Whether or not that was possible: tasks may change meanwhile, standard error be closed.
        os._exit(code)


def _tell(seconds: float, loop: asyncio.AbstractEventLoop | None) -> None:
    out = sys.__stderr__
    if out is None:
        return
    text = (
        f"The crawl is over and safe, but the process did not end within {seconds:g} s; "
        "it is ended now. What it waited for:"
    )
    stacks = StringIO()
    for task in asyncio.all_tasks(loop) if loop is not None else ():
        task.print_stack(file=stacks)
    for frame in sys._current_frames().values():  # noqa: SLF001 - there is no other way
        stacks.write("Thread:\n" + "".join(format_stack(frame)))
    print(logs.line(f"{text}\n{stacks.getvalue()}", level=logging.ERROR), file=out, flush=True)
