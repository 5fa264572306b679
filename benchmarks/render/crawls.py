"""Crawls of sites that need a browser, each watched from its first pages to its last."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

from benchmarks.crawl_process import memory_mb
from benchmarks.render import usage
from benchmarks.render.count import PAGES_FILE
from benchmarks.render.site import PAGES_A_HOST, url_of
from benchmarks.servers import private_redis
from crawler.errors import CrawlerError
from crawler.settings import EXTENSIONS

# Names of peers, and the end of their names if they open pages as ours does.
SCRAPY, CRAWLEE = "scrapy-playwright", "crawlee"
LIKE_OURS = "-like-ours"
# Pages that are open at a time.
AT_ONCE = 2
_ROOT = Path(__file__).parent.parent.parent
# Share of the pages after which it is measured: browsers have started, caches are filled.
_WARM = 0.2
_POLL_S, _TIMEOUT_S, _LOG_SHOWN = 0.05, 900.0, 2000
_SETTINGS = {
    "SINKS": "none",
    "ALLOW_NETWORKS": "127.0.0.0/8",
    "DNS_OVERRIDES": json.dumps({".test": "127.0.0.1"}),
    "DELAY_MIN": 0,
    "DELAY_FACTOR": 0,
    "RENDER_BROWSERS": AT_ONCE,
    # As those of the others: on a busy machine it would wait for these.
    "RENDER_NICE": 0,
    "PROGRESS": "off",
    "LOG_LEVEL": "WARNING",
    "EXTENSIONS": json.dumps({**EXTENSIONS, "benchmarks.render.count.Counting": 0}),
}


@dataclass(frozen=True, slots=True)
class Contender:
    """One crawler: its command, where `{seeds}` is a file of URLs."""

    key: str
    name: str
    command: tuple[str, ...]
    is_ours: bool = False
    # Its pages have their content without a browser.
    is_ready: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """What a crawl took for its pages, but the first of them."""

    pages: int
    took_s: float
    # By role of the process.
    cpu_s: dict[str, float]
    # Most memory of the crawler process itself.
    crawler_mb: float
    # Requests by kind, for all pages.
    asked: dict[str, int] = field(default_factory=dict)

    @property
    def cpu_ms(self) -> float:
        """CPU time a page, of the crawler and all that it started."""
        return sum(self.cpu_s.values()) / self.pages * 1000

    def cpu_ms_of(self, role: str) -> float:
        """CPU time a page of the processes of one role."""
        return self.cpu_s.get(role, 0.0) / self.pages * 1000

    def __str__(self) -> str:
        parts = ", ".join(f"{role} {self.cpu_ms_of(role):.0f}" for role in self.cpu_s)
        return (
            f"{self.cpu_ms:.0f} ms of CPU a page ({parts}), "
            f"{self.pages / self.took_s:.1f} pages/s, {self.crawler_mb:.0f} MB, {self.asked}"
        )


def _peer(name: str) -> Contender:
    command = (sys.executable, "-m", "benchmarks.render.peers", name, "{seeds}")
    return Contender(name.replace("-", "_"), name, command)


def _ours(key: str, name: str, mode: str, *, is_ready: bool) -> Contender:
    command = (sys.executable, "-m", "scrapy", "crawl", "web", "-a", "seeds={seeds}")
    command += ("-a", f"render={mode}")
    return Contender(key, name, command, is_ours=True, is_ready=is_ready)


OURS = _ours("ours", "ours", "always", is_ready=False)
# The same content without a browser: what rendering adds.
PLAIN = _ours("plain", "ours, pages with their content", "never", is_ready=True)
PEERS = tuple(_peer(name + like) for name in (SCRAPY, CRAWLEE) for like in ("", LIKE_OURS))
ALL = (PLAIN, *PEERS, OURS)


@contextmanager
def site(*, is_ready: bool) -> Iterator[int]:
    """Serve the sites inside the block, on a port."""
    command = [sys.executable, "-m", "benchmarks.render.site", *["--ready"] * is_ready]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.terminate()


def crawl(contender: Contender, pages: int) -> Run:
    """Let one crawl so many pages."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as name,
        private_redis() as redis,
        site(is_ready=contender.is_ready) as port,
    ):
        folder = Path(name)
        seeds, counted, log = folder / "seeds.txt", folder / "pages.txt", folder / "crawl.log"
        # Nobody is to end while its CPU time is read.
        urls = [url_of(number, port) for number in range(pages + 2 * PAGES_A_HOST)]
        seeds.write_text("\n".join(urls), encoding="utf-8")
        counted.touch()
        command = [word.format(seeds=seeds) for word in contender.command]
        if contender.is_ours:
            given = {**_SETTINGS, "REDIS_URL": redis.url, "CRAWL_DIR": folder}
            command += [word for key, value in given.items() for word in ("-s", f"{key}={value}")]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=_ROOT,
                env={**os.environ, PAGES_FILE: str(counted)},
                stdout=output,
                stderr=output,
            )
            try:
                return _watched(process, counted, pages, log, port)
            finally:
                _end(process)


def _watched(
    process: subprocess.Popen[bytes], counted: Path, pages: int, log: Path, port: int
) -> Run:
    first = _wait_for(process, counted, max(1, round(_WARM * pages)), log)
    started_s, before = time.monotonic(), usage.cpu_now(process.pid)
    last = _wait_for(process, counted, pages, log)
    took_s, after = time.monotonic() - started_s, usage.cpu_now(process.pid)
    check(counted.read_text().splitlines())
    cpu_s = {role: after[role] - before[role] for role in usage.ROLES}
    return Run(last - first, took_s, cpu_s, memory_mb(process.pid), _account(port))


def check(lines: Sequence[str]) -> None:
    """Raise an error if a page was not shown, or shown twice."""
    if empty := [line for line in lines if not line.startswith("1 ")]:
        raise CrawlerError(f"{len(empty)} pages lack their content, such as {empty[0][2:]}.")
    if len(set(lines)) < len(lines):
        raise CrawlerError(f"{len(lines) - len(set(lines))} pages were fetched again.")


def _wait_for(process: subprocess.Popen[bytes], counted: Path, pages: int, log: Path) -> int:
    """Wait until so many pages are counted; return how many there are."""
    until_s = time.monotonic() + _TIMEOUT_S
    while (count := counted.read_text().count("\n")) < pages:
        if process.poll() is not None or time.monotonic() > until_s:
            said = log.read_text(errors="replace")[-_LOG_SHOWN:]
            raise CrawlerError(f"A crawl ended, or hangs, with {count} of {pages} pages:\n{said}")
        time.sleep(_POLL_S)
    return count


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process with all that it started."""
    for each in usage.tree(process.pid, usage.processes()):
        with suppress(ProcessLookupError):
            os.kill(each.pid, signal.SIGKILL)
    process.wait()


def _account(port: int) -> dict[str, int]:
    """Ask the site what was requested."""
    with urlopen(f"http://127.0.0.1:{port}/account") as answer:
        found: dict[str, int] = json.loads(gzip.decompress(answer.read()))
    return found
