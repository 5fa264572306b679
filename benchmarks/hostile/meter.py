"""Measure for how long a crawl's event loop is held, and by what: a Scrapy extension.

A timer is due every few milliseconds. What counts of the time by which it is late is at most the
CPU time that the process used meanwhile: on a busy machine the system lets others run. CPU time of
threads counts too, as they may hold the interpreter's lock. While the timer is late, a thread notes
what the loop's thread does.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Self

from scrapy import signals

from benchmarks.crawl_process import memory_mb

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

# The environment variable with the file that the figures go to when the crawl ends.
METER_FILE = "BENCH_METER_FILE"
_STEP_S, _LATE_S, _LOOK_S = 0.005, 0.05, 0.01
_FRAMES = 6
# What threads do that wait for work.
_WAITING = frozenset({"wait", "_worker", "poll", "select", "get"})


class Meter:
    """Meter of one crawl, from the opening of its spider to its end."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._hold_s = 0.0
        self._hold_at: list[str] = []
        self._seen: list[str] = []
        self._beat_s = 0.0
        self._started_s = time.monotonic()
        self._loop_thread = threading.get_ident()
        self._is_over = threading.Event()
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        meter = cls(crawler)
        crawler.signals.connect(meter.spider_opened, signals.spider_opened)
        crawler.signals.connect(meter.spider_closed, signals.spider_closed)
        return meter

    def spider_opened(self) -> None:
        self._beat_s = time.monotonic()
        self._loop_thread = threading.get_ident()
        self._task = asyncio.get_running_loop().create_task(self._beat_forever())
        threading.Thread(target=self._watch, daemon=True).start()

    def spider_closed(self) -> None:
        self._is_over.set()
        if self._task is not None:
            self._task.cancel()
        assert self._crawler.stats is not None
        stats = self._crawler.stats.get_stats()
        figures = {
            "hold_ms": self._hold_s * 1000,
            "at": self._hold_at,
            "seconds": time.monotonic() - self._started_s,
            "peak_mb": memory_mb(os.getpid()),
            "stats": {name: value for name, value in stats.items() if isinstance(value, int)},
        }
        Path(os.environ[METER_FILE]).write_text(json.dumps(figures), encoding="utf-8")

    async def _beat_forever(self) -> None:
        while True:
            due_s, cpu_s = time.monotonic() + _STEP_S, time.process_time()
            await asyncio.sleep(_STEP_S)
            self._beat_s = time.monotonic()
            held_s = min(self._beat_s - due_s, time.process_time() - cpu_s)
            if held_s > self._hold_s:
                self._hold_s, self._hold_at = held_s, self._seen
            self._seen = []

    def _watch(self) -> None:
        """Note where the loop's thread is, while the loop is held."""
        while not self._is_over.wait(_LOOK_S):
            if time.monotonic() - self._beat_s > _LATE_S and not self._seen:
                self._seen = [
                    line
                    for number, frame in sys._current_frames().items()  # noqa: SLF001 - no other way
                    if number != threading.get_ident()
                    for line in _stack_of(frame, is_loop=number == self._loop_thread)
                ]


def _stack_of(frame: FrameType, *, is_loop: bool) -> list[str]:
    """Describe where a thread is, the innermost call first; empty if it waits for work."""
    stack = traceback.extract_stack(frame)[-_FRAMES:]
    if stack[-1].name in _WAITING:
        return []
    lines = [f"  {each.filename}:{each.lineno} {each.name}" for each in reversed(stack)]
    return ["the event loop:" if is_loop else "a thread:", *lines]
