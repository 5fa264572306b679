"""Share the servers of one data folder between crawls; the last user stops them.

Files in the folder, besides each server's data, log and lock:

    users.lock   held by every crawl as a shared lock, so that none can hold it exclusively
    start.lock   held during one start or stop, so that there is only one at a time
    sockets      link to a short temporary folder, only if the sockets' paths would be too long

The Watchdog restarts a server that ends while a crawl uses it.
"""

import asyncio
import logging
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crawler.errors import ConfigurationError, CrawlerError
from crawler.servers.embedded.server import (
    EmbeddedServer,
    LockFile,
    MongoServer,
    RedisServer,
    exclusive,
)
from crawler.util.tasks import end, in_daemon_thread

logger = logging.getLogger(__name__)


_START_LOCK_TIMEOUT_S = 180.0  # longer than a server may take to start or stop
_SOCKET_PATH_MAX_BYTES = 100  # the system's limit is 104 or 108


class EmbeddedServers:
    """Embedded servers of one data folder. Methods block: call them from a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = Path(folder).resolve()
        self._users = LockFile(self._folder / "users.lock")
        self._threads = threading.Lock()
        self._used: set[type[EmbeddedServer]] = set()

    def redis_url(self) -> str:
        """Start redis-server unless it runs, and return its URL."""
        return self._use(RedisServer)

    def mongo_uri(self) -> str:
        """Start mongod unless it runs, and return its URI."""
        return self._use(MongoServer)

    def revive(self) -> list[str]:
        """Restart servers that are in use here and have ended; return their programs."""
        revived = []
        with self._threads:
            # Not in a folder that somebody deleted during the crawl: the data is gone.
            if self._users.held and self._users.is_current():
                with self._alone():
                    for server_type in self._used:
                        server = server_type(self._folder, self._socket_folder())
                        if not server.alive():
                            server.ensure_running()
                            revived.append(server.program)
        return revived

    def release(self) -> None:
        """Stop using the servers; the last user stops them. Errors are logged, never raised."""
        with self._threads:
            if not self._users.held:
                return
            try:
                with self._alone():
                    if self._users.try_exclusive():
                        self._stop_servers()
            except CrawlerError as error:
                logger.warning("%s", error)
            finally:
                self._users.free()
                self._used.clear()

    def remove(self) -> None:
        """Delete the folder unless a crawl uses it, and stop servers that a killed crawl left."""
        with self._threads:
            if not self._folder.exists():
                return
            if not (self._folder / "start.lock").exists():
                raise ConfigurationError(
                    f"{self._folder} holds no crawl data, so it is not removed; check CRAWL_DIR."
                )
            with self._alone():
                if not self._users.try_exclusive():
                    raise ConfigurationError(
                        f"A crawl is using {self._folder}; stop it, then remove the data."
                    )
                try:
                    self._stop_servers()
                    if (link := self._folder / "sockets").is_symlink():
                        shutil.rmtree(link.readlink(), ignore_errors=True)
                    shutil.rmtree(self._folder)
                finally:
                    self._users.free()

    def _use(self, server_type: type[EmbeddedServer]) -> str:
        with self._threads, self._alone():
            is_new_user = not self._users.held
            if is_new_user and not self._users.try_shared():
                raise ConfigurationError(
                    f"{self._folder / 'users.lock'} is locked by another program; end it, or set"
                    " CRAWL_DIR to another folder."
                )
            try:
                server = server_type(self._folder, self._socket_folder())
                server.ensure_running()
            except BaseException:
                if is_new_user:
                    self._users.free()
                raise
            self._used.add(server_type)
            return server.url

    def _stop_servers(self) -> None:
        for server_type in (MongoServer, RedisServer):
            try:
                server_type(self._folder, self._socket_folder()).stop()
            except CrawlerError as error:
                logger.warning("%s", error)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with exclusive(self._folder / "start.lock", timeout_s=_START_LOCK_TIMEOUT_S):
                yield
        except OSError as error:
            raise ConfigurationError(
                f"The embedded servers cannot keep their data in {self._folder}"
                f" ({error.strerror or error}). Set CRAWL_DIR to a folder on a local disk that you"
                " can write to, or set REDIS_URL and MONGO_URI to your own servers."
            ) from error

    def _socket_folder(self) -> Path:
        if _fits(self._folder):
            return self._folder
        link = self._folder / "sockets"
        if link.is_symlink():
            folder = link.readlink()
            if _is_private(folder):
                return folder
            link.unlink()
        for parent in (tempfile.gettempdir(), "/tmp"):  # noqa: S108 -- mkdtemp makes it private
            if _fits(Path(parent, "crawl-12345678")):
                folder = Path(tempfile.mkdtemp(prefix="crawl-", dir=parent))
                link.symlink_to(folder)
                return folder
        raise ConfigurationError(
            f"{self._folder} is too long for the servers' sockets; set CRAWL_DIR to a shorter path."
        )


def _fits(socket_folder: Path) -> bool:
    return len(os.fsencode(socket_folder / "redis.sock")) < _SOCKET_PATH_MAX_BYTES


def _is_private(folder: Path) -> bool:
    """Check that a folder belongs to this user alone: a reboot may free names in /tmp."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.geteuid()
        and stat.S_IMODE(status.st_mode) == stat.S_IRWXU
    )


_CHECK_S = 5.0
# After a start that failed, since its message is long.
_FAILED_S = 60.0


class Watchdog:
    """Task that restarts embedded servers in use, from its first start() until it is stopped."""

    def __init__(self, servers: EmbeddedServers, *, check_s: float = _CHECK_S) -> None:
        self._servers = servers
        self._check_s = check_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; does nothing if it has begun."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._keep())

    async def stop(self) -> None:
        """Restart nothing from now on."""
        task, self._task = self._task, None
        if task is not None:
            await end(task)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._check_s)
            try:
                for program in await in_daemon_thread(self._servers.revive):
                    logger.warning("The embedded %s had ended; it runs again", program)
            except CrawlerError as error:
                logger.error("%s", error)
                await asyncio.sleep(_FAILED_S)
