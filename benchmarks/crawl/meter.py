"""Measure a crawl from inside its process: CPU time from the start of the engine to its end.

What is before it is mostly imports, and the same for a crawl of any length. It listens to two
signals, neither of them once a page.
"""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable
from cProfile import Profile
from pathlib import Path
from typing import TYPE_CHECKING, Self

from scrapy import signals

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

# The environment variable with the file that the measurement goes to.
METER_FILE = "BENCH_METER_FILE"
# The same for a profile; without it none is made.
PROFILE_FILE = "BENCH_PROFILE_FILE"


def cpu_s() -> float:
    """CPU time of this process so far, by all of its threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Stopwatch:
    """Begins when it is made; `stop` writes what it found to the file."""

    def __init__(self, clock: Callable[[], float] = cpu_s) -> None:
        self._clock = clock
        self._started = clock()

    def stop(self) -> None:
        """Write the CPU seconds since the start."""
        found = {"cpu_s": self._clock() - self._started}
        Path(os.environ[METER_FILE]).write_text(json.dumps(found), encoding="utf-8")


class Meter:
    """The same as a Scrapy extension; makes a profile too, where one is asked for."""

    def __init__(self) -> None:
        self._profile = Profile()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        meter = cls()
        crawler.signals.connect(meter.engine_started, signals.engine_started)
        crawler.signals.connect(meter.spider_closed, signals.spider_closed)
        return meter

    def engine_started(self) -> None:
        self._watch = Stopwatch()
        if PROFILE_FILE in os.environ:
            self._profile.enable()

    def spider_closed(self) -> None:
        self._watch.stop()
        if PROFILE_FILE in os.environ:
            self._profile.disable()
            self._profile.dump_stats(os.environ[PROFILE_FILE])
