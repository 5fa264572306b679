"""Locks between processes that the kernel drops when their holder dies, however it dies."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crawler.errors import ConfigurationError, ServerAway

try:
    import fcntl
except ImportError as error:  # Windows
    raise ConfigurationError(
        "Embedded servers need Linux or macOS; set REDIS_URL and MONGO_URI to your own servers."
    ) from error

_POLL_S = 0.02


class FileLock:
    """One open lock file. The lock goes with the file: a child that inherits it holds it too."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    @property
    def held(self) -> bool:
        return self._fd >= 0

    def fileno(self) -> int:
        return self._fd

    def try_shared(self) -> bool:
        return self._try(fcntl.LOCK_SH)

    def try_exclusive(self) -> bool:
        """Also turns a shared lock into an exclusive one; if that fails the lock is gone."""
        return self._try(fcntl.LOCK_EX)

    def free(self) -> None:
        """Let go of this process's hold; children that inherited the lock keep theirs."""
        if self.held:
            os.close(self._fd)
            self._fd = -1

    def _try(self, kind: int) -> bool:
        while True:
            if not self.held:
                self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(self._fd, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                self.free()
                return False
            except OSError:
                self.free()
                raise
            if self.is_current():
                return True
            self.free()

    def is_current(self) -> bool:
        """Is the locked file still the one of this name?"""
        # Whoever removes the data folder removes the lock file with it: a lock on that is no lock.
        try:
            return os.path.samestat(os.fstat(self._fd), self._path.stat())
        except FileNotFoundError:
            return False


@contextmanager
def exclusive(path: Path, *, timeout_s: float) -> Iterator[None]:
    lock = FileLock(path)
    deadline = time.monotonic() + timeout_s
    while not lock.try_exclusive():
        if time.monotonic() > deadline:
            raise ServerAway(
                f"Another process has held {path} for {timeout_s:.0f} s: it is starting or"
                " stopping the servers of this folder. End it, or set CRAWL_DIR to another folder."
            )
        time.sleep(_POLL_S)
    try:
        yield
    finally:
        lock.free()
