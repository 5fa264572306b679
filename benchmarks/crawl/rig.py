"""The test rig: servers on some cores, and crawlers that are let loose on them on another."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cores import Cores, pinned, running_on
from benchmarks.crawl.contenders import Contender
from benchmarks.crawl.grounds import Ground
from benchmarks.crawl.meter import METER_FILE
from benchmarks.crawl.pages import Size, url_of
from benchmarks.servers import PrivateMongo, PrivateRedis, private_mongo, private_redis
from crawler.errors import CrawlerError

ROOT = Path(__file__).parent.parent.parent
_TIMEOUT_S = 900.0
_LOG_SHOWN = 2000
# Crawlers stop when they have all seeds and some pages more; what is in flight then comes on top.
_STOP = 1.15
_IN_FLIGHT = 250
# Share of the seeds that may be missing: those whose hosts were busy or slow when the others were
# done.
_MISSING = 0.1
# Shares of the pages that it was told to fetch, and of those it fetched that must be stored.
_FETCHED, _STORED = 0.97, 0.97
_TRACEBACK = "Traceback (most recent call last)"


class Disturbed(CrawlerError):
    """Error of a crawl that did not work as it was meant to; a busy machine may be the cause."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one crawl took. CPU time is the crawler's own, unless a server is named."""

    cpu_ms: float
    pages: int = 0
    redis_ms: float = 0.0
    mongo_ms: float = 0.0
    # Of the web: with the other servers' time less than the crawler's, or it waits for them.
    web_ms: float = 0.0
    pages_per_s: float = 0.0
    mb_per_s: float = 0.0
    peak_mb: float = 0.0
    connections_per_page: float = 0.0
    # Of all connections.
    resumed_share: float = 0.0
    # Of the CPU time, where the crawler measures it.
    handshake_share: float | None = None
    loop_lag_p99_ms: float | None = None
    # Without what other programs on the machine add.
    loop_own_lag_p99_ms: float | None = None


class Rig:
    """Servers that run, and crawlers that are let loose on them one after the other."""

    def __init__(
        self,
        ground: Ground,
        size: Size,
        ports: tuple[int, int],
        *,
        redis: PrivateRedis,
        mongo: PrivateMongo,
        cores: str | None,
    ) -> None:
        self._ground = ground
        self._size = size
        self._port, self._account_port = ports
        self._redis = redis
        self._mongo = mongo
        # Of the crawlers.
        self._cores = cores
        self._runs = 0

    def crawl(self, contender: Contender) -> Run:
        """Let one crawl, from an empty frontier and into an empty store."""
        self._redis.client.flushall()
        self._mongo.drop(f"bench{self._runs}")
        self._runs += 1
        self._account()
        self._checkpoint()
        redis_s, mongo_s = self._redis.cpu_s(), self._mongo.cpu_s()
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            found, peak_mb, log = self._run(contender, Path(folder))
        self._checkpoint()
        redis_s, mongo_s = self._redis.cpu_s() - redis_s, self._mongo.cpu_s() - mongo_s
        account = self._account()
        stored = None
        if "mongo" in contender.servers:
            database = self._mongo.client[f"bench{self._runs}"]
            stored = database["pages_metadata"].count_documents({})
        check(contender.name, self._size.seeds, account, stored=stored, log=log)
        pages, cpu_s, took_s = account["pages"], found["cpu_s"], account["took_s"]
        handshake_s = found.get("handshake_s")
        return Run(
            cpu_ms=cpu_s / pages * 1000,
            pages=round(pages),
            redis_ms=redis_s / pages * 1000,
            mongo_ms=mongo_s / pages * 1000,
            web_ms=account["cpu_s"] / pages * 1000,
            pages_per_s=pages / took_s,
            mb_per_s=account["page_bytes"] / took_s / 2**20,
            peak_mb=peak_mb,
            connections_per_page=account["connections"] / pages,
            resumed_share=account["resumed"] / max(account["connections"], 1),
            handshake_share=None if handshake_s is None else handshake_s / cpu_s,
            loop_lag_p99_ms=found.get("loop_lag_p99_ms"),
            loop_own_lag_p99_ms=found.get("loop_own_lag_p99_ms"),
        )

    def _checkpoint(self) -> None:
        """Have MongoDB write all pages to its files: the work of a crawl, and of no other."""
        self._mongo.client.admin.command("fsync")

    def _run(self, contender: Contender, folder: Path) -> tuple[dict[str, float], float, str]:
        """Run a crawler; return what its meter says, its peak memory, and its log."""
        meter, log, seeds = folder / "meter.json", folder / "crawl.log", folder / "seeds.txt"
        size, scheme = self._size, self._ground.scheme
        urls = (url_of(number, size, self._port, scheme) for number in range(size.seeds))
        seeds.write_text("\n".join(urls), encoding="utf-8")
        values = {"seeds": str(seeds), "pages": str(round(size.seeds * _STOP))}
        command = tuple(word.format(**values) for word in contender.command)
        environment = {
            **os.environ,
            **contender.environment,
            METER_FILE: str(meter),
            "REDIS_URL": self._redis.url,
            "MONGO_URI": self._mongo.url,
            "BENCH_DATABASE": f"bench{self._runs}",
            "CRAWL_DIR": str(folder),
        }
        with log.open("wb") as output:
            process = subprocess.Popen(
                pinned(command, self._cores),
                cwd=contender.folder or ROOT,
                env=environment,
                stdout=output,
                stderr=output,
            )
            returned, peak_mb = _ended(process)
        said = log.read_text(errors="replace")
        if returned == -signal.SIGKILL:
            raise Disturbed(
                f"{contender.name} was killed: it took more than {_TIMEOUT_S:.0f} s, or more "
                f"memory than there is:\n{said[-_LOG_SHOWN:]}"
            )
        if returned or not meter.exists():
            raise CrawlerError(f"{contender.name} ended with {returned}:\n{said[-_LOG_SHOWN:]}")
        found: dict[str, float] = json.loads(meter.read_text())
        return found, peak_mb, said

    def _account(self) -> dict[str, float]:
        """Ask what was fetched since the last look."""
        with socket.create_connection(("127.0.0.1", self._account_port), timeout=60) as connection:
            found: dict[str, float] = json.load(connection.makefile("rb"))
        return found


def check(
    name: str, seeds: int, account: Mapping[str, float], *, stored: int | None, log: str
) -> None:
    """Raise an error if a crawl was not what it was meant to be; `stored` are pages in MongoDB.

    Disturbed if it was no whole crawl, as on a machine that is too busy.
    """
    missing, pages = seeds - account["seeds"], account["pages"]
    least, most = round(seeds * _STOP * _FETCHED), round(seeds * _STOP) + _IN_FLIGHT
    if missing > seeds * _MISSING or account["repeated"] or not least <= pages <= most:
        raise Disturbed(
            f"{name} left out {missing:.0f} of {seeds} seeds and fetched {pages:.0f} pages "
            f"({least} to {most}), {account['repeated']:.0f} of them again: its figures would "
            "mean nothing."
        )
    if stored is not None and not pages * _STORED <= stored <= pages:
        raise CrawlerError(f"{name} fetched {pages:.0f} pages, but {stored} are stored.")
    if _TRACEBACK in log:
        shown = log[log.index(_TRACEBACK) :][:_LOG_SHOWN]
        # Requests time out on a machine that is too busy.
        kind = Disturbed if "Timeout" in log else CrawlerError
        raise kind(f"{name} failed, as its log says:\n{shown}")


def _ended(process: subprocess.Popen[bytes]) -> tuple[int, float]:
    """Wait for the end of a process; return its exit code and its peak memory in MB.

    The system counts what the process was forked from, so none is below this process' own 60 MB.
    """
    watchdog = threading.Timer(_TIMEOUT_S, process.kill)
    watchdog.start()
    try:
        _, status, used = os.wait4(process.pid, 0)
    except KeyboardInterrupt:
        process.kill()
        raise
    finally:
        watchdog.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


@contextmanager
def rig(ground: Ground, size: Size) -> Iterator[Rig]:
    """Start the servers, on cores of their own."""
    cores = Cores.found()
    with ExitStack() as stack:
        ports = stack.enter_context(web(ground, size, cores.servers))
        # Servers inherit it; crawlers are given another.
        stack.enter_context(running_on(cores.servers))
        try:
            redis = stack.enter_context(private_redis())
            mongo = stack.enter_context(private_mongo())
        except CrawlerError as error:
            raise Disturbed(str(error)) from error
        yield Rig(ground, size, ports, redis=redis, mongo=mongo, cores=cores.client)


@contextmanager
def web(ground: Ground, size: Size, cores: str | None) -> Iterator[tuple[int, int]]:
    """Serve inside the block; the web goes to its cores when its pages are made."""
    command = [sys.executable, "-m", "benchmarks.crawl.web"]
    command += [f"--seeds={size.seeds}", f"--hosts={size.hosts}"]
    command.append(f"--pages={ground.folder}" if ground.folder else f"--ground={ground.name}")
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        try:
            if not said:
                raise CrawlerError("The benchmark's web does not start; its own message says why.")
            if cores is not None:
                os.sched_setaffinity(process.pid, {int(core) for core in cores.split(",")})
            port, account_port = map(int, said.split())
            yield port, account_port
        finally:
            process.terminate()
