"""Run schedules, one after the other, and shrink one that fails."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from simulation.clock import CrawlerClock
from simulation.history import Line
from simulation.scenario import Scenario
from simulation.server import RealRedis
from simulation.world import World

# Scenarios that are tried to shrink one.
_SHRINK_MAX = 300
# Schedules between two collections of garbage, which would take a tenth of the time.
_COLLECT_EVERY = 50


@dataclass(slots=True)
class Failure:
    """Schedule that failed: what was wrong, and how it came to that."""

    scenario: Scenario
    wrong: str
    history: list[Line]

    @property
    def kind(self) -> str:
        """What was wrong, without names and numbers."""
        return " ".join(word for word in self.wrong.split() if word.isalpha())


class Runner:
    """Runner of schedules on one Redis."""

    def __init__(self, real: RealRedis, clock: CrawlerClock) -> None:
        self._real = real
        self._clock = clock
        self.schedules = 0
        # Of the simulated fleets.
        self.seconds = 0.0

    @classmethod
    @contextmanager
    def ready(cls) -> Iterator[Self]:
        """Start a Redis, and replace clocks and random numbers during the block."""
        clock = CrawlerClock()
        # The log belongs to the history, and lines without readers cost time.
        log = logging.getLogger("crawler")
        level, propagate = log.level, log.propagate
        with RealRedis() as real:
            log.setLevel(logging.WARNING)
            log.propagate = False
            gc.freeze()
            gc.disable()
            try:
                with clock.replacing():
                    yield cls(real, clock)
            finally:
                gc.enable()
                gc.unfreeze()
                log.setLevel(level)
                log.propagate = propagate

    def world(self, scenario: Scenario) -> World:
        """Make the world of a schedule, to be run once."""
        return World(scenario, self._real, self._clock)

    def run(self, scenario: Scenario) -> Failure | None:
        """Run one schedule; return how it failed, or None."""
        world = self.world(scenario)
        wrong = world.run()
        self.schedules += 1
        self.seconds += world.seconds
        if self.schedules % _COLLECT_EVERY == 0:
            gc.collect()
        return None if wrong is None else Failure(scenario, wrong, world.history)

    def shrink(self, failure: Failure, *, within_s: float) -> Failure:
        """Return the smallest schedule found in this time that fails in the same way."""
        tried, until_s = 0, _REAL_MONOTONIC() + within_s
        goes_on = True
        while goes_on:
            goes_on = False
            for smaller in failure.scenario.smaller():
                if tried >= _SHRINK_MAX or _REAL_MONOTONIC() > until_s:
                    return failure
                tried += 1
                found = self._fails_likewise(smaller, failure)
                if found is not None:
                    failure, goes_on = found, True
                    break
        return failure

    def _fails_likewise(self, scenario: Scenario, failure: Failure) -> Failure | None:
        found = self.run(scenario)
        return found if found is not None and found.kind == failure.kind else None


# The clock of `time` is replaced while schedules run.
_REAL_MONOTONIC: Callable[[], float] = time.monotonic
