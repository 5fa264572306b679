"""What do documents cost the crawl beside them, how much memory do they take, how fast are they?

`rate` crawls the synthetic web, whose hosts answer after half a second, in turns: with
FOLLOW_DOCUMENTS=False, and with all documents read. Every fourth host has a part of the zoo of
hostile files (demo/hostile_files.py): bombs, and files that take their readers to the limits of
time and memory. They keep all workers busy for longer than the pages take. What is compared is the
rate of pages on the other hosts, until four fifths of them are fetched. The crawl has its defaults,
but no delays.

`documents.peak_mb` is the most memory that the crawl or one of its workers had.

`read` is the CPU time for an ordinary file of each type, in a process that runs.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.command import run
from benchmarks.crawl_process import memory_mb
from benchmarks.figures import Figure, Skipped, at_least, at_most
from benchmarks.servers import private_redis
from crawler.errors import CrawlerError
from crawler.parsing import sniff
from crawler.parsing.document import DocumentLimits
from crawler.parsing.documents import read_document
from demo.access_log import read_log
from demo.documents import docx, epub, odf, pdf, pptx, word_paragraph, xlsx
from demo.process import DemoServer
from demo.web import Web, WebOptions

_ROOT = Path(__file__).parent.parent
_TARGET_RATE, _TARGET_MB = 0.9, 600.0
_HOSTS, _PAGES, _QUICK_PAGES = 64, 100, 30
_ROUNDS, _QUICK_ROUNDS = 3, 2
_LATENCY_S = 0.5
_SHARE = 0.8
_POLL_S, _TIMEOUT_S = 0.05, 600.0
_SETTINGS = {
    "SINKS": "none",
    "ALLOW_NETWORKS": "127.0.0.0/8",
    "DELAY_MIN": 0,
    "DELAY_FACTOR": 0,
    "PROGRESS": "off",
    "ADMIN_ENABLED": False,
    "LOG_LEVEL": "WARNING",
}


@dataclass(frozen=True, slots=True)
class Run:
    """One crawl: its rate of ordinary pages, and the most memory of a process."""

    pages_per_s: float
    crawl_mb: float
    worker_mb: float


def measure_rate(quick: bool) -> Iterator[Figure | Skipped]:
    """Crawl with and without documents."""
    if not Path("/proc/self/status").exists():
        yield Skipped("documents.rate_kept", "this system does not tell the memory of a process")
        return
    web = WebOptions(_HOSTS, _QUICK_PAGES if quick else _PAGES, zoo="documents")
    alone: list[Run] = []
    beside: list[Run] = []
    for number in range(_QUICK_ROUNDS if quick else _ROUNDS):
        turns = ((alone, {"FOLLOW_DOCUMENTS": False}), (beside, {}))
        for runs, settings in turns if number % 2 == 0 else reversed(turns):
            runs.append(_crawl(web, settings))
            print(f"{'beside' if runs is beside else 'alone'}: {runs[-1]}", file=sys.stderr)
    rate = median(one.pages_per_s for one in beside)
    kept = rate / median(one.pages_per_s for one in alone)
    yield Figure("documents.pages_per_s", rate, "pages/s")
    yield Figure("documents.rate_kept", kept, "", target=at_least(_TARGET_RATE))
    crawl_mb, worker_mb = (
        max(one.crawl_mb for one in beside),
        max(one.worker_mb for one in beside),
    )
    yield Figure("documents.crawl_mb", crawl_mb, "MB")
    yield Figure("documents.worker_mb", worker_mb, "MB")
    yield Figure("documents.peak_mb", max(crawl_mb, worker_mb), "MB", target=at_most(_TARGET_MB))


def _crawl(web: WebOptions, settings: Mapping[str, object]) -> Run:
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as name,
        private_redis() as redis,
        DemoServer(web, Path(name, "access.log"), arguments=(f"--latency={_LATENCY_S}",)) as served,
    ):
        folder = Path(name)
        values = {
            **_SETTINGS,
            **settings,
            "REDIS_URL": redis.url,
            "CRAWL_DIR": folder,
            "DNS_OVERRIDES": json.dumps(served.overrides),
        }
        command = [sys.executable, "-m", "scrapy", "crawl", "web", "-a", "scope=any"]
        command += ["-a", "seeds=http://s0.test/"]
        for key, value in values.items():
            command += ["-s", f"{key}={value}"]
        with Path(folder, "crawl.log").open("wb") as output:
            process = subprocess.Popen(command, cwd=_ROOT, stdout=output, stderr=output)
            try:
                crawl_mb, worker_mb = _watch(process, folder / "access.log", Web(web))
            finally:
                process.kill()
                process.wait()
        ends = sorted(_ends(folder / "access.log", Web(web)))
    at = int(_SHARE * len(ends))
    return Run(at / (ends[at] - ends[0]), crawl_mb, worker_mb)


def _watch(process: subprocess.Popen[bytes], log: Path, served: Web) -> tuple[float, float]:
    """Wait until no more pages come; return the peaks of the crawl and of its workers."""
    crawl_mb = worker_mb = 0.0
    until_s, looked_s, pages = time.monotonic() + _TIMEOUT_S, 0.0, -1
    while process.poll() is None:
        if time.monotonic() > until_s:
            raise CrawlerError(f"The crawl takes more than {_TIMEOUT_S:.0f} s.")
        crawl_mb = max(crawl_mb, _peak_mb(process.pid))
        for pid in _children(process.pid):
            worker_mb = max(worker_mb, _peak_mb(pid))
        if time.monotonic() - looked_s > _LOOK_S:
            looked_s, before = time.monotonic(), pages
            pages = sum(1 for _ in _ends(log, served))
            if pages == before and pages > 0:
                # Only documents are left: the crawl would wait for them.
                process.send_signal(signal.SIGKILL)
                process.wait()
        time.sleep(_POLL_S)
    return crawl_mb, worker_mb


# Seconds after which the log is read again. Pages come all the time, until there are no more.
_LOOK_S = 5.0


def _children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            yield from map(int, task.read_text(encoding="ascii").split())
        except OSError:
            continue


def _peak_mb(pid: int) -> float:
    try:
        return memory_mb(pid)
    except (OSError, CrawlerError):
        # It has just ended.
        return 0.0


def _ends(log: Path, served: Web) -> Iterator[float]:
    """Yield when each page was sent of a host without documents."""
    if not log.exists():
        return
    for entry in read_log(log):
        number = int(entry.host.removeprefix("s").removesuffix(".test"))
        is_page = entry.status == 200 and not entry.target.endswith("/robots.txt")
        if is_page and "documents" not in served.profile(number).features:
            yield entry.end_s


# --- reading ----------------------------------------------------------------------------------


def _paragraphs(number: int) -> list[str]:
    words = "All files of this kind have some paragraphs, and each has about as many words".split()
    return [" ".join(words[at % 7 :] + words) + f" {at}." for at in range(number)]


def ordinary_files() -> dict[str, bytes]:
    """Make a file of each type, with 5,000 to 10,000 words."""
    texts = _paragraphs(300)
    words = (word_paragraph(text, "H2" * (at % 20 == 0)) for at, text in enumerate(texts))
    body = "".join(f"<text:p>{text}</text:p>" for text in texts)
    return {
        sniff.PDF: pdf(["\n".join(texts[at : at + 15]) for at in range(0, 300, 15)]),
        sniff.DOCX: docx("".join(words)),
        sniff.XLSX: xlsx({"Sheet": [text.split()[:10] for text in texts * 3]}),
        sniff.PPTX: pptx([(text, text) for text in texts[:150]]),
        sniff.ODT: odf(sniff.ODT, f"<office:text>{body}</office:text>"),
        sniff.EPUB: epub(["".join(f"<p>{text}</p>" for text in texts[at::20]) for at in range(20)]),
    }


def measure_read(quick: bool) -> Iterator[Figure]:
    """Read an ordinary file of each type, again and again."""
    for kind, body in ordinary_files().items():
        times = []
        for _ in range(5 if quick else 20):
            started_s = time.process_time()
            found = read_document(kind, body, "http://h.test/file", limits=DocumentLimits())
            times.append((time.process_time() - started_s) * 1000)
        assert len(found.text.split()) > 1000, kind
        yield Figure(f"documents.read_ms.{_SHORT[kind]}", median(times), "ms")


_SHORT = {
    sniff.PDF: "pdf",
    sniff.DOCX: "docx",
    sniff.XLSX: "xlsx",
    sniff.PPTX: "pptx",
    sniff.ODT: "odt",
    sniff.EPUB: "epub",
}

PARTS = {"rate": measure_rate, "read": measure_read}

if __name__ == "__main__":
    sys.exit(run("benchmarks.documents", __doc__, PARTS))
