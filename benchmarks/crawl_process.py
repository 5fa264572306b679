"""A crawl in a process of its own, for what only a whole crawl can show."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.servers import PrivateRedis
from crawler.errors import CrawlerError
from crawler.frontier import keys
from crawler.frontier.frontier import tags

_ROOT = Path(__file__).parent.parent
# The spider, and so its crawl.
_CRAWL = "web"
# For each process: on a busy machine those that start together are slow.
_START_S = 120.0
_STOP_S = 20.0


@contextmanager
def crawl_processes(
    server: PrivateRedis,
    count: int = 1,
    *,
    arguments: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Crawl inside the block with so many processes more; pages are dropped, not stored."""
    given = {"REDIS_URL": server.url, "SINKS": "none", "PROGRESS": "off"}
    given |= {"LOG_LEVEL": "WARNING", **(settings or {})}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        given["CRAWL_DIR"] = folder
        command = [sys.executable, "-m", "scrapy", "crawl", _CRAWL]
        for flag, values in (("-a", arguments or {}), ("-s", given)):
            command += [word for item in values.items() for word in (flag, "=".join(item))]
        log = Path(folder, "crawl.log")
        running: list[subprocess.Popen[bytes]] = []
        known = _instances(server)
        try:
            with log.open("wb") as output:
                running.extend(
                    subprocess.Popen(
                        command,
                        cwd=_ROOT,
                        env={**os.environ, **(environment or {})},
                        stdout=output,
                        stderr=output,
                    )
                    for _ in range(count)
                )
            _wait_for(server, known + count, running, log)
            yield running
            if any(process.poll() is not None for process in running):
                raise CrawlerError(f"A crawl ended too early:\n{log.read_text()[-2000:]}")
        finally:
            _stop(running)


def cpu_s(process: subprocess.Popen[bytes]) -> float:
    """Return the CPU time that a running process has used, by all of its threads. Linux only."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int, *, peak: bool = True) -> float:
    """Return the memory of a running process, at its peak or now. Linux only."""
    name = "VmHWM:" if peak else "VmRSS:"
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    raise CrawlerError(f"This system does not tell the memory of a process ({name}).")


def shard_tags(server: PrivateRedis) -> tuple[str, ...]:
    """Return the hash tags of the crawl's shards; none before it was created."""
    shards = server.client.hget(keys.crawl_meta(_CRAWL), "shards")
    return tags(_CRAWL, int(shards)) if shards else ()


def _instances(server: PrivateRedis) -> int:
    found = shard_tags(server)
    # A process signs on at the shards one after the other.
    return min((int(server.client.zcard(keys.owners(tag))) for tag in found), default=0)


def _wait_for(
    server: PrivateRedis, instances: int, running: list[subprocess.Popen[bytes]], log: Path
) -> None:
    """Until so many processes have signed on at the frontier."""
    deadline = time.monotonic() + _START_S * len(running)
    while _instances(server) < instances:
        failed = any(process.poll() is not None for process in running)
        if failed or time.monotonic() > deadline:
            raise CrawlerError(f"A crawl does not start:\n{log.read_text()[-2000:]}")
        time.sleep(0.1)


def _stop(running: list[subprocess.Popen[bytes]]) -> None:
    for process in running:
        process.terminate()
    for process in running:
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
