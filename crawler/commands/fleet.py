"""`scrapy fleet web -n 4 -a seeds=…`: crawl with several processes, kept alive, shown as one.

Exits with 0 if they ended by themselves or were stopped, else with the code of one that was given
up (errors.py).

    FleetProcess  one process: its command line and log file, and whether it is started again
    Supervisor    runs the processes until the crawl is over or somebody stops it
    FleetReader   reads what is shown while they run and at the end

A process that crashes is started again after a delay, and given up after too many crashes.
"""

import argparse
import asyncio
import json
import logging
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import quote

from scrapy.commands import ScrapyCommand

from crawler.commands import _validate, frontier
from crawler.commands._arguments import WithSpiderHelp, check_words
from crawler.commands._settings import check_spider, completed, crawl_settings
from crawler.discovery.seeds import split_topics
from crawler.errors import CrawlerError, ExitCode
from crawler.frontier import CrawlControl, Sizes
from crawler.monitoring import ledger, logs
from crawler.monitoring.console.screen import Screen
from crawler.monitoring.console.view import ProcessRow, RunFigures, Snapshot
from crawler.monitoring.figures import grown
from crawler.monitoring.sinks import sinks_state
from crawler.servers.connections import Servers
from crawler.servers.redis.checks import required
from crawler.servers.redis.connection import Client
from crawler.servers.redis.errors import RedisAway
from crawler.storage.sinks import uses_mongo
from crawler.util import interrupts
from crawler.util.backoff import Backoff
from crawler.util.format import duration, plural, share, size

_PROCESSES_MAX = 256


class Command(WithSpiderHelp, ScrapyCommand):
    """Command `scrapy fleet`. A plain event loop watches the processes: no reactor."""

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
        check_words("fleet", args)
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
            if uses_mongo(settings):
                # Before the start: one error is better than one of each process.
                await servers.mongo()
            name = _given(opts).get("name", spider)
            urls = await required(frontier.count_urls(redis, crawl, name))
            if opts.fresh:
                # Once, and not by the processes: one that starts again continues the crawl.
                frontier.confirm_deletion(crawl, urls or 0, yes=opts.yes or not urls)
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


NOT_STARTED, RUNNING, RESTARTING = "not started", "running", "restarting"
ENDED, GIVEN_UP = "ended", "given up"
_END_S = 10.0
_TAIL_LINES = 5
_TAIL_BYTES = 4096


class FleetProcess:
    """A process that is started again when it crashes. Time is an argument, monotonic seconds.

    It is given up when its servers are away for longer than `give_up_s`; 0 for never.
    """

    def __init__(
        self, name: str, command: Sequence[str], log: Path, *, give_up_s: float = 0.0
    ) -> None:
        self.name = name
        self.log = log
        self.state = NOT_STARTED
        self.restarts = 0
        # Why it is not running, for people.
        self.why = ""
        # Of a process that was given up.
        self.exit_code = ExitCode.DONE
        self._give_up_s = give_up_s
        # When it first ended because a server was away.
        self._away_since_s: float | None = None
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._started_s = 0.0
        self._crashes = 0
        self._start_at_s = 0.0
        self._stopping = False

    @property
    def pid(self) -> int | None:
        """Process id, while it runs."""
        return self._process.pid if self._process is not None else None

    @property
    def over(self) -> bool:
        """Whether it neither runs nor will start again."""
        return self.state in (NOT_STARTED, ENDED, GIVEN_UP)

    def start(self, now_s: float) -> None:
        """Start the process; its output goes to the log."""
        self._started_s = now_s
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C of the terminal is for the fleet, which passes it on once.
                start_new_session=True,
            )
        self.state, self.why = RUNNING, ""

    def check(self, now_s: float) -> bool:
        """Read its state, and start it again when it is time; return whether anything changed."""
        if self._process is not None:
            code = self._process.poll()
            if code is not None:
                self._process = None
                self._ended(code, now_s)
                return True
        elif self.state == RESTARTING and (self._stopping or now_s >= self._start_at_s):
            if self._stopping:
                self.state = ENDED
            else:
                self.restarts += 1
                self.start(now_s)
            return True
        return False

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ask it to end; it is not started again.

        Not by SIGINT: a process that is still importing its modules may lose it.
        """
        self._stopping = True
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def wait(self, timeout_s: float = _END_S) -> None:
        """Wait until it has ended, and kill it if it does not. Blocking."""
        if self._process is None:
            return
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def tail(self) -> str:
        """Return the last lines of its log; of lines in JSON the messages."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ""
        return "\n".join(map(logs.parse_message, text.rstrip().splitlines()[-_TAIL_LINES:]))

    def _ended(self, code: int, now_s: float) -> None:
        how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"
        if self._stopping:
            self.state, self.why = ENDED, how
            return
        ran_s = now_s - self._started_s
        if code != ExitCode.SERVER_AWAY:
            self._away_since_s = None
        elif self._away_since_s is None or ran_s >= WELL_S:
            self._away_since_s = now_s
        away_s = now_s - self._away_since_s if self._away_since_s is not None else 0.0
        match after_exit(
            code, ran_s=ran_s, crashes=self._crashes, away_s=away_s, give_up_s=self._give_up_s
        ):
            case None:
                self.state, self._crashes = ENDED, 0
                self.why = how if code else ""
            case Restart(wait_s, crashes):
                self.state, self._crashes = RESTARTING, crashes
                self._start_at_s = now_s + wait_s
                what = f"{how}: a server is away" if code == ExitCode.SERVER_AWAY else how
                self.why = f"{what}, starts again in {wait_s:.0f} s"
            case GivenUp(reason, exit_code):
                self.state, self.why = GIVEN_UP, f"{how}: {reason}"
                self.exit_code = exit_code


# A process that ran for so long was well: its earlier crashes are forgotten.
WELL_S = 60.0
_BACKOFF = Backoff(1.0, 60.0)
CRASHES_MAX = 8
# Codes after which another start would fail the same way.
_FINAL = {
    ExitCode.MISTAKE: "its arguments or settings are wrong",
    ExitCode.DATA_LOST: "Redis or a store lost a part of the crawl",
}


@dataclass(frozen=True, slots=True)
class Restart:
    """Decision to start a process again, after a crash or without its server."""

    wait_s: float
    # Crashes in a row, this one included.
    crashes: int


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Decision not to start a process again, because it would fail again."""

    reason: str
    code: ExitCode


def after_exit(
    code: int, *, ran_s: float, crashes: int, away_s: float = 0.0, give_up_s: float = 0.0
) -> Restart | GivenUp | None:
    """Decide about a process that ended with this code (negative: by a signal); None: it is done.

    `crashes` counts earlier crashes in a row; `away_s` is how long ago it first ended because a
    server was away. After `give_up_s` of that it is given up; 0 for never.
    """
    if code in (ExitCode.DONE, ExitCode.INTERRUPTED):
        return None
    if code in _FINAL:
        return GivenUp(_FINAL[ExitCode(code)], ExitCode(code))
    if code == ExitCode.SERVER_AWAY:
        # This is no crash: processes that run wait for a server, too.
        if 0 < give_up_s <= away_s:
            return GivenUp(f"a server was away for {away_s:.0f} s", ExitCode.SERVER_AWAY)
        # The delay doubles each time: it is as long as the server has been away.
        return Restart(min(max(_BACKOFF.base_s, away_s), _BACKOFF.max_s), crashes)
    crashes = 1 if ran_s >= WELL_S else crashes + 1
    if crashes > CRASHES_MAX:
        return GivenUp(f"it crashed {crashes} times in a row", ExitCode.FAILED)
    return Restart(_BACKOFF.delay_s(crashes), crashes)


_SCRAPY = (sys.executable, "-m", "scrapy")
_FIRST_ONLY = ("seeds", "sitemaps")


def crawl_command(
    spider: str, arguments: Sequence[str], settings: Sequence[str], *, port: int, first: bool
) -> list[str]:
    """Return the command of a crawl process.

    `arguments` and `settings` are those after -a and -s, NAME=VALUE each. Only the first process
    gets the seeds: the others find them in the frontier. Topics of Kafka are for all of them. The
    dashboard of the fleet is at `port`; the processes serve their metrics at the ports above it.
    """
    given = [each for each in arguments if first or each.partition("=")[0] not in _FIRST_ONLY]
    _, topics = split_topics(dict(each.split("=", 1) for each in arguments).get("seeds", ""))
    if topics and not first:
        # Of a topic, each process reads its share.
        settings = [*settings, f"KAFKA_SEEDS={topics}"]
    # The fleet shows the progress of all processes.
    options = [*settings, "PROGRESS=off", f"ADMIN_PORT={port + 1}"]
    return [*_SCRAPY, "crawl", spider, *_flags("-a", given), *_flags("-s", options)]


def admin_command(crawl: str, settings: Sequence[str]) -> list[str]:
    """Return the command of the admin API and the dashboard."""
    return [*_SCRAPY, "admin", f"--crawl={crawl}", *_flags("-s", settings)]


def _flags(flag: str, values: Sequence[str]) -> list[str]:
    return [word for value in values for word in (flag, value)]


def log_folder(crawl_dir: str, crawl: str) -> Path:
    """Return the folder of a crawl's logs; characters that no folder may have are quoted."""
    name = quote(crawl, safe="")
    return Path(crawl_dir, "fleet", name if name.strip(".") else name.replace(".", "%2E"))


def fresh_log(folder: Path, process: str) -> Path:
    """Return the log file of a process; the earlier one is kept as `.1`.

    A process of an earlier fleet that still runs goes on writing to its own file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{process.replace(' ', '-')}.log"
    with suppress(FileNotFoundError):
        log.replace(log.with_suffix(".log.1"))
    return log


_CHECK_S = 0.1
# Processes that were asked twice to stop get this long before they are killed.
_FORCED_S = 5.0
# The others start when there are URLs to crawl, at the latest after this time.
_FIRST_S = 60.0


class Supervisor:
    """Processes of a fleet: `crawlers` crawl, `admin` serves the dashboard while they do.

    `has_work` returns whether the frontier has URLs; `say` shows news to people.
    """

    def __init__(
        self,
        crawlers: Sequence[FleetProcess],
        admin: FleetProcess,
        *,
        has_work: Callable[[], Awaitable[bool]],
        say: Callable[[str], None],
    ) -> None:
        self.crawlers = crawlers
        self.admin = admin
        self._has_work = has_work
        self._say = say
        self._stops = 0
        self._kill_at_s: float | None = None
        # Whether the address of the dashboard was shown.
        self._announced = False

    @property
    def stopping(self) -> bool:
        return self._stops > 0

    @property
    def exit_code(self) -> ExitCode:
        """DONE, or the most telling code of the crawl processes that were given up."""
        return max(member.exit_code for member in self.crawlers)

    def stop(self) -> None:
        """Let fetches finish; when called again, stop at once."""
        self._stops += 1
        if self._stops == 1:
            self._say("Stopping: fetches in flight finish; once more stops at once")
        elif self._kill_at_s is None:
            self._say("Stopping at once")
            self._kill_at_s = monotonic() + _FORCED_S
        for member in self.crawlers:
            member.stop()

    async def run(self) -> None:
        """Return when all crawl processes are over."""
        first = self.crawlers[0]
        started_s = monotonic()
        first.start(started_s)
        waiting = True
        try:
            while not (first.over if waiting else all(member.over for member in self.crawlers)):
                self._check()
                # Without URLs the others would find the crawl finished, and end.
                if waiting and (await self._has_work() or monotonic() > started_s + _FIRST_S):
                    waiting = False
                    self._start_others()
                await asyncio.sleep(_CHECK_S)
        finally:
            self._end_all()

    def _start_others(self) -> None:
        if not self.stopping:
            for member in (*self.crawlers[1:], self.admin):
                member.start(monotonic())

    def _check(self) -> None:
        now_s = monotonic()
        for member in (*self.crawlers, self.admin):
            if member.check(now_s):
                self._report(member)
        if not self._announced and "http://" in (shown := self.admin.tail()):
            self._announced = True
            self._say(shown)
        if self._kill_at_s is not None and now_s > self._kill_at_s:
            for member in self.crawlers:
                member.stop(signal.SIGKILL)

    def _report(self, member: FleetProcess) -> None:
        if member.state == RUNNING:
            self._say(f"{member.name} runs again (pid {member.pid})")
        elif member.state == GIVEN_UP:
            end = f"Its log, {member.log}, ends with:\n{member.tail()}"
            self._say(f"{member.name} {member.why}. {end}")
        elif member.why:
            self._say(f"{member.name} {member.why}")

    def _end_all(self) -> None:
        """End all processes that were started here."""
        for member in self.crawlers:
            if not member.over:
                member.stop(signal.SIGKILL)
        self.admin.stop()
        for member in (*self.crawlers, self.admin):
            member.wait()


class FleetReader:
    """Figures of a fleet's crawl. Keeps the last reading: an old one is better than none."""

    def __init__(self, redis: Client, crawl: str) -> None:
        self._redis = redis
        self._crawl = crawl
        self._started_s = monotonic()
        self._before: dict[str, int] = {}
        self._pages_before = 0
        self._fleet = ledger.Fleet()
        self._sizes: Sizes | None = None

    async def open(self) -> None:
        """Note what earlier runs counted."""
        await self._read()
        self._before = self._fleet.totals
        self._pages_before = self._pages

    async def has_work(self) -> bool:
        """Return whether the frontier has URLs."""
        await self._read()
        return self._sizes is not None and self._sizes.unfinished > 0

    async def read(self, members: Sequence[FleetProcess], *, stopping: bool) -> Snapshot:
        """Read the figures of this run and of the whole crawl."""
        await self._read()
        about = {each.get("pid"): each for each in self._fleet.instances.values()}
        rows = [
            ProcessRow(m.name, m.state, m.pid, m.restarts, m.why, about.get(m.pid, {}))
            for m in members
        ]
        run = RunFigures.from_figures(
            grown(self._before, self._fleet.totals),
            elapsed_s=monotonic() - self._started_s,
            pages=self._pages - self._pages_before,
            recent_s=sum(float(row.about.get("pages_per_s") or 0) for row in rows),
        )
        return Snapshot(
            *(self._crawl, run, self._sizes, len(self._fleet.instances)),
            outage=sinks_state(self._fleet.live, {}).outage,
            rows=rows,
            stopping=stopping,
        )

    @property
    def _pages(self) -> int:
        """Pages by the frontier's count, which misses none when a process is killed."""
        return self._sizes.pages if self._sizes is not None else 0

    async def _read(self) -> None:
        # A crawl that no process has begun has no sizes.
        with suppress(CrawlerError, *RedisAway):
            self._sizes = await (await CrawlControl.open(self._redis, self._crawl)).frontier.sizes()
            self._fleet = await ledger.read(self._redis, self._crawl, minutes=1)


def fleet_json(snapshot: Snapshot) -> dict[str, Any]:
    """Return the result of a fleet for programs."""
    run, sizes = snapshot.run, snapshot.crawl
    return {
        "crawl": snapshot.name,
        "elapsed_s": round(run.elapsed_s, 1),
        "pages": run.pages,
        "not_modified": run.not_modified,
        "failed": sum(run.failed.values()),
        "success_rate": run.success,
        "bytes": run.size_bytes,
        "processes": [
            {"name": row.name, "state": row.state, "restarts": row.restarts, "why": row.why}
            for row in snapshot.rows
        ],
        "unfinished": None if sizes is None else sizes.unfinished,
        "whole_crawl": None if sizes is None else asdict(sizes),
    }


def summary_lines(snapshot: Snapshot) -> list[str]:
    """Return the result of a fleet for people."""
    run, rows, sizes = snapshot.run, snapshot.rows, snapshot.crawl
    restarts = plural(sum(row.restarts for row in rows), "restart")
    first = (
        f"{plural(run.pages, 'page')} ({size(run.size_bytes)} read) by "
        f"{plural(len(rows), 'process', 'processes')} in {duration(run.elapsed_s)}, {restarts}; "
        f"{sum(run.failed.values()):,} failed, success {share(run.success)}"
    )
    lines = [first]
    if sizes is not None:
        given_up = any(row.state == GIVEN_UP for row in rows)
        if given_up and not sizes.added:
            # Its processes said why.
            return [*lines, "The crawl has not begun."]
        nothing = "nothing waits" if given_up else "finished: nothing is left to crawl"
        state = f"{plural(sizes.unfinished, 'URL')} left" if sizes.unfinished else nothing
        lines.append(
            f"The whole crawl: {sizes.pages:,} pages crawled, {sizes.dead:,} given up; {state}"
        )
    return lines
