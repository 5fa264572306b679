"""A redis-server of a test's own, to be killed and started again on the same data."""

import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

import redis

from crawler.servers.embedded.server import find_redis_server

_START_S = 10.0


class PrivateRedis:
    """A context manager; its data live in a temporary folder. Takes more arguments."""

    def __init__(self, *arguments: str, environment: dict[str, str] | None = None) -> None:
        self._arguments = arguments
        self._environment = environment
        # Short: a socket's path may have about 100 characters.
        self._folder = tempfile.TemporaryDirectory(prefix="redis-")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self._socket}?db=0"

    @property
    def socket_path(self) -> str:
        return str(self._socket)

    @property
    def _socket(self) -> Path:
        return Path(self._folder.name) / "redis.sock"

    @property
    def _log_of_writes(self) -> Path:
        """The append-only file; Redis 7 and later has several in a folder."""
        folder = Path(self._folder.name)
        parts = sorted(folder.glob("appendonlydir/*.incr.aof"))
        return parts[-1] if parts else folder / "appendonly.aof"

    @property
    def written_bytes(self) -> int:
        return self._log_of_writes.stat().st_size

    def start(self) -> None:
        program = find_redis_server()
        assert program is not None
        folder = Path(self._folder.name)
        with (folder / "redis.log").open("a") as log:
            self._process = subprocess.Popen(
                [
                    *(str(program), "--port", "0", "--unixsocket", str(self._socket)),
                    *("--dir", str(folder), "--save", "", "--appendonly", "yes"),
                    *("--appendfsync", "everysec", "--aof-load-truncated", "yes"),
                    *self._arguments,
                ],
                stdout=log,
                stderr=log,
                env=self._environment,
            )
        deadline = time.monotonic() + _START_S
        while True:
            try:
                with redis.Redis(unix_socket_path=str(self._socket)) as client:
                    client.ping()
                    return
            except redis.RedisError:
                assert time.monotonic() < deadline, (folder / "redis.log").read_text()
                time.sleep(0.02)

    def kill(self) -> None:
        """End it as a crash does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def lose_writes_after(self, size_bytes: int) -> None:
        """Forget what was written last, as a machine that lost its power does."""
        with self._log_of_writes.open("rb+") as log:
            log.truncate(size_bytes)

    def __enter__(self) -> "PrivateRedis":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self._folder.cleanup()
