"""Measure how late a crawl's event loop is, from inside its process: a Scrapy extension.

Every few milliseconds, which is far more often than the crawl's own figure, and with times, so that
the benchmark can choose a part of the crawl.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Self, TextIO

from scrapy import signals

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

# The environment variable with the file that the measurement goes to.
LAG_FILE = "BENCH_LAG_FILE"
# The same with any value: robots.txt is not read, see metered_settings.py.
NO_ROBOTS = "BENCH_NO_ROBOTS"
_STEP_S = 0.005


class LagMeter:
    """Samples from the opening of the spider on, a line each: when it was due, and the lag."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        meter = cls()
        crawler.signals.connect(meter.spider_opened, signals.spider_opened)
        crawler.signals.connect(meter.spider_closed, signals.spider_closed)
        return meter

    def spider_opened(self) -> None:
        # Lines are written as they come, since a crawl may be killed.
        file = Path(os.environ[LAG_FILE]).open("w", encoding="ascii")  # noqa: SIM115 - kept open
        self._task = asyncio.get_running_loop().create_task(self._measure_forever(file))

    def spider_closed(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _measure_forever(self, file: TextIO) -> None:
        with file:
            while True:
                due_s = monotonic() + _STEP_S
                await asyncio.sleep(_STEP_S)
                file.write(f"{due_s} {max(0.0, monotonic() - due_s)}\n")


def lags_ms(file: Path, since_s: float, until_s: float) -> list[float]:
    """Return the lags between two moments of the shared clock, the smallest first."""
    whole = file.read_text(encoding="ascii").rpartition("\n")[0]
    samples = (map(float, line.split()) for line in whole.splitlines())
    return sorted(lag_s * 1000 for due_s, lag_s in samples if since_s <= due_s < until_s)


def percentile(ordered: list[float], share: float) -> float:
    """Return the value that so large a share of the ordered values does not exceed."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
