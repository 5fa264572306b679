"""Crawlers of a storm: processes of one crawl, which have successors until it is over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from chaos.audit import Exit
from crawler.errors import ExitCode
from tests.acceptance.crawls import ROOT, environment
from tests.support.warm_starts import WarmProcess

_POLL_S = 0.05
# A crawler that waited for a CPU for half of such a time may have sent no beat in it.
_WATCHED_S, _STARVED = 1.0, 0.5
# Before a successor starts, if the crawler ended since a server is away.
_AWAY_S = 1.0


class Crawler:
    """One `scrapy crawl web`, with its log in a file. Its methods may be called from any thread."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        variables: Mapping[str, str],
        *,
        cold: bool,
    ) -> None:
        self.name = name
        self.log_path = folder / f"{name}.log"
        self.told: list[int] = []
        self.began_s = time.time()
        self.ended_s = 0.0
        # When it hardly got a CPU, in epoch seconds.
        self.starved: list[float] = []
        self._waited_ns, self._watched_s = 0, self.began_s
        self._summary = folder / f"{name}.json"
        self._lock = threading.Lock()
        values = {**environment(), **variables}
        with self.log_path.open("wb") as log:
            if cold:
                # As users start it, so that the environment may change the program itself.
                self._process: Any = subprocess.Popen(
                    [sys.executable, "-m", "scrapy", *command],
                    cwd=ROOT,
                    env=values,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            else:
                self._process = WarmProcess(command, cwd=ROOT, env=values, stdout=log, stderr=log)
        self.pid: int = self._process.pid

    @property
    def running(self) -> bool:
        with self._lock:
            return self._code() is None

    def _code(self) -> int | None:
        code: int | None = self._process.poll()
        if code is not None and not self.ended_s:
            self.ended_s = time.time()
        return code

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it runs."""
        with self._lock:
            if self._code() is None:
                if number not in (signal.SIGSTOP, signal.SIGCONT):
                    self.told.append(number)
                os.kill(self.pid, number)

    def watch(self) -> None:
        """Note whether it gets a CPU; called now and then."""
        now_s = time.time()
        took_s = now_s - self._watched_s
        if took_s < _WATCHED_S:
            return
        with suppress(OSError, ValueError, IndexError):
            waited_ns = int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[1])
            if (waited_ns - self._waited_ns) / 1e9 > _STARVED * took_s:
                self.starved.append(now_s)
            self._waited_ns, self._watched_s = waited_ns, now_s

    def kill(self) -> None:
        """End it as a crash does."""
        self.send(signal.SIGKILL)
        self.wait(60)

    def wait(self, seconds: float) -> bool:
        """Wait until it has ended, at most so long; return whether it has."""
        until = time.monotonic() + seconds
        while self.running:
            if time.monotonic() > until:
                return False
            time.sleep(_POLL_S)
        return True

    def exit(self) -> Exit:
        """Return how it ended."""
        assert not self.running
        reason = ""
        with suppress(OSError, ValueError, KeyError):
            reason = json.loads(self._summary.read_text(encoding="utf-8"))["reason"]
        return Exit(
            *(self.name, self.began_s, self.ended_s, self._process.poll()),
            *(tuple(self.told), reason, self.log_path, tuple(self.starved)),
        )


class Crawlers:
    """So many crawlers at a time, until each place has one that found the crawl finished."""

    def __init__(self, count: int, start: Callable[[str], Crawler]) -> None:
        self.exits: list[Exit] = []
        self.is_over = threading.Event()
        self._start = start
        self._count = count
        self._generations = [0] * count
        self._running: list[Crawler] = []
        self._wanted = threading.Event()
        self._thread = threading.Thread(target=self._mind, daemon=True)

    @property
    def running(self) -> list[Crawler]:
        """Those that run, or have just ended, by place."""
        return list(self._running)

    def open(self) -> None:
        """Start them; whoever ends from now on has a successor."""
        self._running = [self._next(place) for place in range(self._count)]
        self._wanted.set()
        self._thread.start()

    def _next(self, place: int) -> Crawler:
        self._generations[place] += 1
        return self._start(f"c{place}-{self._generations[place]}")

    def _mind(self) -> None:
        over: set[int] = set()
        due = [0.0] * self._count
        while self._wanted.is_set() and len(over) < self._count:
            for place, crawler in enumerate(self._running):
                if place in over:
                    continue
                if crawler.running:
                    crawler.watch()
                    continue
                if not due[place]:
                    ended = crawler.exit()
                    self.exits.append(ended)
                    if ended.code == 0 and ended.reason == "finished":
                        over.add(place)
                        continue
                    is_away = ended.code == ExitCode.SERVER_AWAY
                    due[place] = time.monotonic() + (_AWAY_S if is_away else _POLL_S)
                if time.monotonic() >= due[place]:
                    self._running[place], due[place] = self._next(place), 0.0
            time.sleep(_POLL_S)
        if len(over) == self._count:
            self.is_over.set()

    def close(self) -> list[str]:
        """End those that still run; return their names."""
        self._wanted.clear()
        if self._thread.is_alive():
            self._thread.join(60)
        left = [crawler for crawler in self._running if crawler.running]
        for crawler in left:
            # Python prints the stacks of its threads then.
            crawler.send(signal.SIGABRT)
            if not crawler.wait(10):
                crawler.kill()
            self.exits.append(crawler.exit())
        return [crawler.name for crawler in left]
