"""The ground on which crawlers are compared: servers on some cores, the crawler on another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cores import Cores, pinned, running_on
from benchmarks.crawl.contenders import Contender
from benchmarks.crawl.meter import METER_FILE
from benchmarks.crawl.pages import Size, url_of
from benchmarks.crawl.web import ACCOUNT_HOST
from benchmarks.servers import PrivateRedis, private_mongo, private_redis
from crawler.errors import CrawlerError

_ROOT = Path(__file__).parent.parent.parent
_TIMEOUT_S = 600.0
_LOG_SHOWN = 2000
# Crawlers stop when they have all seeds and some pages more; what is in flight then comes on top.
_STOP = 1.15
_IN_FLIGHT = 250
# Share of the seeds that may be missing: those whose hosts were busy when the others were done.
_MISSING = 0.1


@dataclass(frozen=True, slots=True)
class Run:
    """What one crawl took, per page. CPU time is the crawler's own."""

    cpu_ms: float
    redis_ms: float
    pages_per_s: float


class Ground:
    """Servers that run, and crawlers that are let loose on them one after the other."""

    def __init__(
        self, size: Size, port: int, redis: PrivateRedis, mongo_uri: str, cores: str | None
    ) -> None:
        self._size = size
        self._port = port
        self._redis = redis
        self._mongo_uri = mongo_uri
        # Of the crawlers.
        self._cores = cores
        self._runs = 0

    def crawl(self, contender: Contender) -> Run:
        """Let one crawl, from an empty frontier and into an empty store."""
        self._redis.client.flushall()
        self._account()
        self._runs += 1
        redis_s = self._redis.cpu_s()
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            cpu_s = self._run(contender, Path(folder))
        redis_s = self._redis.cpu_s() - redis_s
        account = self._account()
        self._check(contender, account)
        pages = account["pages"]
        return Run(cpu_s / pages * 1000, redis_s / pages * 1000, pages / account["took_s"])

    def _check(self, contender: Contender, account: dict[str, float]) -> None:
        """Was it the crawl that it was meant to be?"""
        seeds, most = self._size.seeds, round(self._size.seeds * _STOP) + _IN_FLIGHT
        missing = seeds - account["seeds"]
        if missing > seeds * _MISSING or account["repeated"] or account["pages"] > most:
            raise CrawlerError(
                f"{contender.name} left out {missing:.0f} of {seeds} seeds and fetched "
                f"{account['pages']:.0f} pages (at most {most}), {account['repeated']:.0f} of them "
                "again: its figures would mean nothing."
            )

    def _run(self, contender: Contender, folder: Path) -> float:
        meter, log, seeds = folder / "meter.json", folder / "crawl.log", folder / "seeds.txt"
        urls = (url_of(number, self._size, self._port) for number in range(self._size.seeds))
        seeds.write_text("\n".join(urls), encoding="utf-8")
        values = {"seeds": str(seeds), "pages": str(round(self._size.seeds * _STOP))}
        command = tuple(word.format(**values) for word in contender.command)
        environment = {
            **os.environ,
            **contender.environment,
            METER_FILE: str(meter),
            "REDIS_URL": self._redis.url,
            "MONGO_URI": self._mongo_uri,
            "BENCH_DATABASE": f"bench{self._runs}",
            "CRAWL_DIR": str(folder),
        }
        with log.open("wb") as output:
            done = subprocess.run(
                pinned(command, self._cores),
                cwd=_ROOT,
                env=environment,
                stdout=output,
                stderr=output,
                timeout=_TIMEOUT_S,
                check=False,
            )
        if done.returncode or not meter.exists():
            said = log.read_text(errors="replace")[-_LOG_SHOWN:]
            raise CrawlerError(f"{contender.name} ended with {done.returncode}:\n{said}")
        return float(json.loads(meter.read_text())["cpu_s"])

    def _account(self) -> dict[str, float]:
        """What was fetched since the last look."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}/", headers={"Host": ACCOUNT_HOST.decode()}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - loopback
            found: dict[str, float] = json.load(answer)
        return found


@contextmanager
def ground(size: Size) -> Iterator[Ground]:
    """Start the servers, on cores of their own."""
    cores = Cores.found()
    with ExitStack() as stack:
        # Servers inherit it; crawlers are given another.
        stack.enter_context(running_on(cores.servers))
        redis = stack.enter_context(private_redis())
        mongo_uri = stack.enter_context(private_mongo())
        port = stack.enter_context(_web(size))
        yield Ground(size, port, redis, mongo_uri, cores.client)


@contextmanager
def _web(size: Size) -> Iterator[int]:
    command = [sys.executable, "-m", "benchmarks.crawl.web"]
    command += [f"--seeds={size.seeds}", f"--hosts={size.hosts}"]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        try:
            if not said:
                raise CrawlerError("The benchmark's web does not start; its own message says why.")
            yield int(said)
        finally:
            process.terminate()
