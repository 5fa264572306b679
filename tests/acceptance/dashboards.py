"""Dashboards to look at: the process that serves one, and a page of the browser on it."""

import asyncio
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from crawler.frontier import Frontier
from crawler.servers.redis.connection import connect
from tests.acceptance.crawls import ROOT, environment
from tests.support.browser import PATIENCE_MS

TOKEN = "token-of-the-dashboards-test"
_ADDRESS = re.compile(r"Dashboard and admin API[^:]*: (http://\S+)")


class Running:
    """A scrapy command that runs; a context manager that ends it."""

    def __init__(self, log: Path, *command: str) -> None:
        self._log = log
        self._command = [sys.executable, "-m", "scrapy", *command]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes]:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                env=environment() | {"PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return self._process

    def __enter__(self) -> Any:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def wait(self) -> int:
        """Its exit code, once it has ended by itself."""
        assert self._process is not None
        return self._process.wait(PATIENCE_MS / 1000)

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")


class Served(Running):
    """A scrapy command that serves a dashboard."""

    def __enter__(self) -> str:
        """Start it; returns its address."""
        process = self.start()
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while (found := _ADDRESS.search(self.log)) is None:
            assert process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.05)
        return found[1]


@contextmanager
def beating(redis_url: str, about: Mapping[str, Any]) -> Iterator[None]:
    """Let a process of the crawl `web` report this of itself, again and again."""
    ready, ended = threading.Event(), threading.Event()

    async def beat() -> None:
        redis = await connect(redis_url)
        frontier, described = Frontier(redis, "web"), {"machine": "m", "pid": 7, **about}
        await frontier.open(described)
        ready.set()
        while not await asyncio.to_thread(ended.wait, 1.0):
            await frontier.beat([0], about=described)
        await redis.aclose()

    # In a thread: playwright has a loop of its own.
    thread = threading.Thread(target=lambda: asyncio.run(beat()))
    thread.start()
    try:
        assert ready.wait(60)
        yield
    finally:
        ended.set()
        thread.join(60)


class Dashboard:
    """A page of the browser, and what it complained about."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.page = browser.new_context(**options).new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.complaints: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._heard)
        self.page.goto(url)

    def _heard(self, message: Any) -> None:
        # Requests that are refused or fail are part of the tests; a policy that is broken is not.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def sign_in(self, token: str = TOKEN) -> None:
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Sign in").click()

    def tile(self, title: str) -> str:
        """The number under this title."""
        tile = self.page.locator(".tile", has=self.page.get_by_text(title, exact=True))
        return str(tile.locator("dd").first.inner_text())

    def wait_for_text(self, selector: str, text: str | re.Pattern[str]) -> None:
        self.page.locator(selector, has_text=text).first.wait_for()

    def wait_for_tile(self, title: str, at_least: int) -> int:
        """The number under this title, when it has got so large."""
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while True:
            text = self.tile(title).replace(",", "")
            if text.isdigit() and int(text) >= at_least:
                return int(text)
            assert time.monotonic() < deadline, f"{title} is {text}"
            self.page.wait_for_timeout(100)
