"""The time of a simulated fleet, for the crawler's code and for its Redis.

Redis reads the wall clock by functions of the C library. A small library that is loaded before it
answers with a number in a file, which the simulation writes: so the scripts are the ones of real
crawls, and keys expire in simulated time. The clocks and random numbers of Python are replaced
while a schedule runs.
"""

from __future__ import annotations

import mmap
import os
import random
import shutil
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import BuiltinFunctionType, FunctionType
from typing import Any

# When each schedule begins, in unix seconds, and by the monotonic clock.
WALL_S = 1_800_000_000.0
MONOTONIC_S = 10_000.0

_LIBRARY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

/* The wall clock and the monotonic one in microseconds, in a file of sixteen bytes. */
static volatile long *wall;

__attribute__((constructor)) static void load(void) {
  int file = open(getenv("SIMULATED_CLOCK"), O_RDONLY);
  wall = mmap(0, 2 * sizeof *wall, PROT_READ, MAP_SHARED, file, 0);
}

int clock_gettime(clockid_t id, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (id == CLOCK_REALTIME) {
    now->tv_sec = *wall / 1000000;
    now->tv_nsec = *wall % 1000000 * 1000;
    return 0;
  }
  if (id == CLOCK_MONOTONIC) {
    now->tv_sec = wall[1] / 1000000;
    now->tv_nsec = wall[1] % 1000000 * 1000;
    return 0;
  }
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  return real(id, now);
}

int gettimeofday(struct timeval *now, void *zone) {
  now->tv_sec = *wall / 1000000;
  now->tv_usec = *wall % 1000000;
  return 0;
}

time_t time(time_t *out) {
  time_t now = *wall / 1000000;
  if (out) *out = now;
  return now;
}
"""


class NoCompiler(RuntimeError):
    """There is no C compiler, which the clock of Redis needs."""


class ServerClock:
    """Wall clock of a server that is started with this `environment`."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("gcc") or shutil.which("cc")
        if compiler is None:
            raise NoCompiler("The simulation needs a C compiler; install gcc.")
        source, library, file = folder / "clock.c", folder / "clock.so", folder / "clock"
        source.write_text(_LIBRARY)
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True
        )
        self._monotonic_us = 1_000_000
        self._wall_us = round(WALL_S * 1e6)
        file.write_bytes(struct.pack("=qq", self._wall_us, self._monotonic_us))
        with file.open("r+b") as opened:
            self._now = mmap.mmap(opened.fileno(), 16)
        self.environment = {
            **os.environ,
            "LD_PRELOAD": str(library),
            "SIMULATED_CLOCK": str(file),
        }

    def set(self, wall_s: float) -> None:
        """Let it be this time."""
        wall_us = round(wall_s * 1e6)
        # Back is only the way to the beginning of the next schedule.
        self._monotonic_us += max(0, wall_us - self._wall_us)
        self._wall_us = wall_us
        self._now[:] = struct.pack("=qq", wall_us, self._monotonic_us)


class CrawlerClock:
    """Clock and random numbers of the crawler's code, for one schedule after the other."""

    def __init__(self) -> None:
        self._now_s: Callable[[], float] = lambda: MONOTONIC_S
        self._chance = random.Random()

    def begin(self, now_s: Callable[[], float], seed: str) -> None:
        """Use this monotonic clock, which begins at MONOTONIC_S, and numbers from this seed."""
        self._now_s = now_s
        self._chance = random.Random(seed)
        random.seed(seed)

    def wall_s(self) -> float:
        """Return the time, as time.time() does."""
        return WALL_S - MONOTONIC_S + self._now_s()

    @contextmanager
    def replacing(self) -> Iterator[None]:
        """Let the crawler's modules use this instead of `time` and `uuid`."""

        # Functions, as the ones that they replace: they are looked for by their type.
        def wall_s() -> float:
            return self.wall_s()

        def monotonic_s() -> float:
            return self._now_s()

        def uuid4() -> uuid.UUID:
            return uuid.UUID(int=self._chance.getrandbits(128), version=4)

        replaced: dict[Any, Any] = {
            time.time: wall_s,
            time.monotonic: monotonic_s,
            uuid.uuid4: uuid4,
        }
        _replace(replaced)
        try:
            yield
        finally:
            _replace({new: old for old, new in replaced.items()})


def _replace(new: Mapping[Any, Any]) -> None:
    """Replace functions where they are defined, and wherever modules of the crawler name them."""
    ours = [module for name, module in sys.modules.items() if name.startswith("crawler.")]
    for module in (time, uuid, *ours):
        for name, found in list(vars(module).items()):
            if isinstance(found, (BuiltinFunctionType, FunctionType)) and found in new:
                setattr(module, name, new[found])
