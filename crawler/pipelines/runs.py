"""Record this process as a run of its crawl, and announce the crawl's end if it is the last one.

Part of the pipeline that stores pages: sinks get the records, and are closed after the last one.
"""

from __future__ import annotations

import asyncio
import getpass
import logging
import os
import shlex
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, is_dataclass, replace
from datetime import UTC, datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from scrapy import signals
from scrapy.extensions.feedexport import FeedExporter
from scrapy.settings import SETTINGS_PRIORITIES

from crawler.errors import ExitCode
from crawler.monitoring import ledger
from crawler.monitoring.figures import by_word
from crawler.monitoring.logs import mask_of
from crawler.monitoring.process_stats import ProcessStats
from crawler.monitoring.report import report
from crawler.pipelines.feeds import FEED_FAILED
from crawler.scheduler import Scheduler
from crawler.scheduling.lease_pool import BAD_SEEDS, DATA_LOST, NO_SEEDS, REDIS_LOST
from crawler.servers.connections import Servers
from crawler.servers.redis.errors import RedisAway
from crawler.storage.runs import BEAT_S, Run, ended_state
from crawler.util.tasks import end

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from crawler.storage.storage import Storage
    from crawler.util.secrets import Mask

logger = logging.getLogger(__name__)

# Finish reasons that are no success.
EXIT_CODES = {
    NO_SEEDS: ExitCode.MISTAKE,
    BAD_SEEDS: ExitCode.MISTAKE,
    REDIS_LOST: ExitCode.SERVER_AWAY,
    DATA_LOST: ExitCode.DATA_LOST,
    FEED_FAILED: ExitCode.FAILED,
    "start_error": ExitCode.FAILED,
}
# Version of the summary of a crawl: raised when a field changes its meaning or goes away.
SUMMARY_VERSION = 1
# Seconds that the record waits for feeds to be uploaded: whether that works is in the exit code.
_FEEDS_S = 120.0
# Files of `python -m scrapy` and of scrapyd, which have the arguments of `scrapy`.
_PROGRAMS = {("scrapy", "__main__.py"), ("scrapyd", "runner.py")}
# Set by us with the priority of the command line.
_NOT_GIVEN = frozenset({"LOG_INSTALL_ROOT_HANDLER"})
# Characters of a value and of a command line that are kept.
_VALUE_MAX, _COMMAND_MAX = 1000, 4000


def exit_code(reason: str, stats: Mapping[str, Any]) -> ExitCode:
    """Return the exit code of a crawl that ended by itself."""
    code = EXIT_CODES.get(reason, ExitCode.DONE)
    # A feed that is uploaded at the end, as to S3, may fail there.
    if not code and any(name.startswith("feedexport/failed_count/") for name in stats):
        return ExitCode.FAILED
    return code


class RunRecorder:
    """Background task that keeps the record of this process up to date."""

    def __init__(
        self, crawler: Crawler, storage: Storage, crawl: str, *, beat_s: float = BEAT_S
    ) -> None:
        self._crawler = crawler
        self._storage = storage
        self._beat_s = beat_s
        self._process_stats = ProcessStats.of(crawler)
        self._task: asyncio.Task[None] | None = None
        self._feeds_closed: asyncio.Event | None = None
        settings, now = crawler.settings, _now()
        assert crawler.spider is not None
        mask = mask_of(settings)
        self._run = Run(
            id=f"{now:%Y%m%dT%H%M%S}-{uuid4().hex[:8]}",
            crawl=crawl,
            spider=crawler.spider.name,
            machine=socket.gethostname(),
            pid=os.getpid(),
            user=_user(),
            worker="",
            command=_command(sys.argv, mask),
            started=now,
            seen=now,
            options=dict(_options(settings, crawler.spider, mask)),
        )

    def start(self) -> None:
        """Record the run, and again every few seconds."""
        if self._crawler.get_extension(FeedExporter) is not None:
            self._feeds_closed = asyncio.Event()
            self._crawler.signals.connect(self._note_feeds, signals.feed_exporter_closed)
        self._task = asyncio.get_running_loop().create_task(self._record_forever())

    async def end(self, reason: str) -> None:
        """Record how the run ended. The last process of the crawl announces that to the sinks."""
        if self._task is None:
            return
        await end(self._task)
        if self._feeds_closed is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_FEEDS_S):
                    await self._feeds_closed.wait()
        code = exit_code(reason, self._crawler.stats.get_stats())
        run = replace(
            self._current(),
            ended=_now(),
            state=ended_state(reason, code),
            reason=reason,
            exit_code=int(code),
        )
        await self._storage.record_run(run)
        if not self._storage.wants_end:
            return
        try:
            if await self._is_last():
                await self._storage.crawl_ended(await self._summary(run))
        except RedisAway as error:
            logger.error(
                "Redis does not answer (%s), so the sinks are not told whether the crawl has ended",
                error,
            )

    async def _record_forever(self) -> None:
        while True:
            await self._storage.record_run(self._current())
            await asyncio.sleep(self._beat_s)

    def _current(self) -> Run:
        figures, scheduler = self._process_stats.figures(), self._scheduler
        return replace(
            self._run,
            seen=_now(),
            worker=scheduler.frontier.owner if scheduler is not None else "",
            pages=figures.get("pages", 0),
            errors=sum(by_word(figures, "failed").values()),
        )

    @property
    def _scheduler(self) -> Scheduler | None:
        """The frontier's scheduler; None in crawls with a scheduler of Scrapy's."""
        scheduler = getattr(self._crawler.engine, "scheduler", None)
        return scheduler if isinstance(scheduler, Scheduler) else None

    async def _is_last(self) -> bool:
        scheduler = self._scheduler
        return scheduler is None or await scheduler.conclude()

    async def _summary(self, run: Run) -> dict[str, Any]:
        """Return what the whole crawl has done, and why its last process ended."""
        sizes, totals, scheduler = None, None, self._scheduler
        # Nobody else announces the end, so it is announced without them, too.
        with suppress(*RedisAway):
            if scheduler is not None:
                sizes = await scheduler.frontier.sizes()
                redis = await Servers.of(self._crawler).redis()
                totals = report(await ledger.read(redis, run.crawl, minutes=1))["totals"]
        assert run.ended is not None
        return {
            "version": SUMMARY_VERSION,
            "crawl": run.crawl,
            "spider": run.spider,
            "state": run.state,
            "reason": run.reason,
            "finished": run.reason == "finished" and not (sizes and sizes.unfinished),
            "ended_at": run.ended.isoformat(),
            # The last process.
            "ended_by": {
                name: getattr(run, name) for name in ("id", "machine", "pid", "user", "worker")
            },
            "whole_crawl": (
                None if sizes is None else asdict(sizes) | {"unfinished": sizes.unfinished}
            ),
            "totals": totals,
        }

    def _note_feeds(self) -> None:
        assert self._feeds_closed is not None
        self._feeds_closed.set()


def _now() -> datetime:
    """Return the time in milliseconds, as all stores keep it."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # In containers, a user may have a number only.
        return str(os.getuid())


def _command(argv: list[str], mask: Mask) -> str:
    """Return the command line for people; empty if a program started the crawl by itself."""
    program = PurePath(argv[0]) if argv else PurePath()
    if program.name != "scrapy" and program.parts[-2:] not in _PROGRAMS:
        return ""
    # Scrapy took the word "crawl" out of the arguments.
    return mask(shlex.join(["scrapy", "crawl", *argv[1:]]))[:_COMMAND_MAX]


def _options(settings: BaseSettings, spider: Any, mask: Mask) -> Iterator[tuple[str, Any]]:
    """List the settings of the command line and the generic spider's arguments, without secrets."""
    given = {
        name: settings[name]
        for name in settings
        if (settings.getpriority(name) or 0) >= SETTINGS_PRIORITIES["cmdline"]
        and name not in _NOT_GIVEN
    }
    arguments = getattr(spider, "arguments", None)
    if is_dataclass(arguments) and not isinstance(arguments, type):
        named = asdict(arguments)
        given |= named.pop("options", {})
        given |= {name: value for name, value in named.items() if value}
    for name, value in sorted(given.items()):
        if isinstance(value, (bool, int, float)) or value is None:
            yield name, value
            continue
        # With its name, which may say that the value is a secret.
        prefix = f"{name}="
        text = mask(f"{prefix}{value}").removeprefix(prefix)
        yield name, "***" if text.startswith("***") else text[:_VALUE_MAX]
