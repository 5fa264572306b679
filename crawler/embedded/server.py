"""One detached server process: is it alive, does it answer, start it, stop it.

The server inherits a locked file, so it is alive exactly while that lock is held: no pid file can
lie about it, and no second server can open the same data. It is stopped by a command through its
own socket; the only process that is ever signalled is a child of ours that failed to start.
"""

import logging
import os
import shlex
import signal
import socket
import time
from abc import ABC, abstractmethod
from pathlib import Path

from crawler.embedded.file_lock import FileLock
from crawler.errors import ConfigurationError, CrawlerError, ServerAway

logger = logging.getLogger(__name__)

_POLL_S = 0.02
_LOG_LINES_SHOWN = 12
_LOG_LINE_CHARS = 300
_LOG_MAX_BYTES = 16 * 1024 * 1024

# Children of this process that were not waited for yet, so their pids cannot be someone else's.
_children: set[int] = set()


class Server(ABC):
    """A server with its data, log and lock in `folder` and its socket in `socket_folder`."""

    name: str
    program: str
    setting: str  # the one that names the user's own server
    silence_timeout_s = 60.0  # to start or stop, counted from the last sign of progress

    def __init__(self, folder: Path, socket_folder: Path) -> None:
        self.data = folder / self.name
        self.log_file = folder / f"{self.name}.log"
        self.socket = socket_folder / f"{self.name}.sock"
        self._alive_lock = folder / f"{self.name}.lock"

    @property
    @abstractmethod
    def url(self) -> str: ...

    @abstractmethod
    def find(self) -> Path: ...

    @abstractmethod
    def arguments(self) -> list[str]: ...

    def environment(self) -> dict[str, str]:
        """The variables that the server starts with."""
        return dict(os.environ)

    @abstractmethod
    def answers(self) -> bool:
        """Ping. Raises StillLoading if the server says that it is busy with its start."""

    @abstractmethod
    def shut_down(self) -> None:
        """Send the command that ends the server; it may return before the process is gone."""

    def ensure_running(self) -> None:
        # One that is alive now may still be about to end, after a crash or a signal.
        if self.alive() and self._answers_before_it_ends():
            return
        pid = self._start()
        try:
            if not self._answers_before_it_ends():
                raise self._failure("ended during its start")
        except CrawlerError:
            if pid in _children:
                os.kill(pid, signal.SIGTERM)
            raise

    def alive(self) -> bool:
        _reap()
        probe = FileLock(self._alive_lock)
        if not probe.try_exclusive():
            return True
        probe.free()
        return False

    def stop(self) -> None:
        if not self.alive():
            return
        if self._accepts():  # else it is ending already
            self.shut_down()
        progress = _Progress(self.log_file, self.silence_timeout_s)
        while self.alive():
            if progress.stalled():
                raise self._failure("does not stop")
            time.sleep(_POLL_S)
        _reap()
        logger.debug("Stopped %s", self.program)

    def _start(self) -> int:
        command = [str(self.find()), *self.arguments()]
        self.data.mkdir(mode=0o700, exist_ok=True)
        if self.log_file.exists() and self.log_file.stat().st_size > _LOG_MAX_BYTES:
            self.log_file.replace(self.log_file.with_suffix(".log.1"))
        lock = FileLock(self._alive_lock)
        if not lock.try_exclusive():
            raise self._failure("runs already")
        try:
            pid = _spawn(command, self.environment(), self.log_file, lock.fileno())
            # For people only (see the failure text); the program never trusts it.
            os.truncate(lock.fileno(), 0)
            os.pwrite(lock.fileno(), f"{pid}\n".encode(), 0)
        except OSError as error:
            if error.filename != command[0]:
                raise
            raise ConfigurationError(self._told(f"cannot be run ({error})")) from error
        finally:
            lock.free()
        logger.debug("Started %s", shlex.join(command))
        return pid

    def _answers_before_it_ends(self) -> bool:
        progress = _Progress(self.log_file, self.silence_timeout_s)
        while True:
            try:
                if self._accepts() and self.answers():
                    return True
            except StillLoading:
                progress.made()
            if not self.alive():
                return False
            if progress.stalled():
                raise self._failure("runs but does not answer; end that process and start again")
            time.sleep(_POLL_S)

    def _accepts(self) -> bool:
        # Cheaper than a client's failure: clients sleep between their attempts.
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1)
            try:
                probe.connect(str(self.socket))
            except OSError:
                return False
        return True

    def _failure(self, what: str) -> ServerAway:
        return ServerAway(self._told(what))

    def _told(self, what: str) -> str:
        pid = self._alive_lock.read_text().strip() if self._alive_lock.exists() else ""
        return (
            f"The embedded {self.program}{pid and f' (process {pid})'} {what}. The end of its log"
            f" should say why; if it cannot be helped, set {self.setting} to your own server or"
            f" CRAWL_DIR to another folder.\n{self.log_file}:\n{_last_lines(self.log_file)}"
        )


class StillLoading(Exception):
    """The server answers, and says that it is still reading its data."""


class _Progress:
    """Has the server shown a sign of life lately? A long recovery writes to the log meanwhile."""

    def __init__(self, log_file: Path, timeout_s: float) -> None:
        self._log_file = log_file
        self._timeout_s = timeout_s
        self._log_bytes = -1
        self.made()

    def made(self) -> None:
        self._deadline = time.monotonic() + self._timeout_s

    def stalled(self) -> bool:
        log_bytes = self._log_file.stat().st_size if self._log_file.exists() else 0
        if log_bytes != self._log_bytes:
            self._log_bytes = log_bytes
            self.made()
        return time.monotonic() > self._deadline


def _spawn(command: list[str], environment: dict[str, str], log_file: Path, lock_fd: int) -> int:
    inherited_fd = 3 if lock_fd != 3 else 4
    pid = os.posix_spawn(
        command[0],
        command,
        environment,
        # Its own session: the terminal's Ctrl-C ends the crawl, which then stops the server.
        setsid=True,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, lock_fd, inherited_fd),
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
    )
    _children.add(pid)
    return pid


def _reap() -> None:
    """Take note of children that ended, so that they do not stay as zombies."""
    for pid in tuple(_children):
        try:
            ended, _ = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:  # forked since, or waited for by someone else
            ended = pid
        if ended:
            _children.discard(pid)


def _last_lines(log_file: Path) -> str:
    try:
        with log_file.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 64 * 1024))
            lines = log.read().decode(errors="replace").splitlines()
    except OSError as error:
        return f"  (no log: {error.strerror})"
    return "\n".join(f"  {line[:_LOG_LINE_CHARS]}" for line in lines[-_LOG_LINES_SHOWN:])
