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
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Seconds that the wall clock is off, in a file of eight bytes: one for each process. */
static volatile long *offset;

__attribute__((constructor)) static void load(void) {
  char path[4096];
  const char *folder = getenv("CLOCK_OFFSETS");
  if (!folder) return;
  snprintf(path, sizeof path, "%s/%d", folder, (int)getpid());
  int file = open(path, O_RDWR | O_CREAT, 0644);
  if (file < 0 || ftruncate(file, sizeof *offset)) return;
  offset = mmap(0, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
  if (offset == MAP_FAILED) offset = 0;
  close(file);
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
    """The wall clocks of processes with this environment, which a test sets."""

    def __init__(self, folder: Path) -> None:
        compiler = _compiler()
        if compiler is None:
            pytest.skip(missing())
        source, library = folder / "clock.c", folder / "clock.so"
        source.write_text(_SOURCE)
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True
        )
        self._offsets = folder / "clock.offsets"
        self._offsets.mkdir()
        self.variables = {"LD_PRELOAD": str(library), "CLOCK_OFFSETS": str(self._offsets)}
        self.environment = {**os.environ, **self.variables}

    def leap_to(self, seconds: int, pid: int | None = None) -> None:
        """Let a clock be so many seconds ahead of the machine's, or behind it.

        That of one process, or those of all that run now.
        """
        files = [self._offsets / str(pid)] if pid else [*self._offsets.iterdir()]
        for path in files:
            # In place: the process has mapped the file.
            with path.open("r+b") as file:
                file.write(struct.pack("=q", seconds))


def _compiler() -> str | None:
    return shutil.which("gcc") or shutil.which("cc")


def missing() -> str:
    """Return why there can be no such clock here; empty if there can."""
    return "" if _compiler() else "there is no C compiler"
