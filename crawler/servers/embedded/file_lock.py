"""Lock files between processes; the kernel drops a lock when its holder dies, however it dies."""

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


class LockFile:
    """Lock on an open file. A child process that inherits the file holds the lock too."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    @property
    def held(self) -> bool:
        return self._fd >= 0

    def fileno(self) -> int:
        return self._fd

    def try_shared(self) -> bool:
        """Take the lock together with others; return whether that worked."""
        return self._try(fcntl.LOCK_SH)

    def try_exclusive(self) -> bool:
        """Take the lock alone, also from a shared one; if that fails, the lock is gone."""
        return self._try(fcntl.LOCK_EX)

    def free(self) -> None:
        """Release the lock of this process; children that inherited it keep theirs."""
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
        """Return whether the locked file still has this name.

        Whoever removes the data folder removes the lock file, and a lock on that locks nothing.
        """
        try:
            return os.path.samestat(os.fstat(self._fd), self._path.stat())
        except FileNotFoundError:
            return False


@contextmanager
def exclusive(path: Path, *, timeout_s: float) -> Iterator[None]:
    """Hold a lock alone during the block; wait for it up to `timeout_s`."""
    lock = LockFile(path)
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
