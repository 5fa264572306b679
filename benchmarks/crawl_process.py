"""A crawl in a process of its own, for what only a whole crawl can show."""

from __future__ import annotations

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
_START_S = 30.0
_STOP_S = 20.0


@contextmanager
def crawl_processes(
    server: PrivateRedis,
    count: int = 1,
    *,
    arguments: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """Crawl inside the block with so many processes; pages are dropped, not stored."""
    given = {"REDIS_URL": server.url, "SINKS": "none", "PROGRESS": "off"}
    given |= {"LOG_LEVEL": "WARNING", **(settings or {})}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        given["CRAWL_DIR"] = folder
        command = [sys.executable, "-m", "scrapy", "crawl", "web"]
        for flag, values in (("-a", arguments or {}), ("-s", given)):
            command += [word for item in values.items() for word in (flag, "=".join(item))]
        log = Path(folder, "crawl.log")
        running: list[subprocess.Popen[bytes]] = []
        try:
            with log.open("wb") as output:
                running.extend(
                    subprocess.Popen(command, cwd=_ROOT, stdout=output, stderr=output)
                    for _ in range(count)
                )
            _wait_for(server, running, log)
            yield
            if any(process.poll() is not None for process in running):
                raise CrawlerError(f"A crawl ended too early:\n{log.read_text()[-2000:]}")
        finally:
            _stop(running)


def _wait_for(server: PrivateRedis, running: list[subprocess.Popen[bytes]], log: Path) -> None:
    """Until every process has signed on at the frontier."""
    owners = keys.owners(tags("web", 1)[0])
    deadline = time.monotonic() + _START_S
    while server.client.zcard(owners) < len(running):
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
