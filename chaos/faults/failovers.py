"""Failover of a Sentinel set, and of a master of a cluster, in a storm that has one as its Redis.

Each replaces the storm's Redis, so both are done only if they are asked for, and not together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import redis

from chaos.faults import Cost, Fault
from crawler.errors import ExitCode
from tests.support.cluster import (
    RedisProcess,
    SentinelProcess,
    add_replica,
    cluster_node,
    form_cluster,
)
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from chaos.storm import Storm

_OWN: Final = "failovers"
_AWAY: Final = frozenset({int(ExitCode.SERVER_AWAY)})
# The settings of docs/operations.md, but for times: a master that is silent for so long is dead.
_SILENT_MS: Final = 1000
_AFTER_S: Final = (0.0, 3.0)
_DEADLINE_S: Final = 30.0
# A replica may lack what its master acknowledged in its last second.
_LACKS_S: Final = 2.0


class _Pair:
    """A master and its replica, which change roles. `rest` are other servers of the set."""

    def __init__(self, pair: tuple[RedisProcess, RedisProcess], *rest: RedisProcess) -> None:
        self._pair = pair
        self._all = (*pair, *rest)
        self.port = 0

    @property
    def client(self) -> redis.Redis:
        """A blocking client of the master."""
        return self.roles()[0].client

    def roles(self) -> tuple[RedisProcess, RedisProcess]:
        """Return the master and the replica, once there are both."""
        found: list[RedisProcess] = wait_until(
            self._roles, "a master and a replica in step", deadline_s=_DEADLINE_S
        )
        return found[0], found[1]

    def _roles(self) -> list[RedisProcess]:
        with suppress(redis.RedisError):
            for one, other in (self._pair, self._pair[::-1]):
                with one.client as master, other.client as replica:
                    replication = replica.info("replication")
                    is_up = replication.get("master_link_status") == "up"
                    follows = is_up and replication.get("master_port") == one.port
                    if follows and master.role()[0] in (b"master", "master"):
                        return [one, other]
        return []

    def end(self) -> None:
        for server in self._all:
            server.kill()

    def _is_master(self, server: RedisProcess) -> bool:
        with suppress(redis.RedisError), server.client as client:
            return bool(client.role()[0] in (b"master", "master"))
        return False

    def fail_over(self, storm: Storm, chance: Random) -> str:
        """Let the master die, hang or be asked to leave; the replica takes over."""
        master, replica = self.roles()
        how = chance.choice(("dies", "hangs", "is asked"))
        with self._without(master, how) if how != "is asked" else self._asked(replica):
            wait_until(
                lambda: self._is_master(replica), "the replica takes over", deadline_s=_DEADLINE_S
            )
            storm.rest(chance.uniform(*_AFTER_S))
        self.roles()
        return f"redis: its master {how}"

    @contextmanager
    def _without(self, master: RedisProcess, how: str) -> Iterator[None]:
        begin, mend = (master.kill, master.start) if how == "dies" else (master.freeze, master.thaw)
        begin()
        try:
            yield
        finally:
            mend()

    @contextmanager
    def _asked(self, replica: RedisProcess) -> Iterator[None]:
        self._ask(replica)
        yield

    def _ask(self, replica: RedisProcess) -> None:
        raise NotImplementedError


class SentinelSet(_Pair):
    """A master, a replica, and a Sentinel that watches both."""

    def __init__(self, folder: Path, started: Callable[[str], None]) -> None:
        options = ("--appendfsync", "everysec", "--repl-diskless-sync-delay", "0")
        pair = RedisProcess(folder / "a", *options), RedisProcess(folder / "b", *options)
        self._sentinel = SentinelProcess(folder / "sentinel", pair[0])
        self._started = started
        super().__init__(pair, self._sentinel)

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{self._sentinel.port}/crawl/0"

    def start(self) -> None:
        master, replica = self._pair
        master.start()
        replica.start()
        with replica.client as client:
            client.replicaof("127.0.0.1", master.port)
        self.roles()
        self._sentinel.start()
        with self._sentinel.client as client:
            wait_until(
                lambda: client.sentinel_master("crawl")["num-slaves"] == 1, "it knows the replica"
            )
        self.port = self._sentinel.port
        self._started(self.url)

    def _ask(self, replica: RedisProcess) -> None:
        def is_taken() -> bool:
            # It takes none shortly after another failover.
            with suppress(redis.RedisError), self._sentinel.client as client:
                client.execute_command("SENTINEL", "FAILOVER", "crawl")
                return True
            return False

        wait_until(is_taken, "the Sentinel takes the order", deadline_s=_DEADLINE_S)


class ClusterSet(_Pair):
    """A cluster of three masters, and a replica of the first."""

    def __init__(self, folder: Path, started: Callable[[str], None]) -> None:
        self._started = started
        first, replica, *others = (
            cluster_node(folder / name, timeout_ms=_SILENT_MS, whole=False) for name in "abcd"
        )
        self._masters = [first, *others]
        super().__init__((first, replica), *others)

    @property
    def url(self) -> str:
        return self._masters[1].url

    def start(self) -> None:
        form_cluster(self._masters)
        add_replica(self._pair[1], self._pair[0], self._masters)
        self.roles()
        self.port = self._masters[1].port
        self._started(self.url)

    def _ask(self, replica: RedisProcess) -> None:
        with replica.client as client:
            client.execute_command("CLUSTER", "FAILOVER")


def _prepare(kind: type[SentinelSet | ClusterSet], storm: Storm) -> None:
    if _OWN in storm.own:
        raise ValueError("A storm has one Redis: ask for failovers of Sentinel or of a cluster.")

    def started(url: str) -> None:
        # Not through the proxy: Sentinels and clusters tell addresses of their own.
        storm.own["redis_url"] = url

    storm.own[_OWN] = storm.redis = kind(storm.folder / "redis", started)


def _fail_over(storm: Storm, chance: Random) -> str:
    return str(storm.redis.fail_over(storm, chance))


def _kind(name: str, what: type[SentinelSet | ClusterSet]) -> Fault:
    cost, prepare = Cost(repeats=True, lost_s=_LACKS_S, exits=_AWAY), partial(_prepare, what)
    return Fault(name, "redis", _fail_over, cost, weight=0, is_of="redis", prepare=prepare)


FAULTS = (
    _kind("sentinel fails over", SentinelSet),
    _kind("cluster fails over", ClusterSet),
)
