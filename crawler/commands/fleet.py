"""`scrapy fleet web -n 4 -a seeds=…`: crawl with several processes, kept alive, shown as one.

Exits with 0 if they ended by themselves or were stopped, else with the code of one that was given
up (errors.py).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import signal
import sys
from pathlib import Path

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from crawler.commands import _validate, frontier
from crawler.commands._fleet import (
    FleetProcess,
    FleetReader,
    Supervisor,
    admin_command,
    crawl_command,
    fleet_json,
    fresh_log,
    log_folder,
    summary_lines,
)
from crawler.commands._settings import check_spider, completed, crawl_settings
from crawler.errors import CrawlerError, ExitCode
from crawler.monitoring import logs
from crawler.monitoring.console.screen import Screen
from crawler.monitoring.console.view import Snapshot
from crawler.servers.connections import Servers
from crawler.servers.redis.checks import required
from crawler.servers.redis.connection import Client
from crawler.util import interrupts

_PROCESSES_MAX = 256


class Command(ScrapyCommand):
    """The command `scrapy fleet`. A plain event loop watches the processes: no reactor."""

    requires_project = True
    requires_crawler_process = False

    def syntax(self) -> str:
        return "[-n PROCESSES] [options] SPIDER"

    def short_desc(self) -> str:
        return "Crawl with several processes and one dashboard"

    def long_desc(self) -> str:
        return (
            "Start several processes of one crawl and its admin API. Those that crash start again; "
            "Ctrl-C lets fetches finish, once more stops at once. Logs are in "
            "CRAWL_DIR/fleet/CRAWL."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("-n", "--processes", type=_processes, default=4, help="how many (4)")
        parser.add_argument(
            "-a",
            dest="arguments",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="argument of the spider, as for scrapy crawl",
        )
        parser.add_argument("--json", action="store_true", help="print the result as JSON")
        frontier.add_fresh_options(parser)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            raise UsageError("give the name of one spider: scrapy fleet web -n 4 -a seeds=…")
        try:
            whole = completed(self.settings)
            if whole.getbool("LOG_JSON"):
                logs.install(whole)
            _validate.check(whole)
            check_spider(whole, args[0])
            _check_arguments(opts)
            assert self.settings is not None
            self.settings, crawl = crawl_settings(self.settings, args[0], _given(opts))
            interrupts.unwind()
            interrupts.run(self._crawl(args[0], crawl, opts))
        except CrawlerError as error:
            print(logs.line(f"scrapy fleet: {error}", level=logging.ERROR), file=sys.stderr)
            self.exitcode = error.exit_code
        except KeyboardInterrupt:
            print(logs.line("scrapy fleet: stopped before the crawl began"), file=sys.stderr)
            self.exitcode = ExitCode.INTERRUPTED

    async def _crawl(self, spider: str, crawl: str, opts: argparse.Namespace) -> None:
        settings = self.settings
        assert settings is not None
        servers = Servers.from_settings(settings)
        try:
            redis = await servers.redis()
            if settings["PAGES_STORE"] == "mongo":
                # Before the start: one error is better than one of each process.
                await servers.mongo()
            name = _given(opts).get("name", spider)
            urls = await required(frontier.count_urls(redis, crawl, name))
            if opts.fresh and urls is not None:
                # Once, and not by the processes: one that starts again continues the crawl.
                frontier.confirm_deletion(crawl, urls, yes=opts.yes or not urls)
                await required(frontier.delete_crawl(crawl, servers, settings))
            await self._supervise(spider, crawl, opts, redis)
        finally:
            await servers.close()

    async def _supervise(
        self, spider: str, crawl: str, opts: argparse.Namespace, redis: Client
    ) -> None:
        settings = self.settings
        assert settings is not None
        folder, given = log_folder(settings["CRAWL_DIR"], crawl), opts.set or []
        port, give_up_s = settings.getint("ADMIN_PORT"), settings.getfloat("REDIS_GIVE_UP")

        def member(name: str, command: list[str], give_up_s: float = 0.0) -> FleetProcess:
            return FleetProcess(name, command, fresh_log(folder, name), give_up_s=give_up_s)

        crawlers = []
        for number in range(1, opts.processes + 1):
            first = number == 1
            command = crawl_command(spider, opts.arguments, given, port=port, first=first)
            crawlers.append(member(f"process {number}", command, give_up_s))
        screen = Screen.from_settings(settings)
        reader = FleetReader(redis, crawl)
        admin = member("admin", admin_command(crawl, given))
        supervisor = Supervisor(crawlers, admin, has_work=reader.has_work, say=screen.say)
        await reader.open()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, supervisor.stop)

        async def read() -> Snapshot:
            return await reader.read(crawlers, stopping=supervisor.stopping)

        screen.say(f"{opts.processes} processes crawl {crawl!r}; their logs are in {folder}")
        screen.start(read)
        try:
            await supervisor.run()
        finally:
            await screen.stop()
        if opts.json:
            print(json.dumps(fleet_json(await read())))
        else:
            for line in summary_lines(await read()):
                screen.say(line)
        self.exitcode = supervisor.exit_code


def _check_arguments(opts: argparse.Namespace) -> None:
    for argument in opts.arguments:
        if "=" not in argument:
            raise CrawlerError(f"-a {argument} has no value; write it as -a NAME=VALUE.")
    seeds = _given(opts).get("seeds", "")
    if "-" in seeds.replace(",", " ").split() and not Path(seeds).exists():
        raise CrawlerError(
            "seeds=- is standard input, which the processes of a fleet do not share; write the "
            "seeds to a file and name that."
        )


def _given(opts: argparse.Namespace) -> dict[str, str]:
    return dict(argument.split("=", 1) for argument in opts.arguments)


def _processes(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if not 1 <= number <= _PROCESSES_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {_PROCESSES_MAX}")
    return number
