"""Measure a crawl from inside its process, from the start of the engine to its end.

What is before it is mostly imports, and the same for a crawl of any length. Nothing here runs once
a page: CPU time is read twice, the lag of the event loop 50 times a second, and the time of TLS
handshakes around each of their steps.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import ssl
from collections import Counter
from collections.abc import Callable
from cProfile import Profile
from pathlib import Path
from time import monotonic, thread_time
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

from scrapy import signals

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

# The environment variable with the file that the measurement goes to.
METER_FILE = "BENCH_METER_FILE"
# The same for a profile by cProfile, and for one by samples; without them none is made.
PROFILE_FILE = "BENCH_PROFILE_FILE"
SAMPLES_FILE = "BENCH_SAMPLES_FILE"
_SAMPLE_EVERY_S = 0.002
_LAG_EVERY_S = 0.02


def cpu_s() -> float:
    """CPU time of this process so far, by all of its threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Stopwatch:
    """Begins when it is made; `stop` writes what it found to the file."""

    def __init__(self, clock: Callable[[], float] = cpu_s) -> None:
        self._clock = clock
        self._started = clock()

    def stop(self, **more: float) -> None:
        """Write the CPU seconds since the start, and what else was measured."""
        found = {"cpu_s": self._clock() - self._started, **more}
        Path(os.environ[METER_FILE]).write_text(json.dumps(found), encoding="utf-8")


class Handshakes:
    """CPU time of this process' TLS handshakes.

    Counts the making of a TLS object, the steps of its handshake, and copying the session that the
    next one resumes. The tickets that a TLS 1.3 server sends afterwards are read with its first
    response, and belong to reading here.
    """

    def __init__(self) -> None:
        self.cpu_s = 0.0
        for kind, method in ((ssl.SSLContext, "wrap_bio"), (ssl.SSLObject, "do_handshake")):
            setattr(kind, method, self._timed(getattr(kind, method)))
        session: Any = ssl.SSLObject.session
        setattr(ssl.SSLObject, "session", session.getter(self._timed(session.fget)))  # noqa: B010

    def _timed(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            started = thread_time()
            try:
                return inner(*arguments, **options)
            finally:
                self.cpu_s += thread_time() - started

        return timed


class LoopLag:
    """How late the event loop comes back, sampled often enough for a percentile.

    On a busy machine other programs make it late too. What its own work can be blamed for is at
    most the CPU time that its thread used meanwhile.
    """

    def __init__(self) -> None:
        self._lags_s: list[float] = []
        self._own_s: list[float] = []
        self._loop = asyncio.get_running_loop()
        self._wait()

    def _wait(self) -> None:
        self._due_s, self._used_s = monotonic() + _LAG_EVERY_S, thread_time()
        self._timer = self._loop.call_later(_LAG_EVERY_S, self._measure)

    def _measure(self) -> None:
        lag_s = max(monotonic() - self._due_s, 0.0)
        self._lags_s.append(lag_s)
        self._own_s.append(min(lag_s, thread_time() - self._used_s))
        self._wait()

    def stop(self) -> dict[str, float]:
        """Return the 99th percentiles."""
        self._timer.cancel()
        return {
            "loop_lag_p99_ms": _p99(self._lags_s) * 1000,
            "loop_own_lag_p99_ms": _p99(self._own_s) * 1000,
        }


def _p99(values: list[float]) -> float:
    return sorted(values)[len(values) * 99 // 100] if values else 0.0


class Samples:
    """Where the main thread is each time that the process has used 2 ms of CPU time.

    Costs next to nothing and distorts nothing. Time in C belongs to the Python function that calls
    it, and that of other threads to wherever the main thread is.
    """

    def __init__(self) -> None:
        self._stacks: Counter[tuple[str, ...]] = Counter()

    def start(self) -> None:
        signal.signal(signal.SIGPROF, self._take)
        signal.setitimer(signal.ITIMER_PROF, _SAMPLE_EVERY_S, _SAMPLE_EVERY_S)

    def _take(self, _: int, frame: FrameType | None) -> None:
        stack = []
        while frame is not None:
            stack.append(f"{frame.f_code.co_filename}:{frame.f_code.co_qualname}")
            frame = frame.f_back
        self._stacks[tuple(stack)] += 1

    def stop(self, path: Path) -> None:
        """Write the stacks, innermost function first, and how often each was met."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        path.write_text(json.dumps([[*item] for item in self._stacks.items()]), encoding="utf-8")


class Meter:
    """The same as a Scrapy extension; makes profiles too, where they are asked for."""

    def __init__(self) -> None:
        self._profile = Profile()
        self._samples = Samples()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        meter = cls()
        crawler.signals.connect(meter.engine_started, signals.engine_started)
        crawler.signals.connect(meter.spider_closed, signals.spider_closed)
        return meter

    def engine_started(self) -> None:
        self._handshakes = Handshakes()
        self._lag = LoopLag()
        self._watch = Stopwatch()
        if SAMPLES_FILE in os.environ:
            self._samples.start()
        if PROFILE_FILE in os.environ:
            self._profile.enable()

    def spider_closed(self) -> None:
        self._watch.stop(handshake_s=self._handshakes.cpu_s, **self._lag.stop())
        if SAMPLES_FILE in os.environ:
            self._samples.stop(Path(os.environ[SAMPLES_FILE]))
        if PROFILE_FILE in os.environ:
            self._profile.disable()
            self._profile.dump_stats(os.environ[PROFILE_FILE])
