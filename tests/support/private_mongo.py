"""A mongod of a test's own, to be killed and started again on the same data."""

import os
import signal
import tempfile
import time
from pathlib import Path
from types import TracebackType

from crawler.servers.embedded.server import MongoServer


class _Server(MongoServer):
    more: tuple[str, ...] = ()
    port = 0

    def arguments(self, program: Path) -> list[str]:
        arguments = [*super().arguments(program), *self.more]
        if self.port:
            arguments[arguments.index("--bind_ip") + 1] += ",127.0.0.1"
            arguments += ["--port", str(self.port)]
        return arguments


class PrivateMongo:
    """A context manager; its data live in a temporary folder. Takes more arguments of mongod.

    With a port it listens on loopback too, as members of a replica set have to.
    """

    def __init__(self, *arguments: str, port: int = 0) -> None:
        # Short: a socket's path may have about 100 characters.
        self._folder = tempfile.TemporaryDirectory(prefix="mongo-")
        folder = Path(self._folder.name)
        self._server = _Server(folder, folder)
        self._server.more = arguments
        self._server.port = port
        self._lock = folder / "mongo.lock"

    @property
    def uri(self) -> str:
        return self._server.url

    def start(self) -> None:
        self._server.ensure_running()

    def kill(self) -> None:
        """End it as a crash does."""
        if self._server.alive():
            os.kill(int(self._lock.read_text()), signal.SIGKILL)
        while self._server.alive():
            time.sleep(0.02)

    def freeze(self) -> None:
        """Let it answer nothing, and keep its connections."""
        os.kill(int(self._lock.read_text()), signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen one go on."""
        os.kill(int(self._lock.read_text()), signal.SIGCONT)

    def __enter__(self) -> "PrivateMongo":
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
