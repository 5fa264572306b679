"""Several crawler processes at once: start them, wait for what they do, signal and stop them.

fleet = Fleet(Crawls(tmp_path, redis_url), web)
first, second = fleet.start("http://s0.test/"), fleet.start(None)
assert first.wait() == 0
"""

import asyncio
import os
import re
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

from crawler.frontier import CrawlControl, Sizes
from crawler.servers.redis.connection import connect
from demo.process import DemoServer
from tests.acceptance.crawls import ROOT, Crawls, environment
from tests.support.waiting import wait_until
from tests.support.warm_starts import WarmProcess

_POLL_S = 0.02


class Process:
    """One `scrapy crawl web`, with its log in a file."""

    def __init__(self, command: list[str], log_path: Path, cwd: Path = ROOT) -> None:
        self.log_path = log_path
        with log_path.open("w") as log:
            self._process = WarmProcess(command, cwd=cwd, env=environment(), stdout=log, stderr=log)

    @property
    def log(self) -> str:
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def says(self, pattern: str, *, timeout_s: float = 120.0) -> re.Match[str]:
        """Wait for a line of its log."""

        def found() -> re.Match[str] | None:
            match = re.search(pattern, self.log)
            assert match or self.running, f"It ended without {pattern!r}:\n{self.log}"
            return match

        match: re.Match[str] = wait_until(found, deadline_s=timeout_s, what=repr(pattern))
        return match

    def taken_back(self) -> int:
        """Count the leases of dead processes that it took over: the most it fetches again."""
        return sum(map(int, re.findall(r"Took over (\d+) leases", self.log)))

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self, timeout_s: float = 240.0) -> int:
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            # Python prints the stacks of its threads then.
            self._process.send_signal(signal.SIGABRT)
            self._process.wait()
            raise AssertionError(f"It did not end within {timeout_s:g} s:\n{self.log}") from None

    def kill(self) -> None:
        """End it as a crash does."""
        if self.running:
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()


class Fleet:
    """Processes that share one crawl; those left at the end of the block are killed."""

    def __init__(self, crawls: Crawls, web: DemoServer, **settings: Any) -> None:
        self._crawls = crawls
        self._web = web
        self._settings = settings
        self._processes: list[Process] = []

    def start(
        self,
        seeds: str | None = None,
        *,
        arguments: dict[str, Any] | None = None,
        options: tuple[str, ...] = (),
        **settings: Any,
    ) -> Process:
        number = len(self._processes)
        name = f"process-{number}"
        command = self._crawls.command(
            seeds,
            web=self._web,
            arguments=arguments,
            options=options,
            settings={
                **self._settings,
                **settings,
                "SUMMARY_FILE": self._crawls.folder / f"{name}.json",
            },
        )
        process = Process(command, self._crawls.folder / f"{name}.log")
        self._processes.append(process)
        return process

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes:
            process.kill()


def sizes(redis_url: str, crawl: str = "web") -> Sizes:
    """How many URLs of a crawl are in each state."""

    async def ask() -> Sizes:
        redis = await connect(redis_url)
        try:
            return await (await CrawlControl.open(redis, crawl)).frontier.sizes()
        finally:
            await redis.aclose()

    return asyncio.run(ask())
