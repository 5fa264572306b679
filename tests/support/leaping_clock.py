"""A wall clock that leaps: a library that is loaded into a server before all others."""

import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

/* Seconds that the wall clock is off, in a file of eight bytes. */
static volatile long *offset;

__attribute__((constructor)) static void load(void) {
  int file = open(getenv("CLOCK_OFFSET"), O_RDONLY);
  offset = mmap(0, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
}

int clock_gettime(clockid_t id, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int answer = real(id, now);
  if (id == CLOCK_REALTIME && offset) now->tv_sec += *offset;
  return answer;
}

int gettimeofday(struct timeval *now, void *zone) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *out) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (out) *out = exact.tv_sec;
  return exact.tv_sec;
}
"""


class LeapingClock:
    """The wall clock of processes with this environment, which a test sets."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("gcc") or shutil.which("cc")
        if compiler is None:
            pytest.skip("there is no C compiler")
        source, library = folder / "clock.c", folder / "clock.so"
        source.write_text(_SOURCE)
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True
        )
        self._offset = folder / "clock.offset"
        self.leap_to(0)
        self.environment = {
            **os.environ,
            "LD_PRELOAD": str(library),
            "CLOCK_OFFSET": str(self._offset),
        }

    def leap_to(self, seconds: int) -> None:
        """Let the clock be so many seconds ahead of the machine's, or behind it."""
        # In place: the server has mapped the file.
        with self._offset.open("r+b" if self._offset.exists() else "wb") as file:
            file.write(struct.pack("=q", seconds))
