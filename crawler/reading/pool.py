"""Worker processes of a crawl, in which heavy documents and large pages are read.

A worker is started for the first document, gets one file at a time, and is ended when none came for
a while. One that crashes, takes too long or answers nonsense is killed: its file is unreadable, and
the next file gets a new worker. Files wait in memory until a worker is free. When they have too
many bytes (`is_full`), the downloader puts further documents off (download/receiver.py). Pages have
a pool of their own: they do not wait for documents.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Self

from scrapy import signals

from crawler import config
from crawler.errors import NotStored
from crawler.parsing.document import Document, DocumentLimits, Unreadable
from crawler.parsing.documents import HEAVY
from crawler.parsing.sniff import sniff
from crawler.reading.messages import (
    MAX_ANSWER_BYTES,
    READY,
    SIZE,
    Answer,
    Failed,
    Garbage,
    Job,
    answer_in,
    bounded,
    packed,
    unpacked,
)
from crawler.reading.own import own_readers
from crawler.util.per_crawler import shared

if TYPE_CHECKING:
    from asyncio.subprocess import Process

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from crawler.parsing.reader import ReaderOptions

logger = logging.getLogger(__name__)

# Why this crawl could not read a document, beside the reasons of its reader.
CRASHED, TIMEOUT, MEMORY, FAILED, BUSY = "crashed", "timeout", "memory", "failed", "busy"
# What a waiting file takes at least: its request, its response and its page.
_FILE_MIN_BYTES = 48 * 1024
# Files after which a worker is replaced: libraries lose memory.
_FILES_MAX = 500
# Seconds without a document after which workers end, and for a new one to start.
_IDLE_S, _START_S = 30.0, 60.0
# Answers with more bytes are unpacked in a thread.
_INLINE_BYTES = 50_000
# Bytes of an answer that are read before they are asked for.
_BUFFER_BYTES = 1_000_000
# Errors of readers that are logged; the others are only counted.
_LOGGED_MAX = 10
# Why a worker ended, by its exit status: its own deadline; the system had no memory left; a native
# library got none, and gave up.
_REASONS = {-signal.SIGALRM: TIMEOUT, -signal.SIGKILL: MEMORY, -signal.SIGABRT: MEMORY}
# What a worker keeps of the environment. The rest may have passwords of servers.
_KEPT = re.compile(r"PATH|HOME|USER|LANG(UAGE)?|LC_\w+|TZ|TMPDIR|LD_LIBRARY_PATH|PYTHON\w+")


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """Number of workers, and what they may take."""

    workers: int = config.setting("DOCUMENT_WORKERS")
    timeout_s: float = config.setting("DOCUMENT_TIMEOUT")
    memory_bytes: int = config.setting("DOCUMENT_MEMORY")
    max_pages: int = config.setting("DOCUMENT_PAGES")
    max_links: int = config.setting("MAX_OUTLINKS")
    nice: int = config.setting("DOCUMENT_NICE")
    waiting_bytes: int = config.setting("DOCUMENT_WAITING_BYTES")
    files: int = _FILES_MAX
    idle_s: float = _IDLE_S


# Adds a number to a stat.
Count = Callable[[str, int], None]


def _count_nothing(_stat: str, _by: int) -> None:
    """Count for callers that want no figures."""


@dataclass(frozen=True, slots=True)
class _Stats:
    """Names of a pool's figures; that of `unread` is followed by a reason."""

    read: str
    read_ms: str
    unread: str
    workers_started: str


_OF_DOCUMENTS = _Stats(
    *("documents/read", "documents/read_ms", "documents/unread/", "documents/workers_started")
)
_OF_PAGES = _Stats(
    *("large_pages/read", "large_pages/read_ms", "large_pages/unread/"),
    "large_pages/workers_started",
)


class DocumentPool:
    """Pool of the workers of one process of a crawl."""

    def __init__(
        self,
        limits: PoolLimits,
        own: Mapping[str, str],
        *,
        count: Count = _count_nothing,
        pages: ReaderOptions | None = None,
    ) -> None:
        """`own` has the paths of the user's readers, by type; with `pages` it reads pages only."""
        # Types that are read here.
        self.types = HEAVY | own.keys()
        self.own = own
        self._limits = limits
        self.job = Job(
            timeout_s=limits.timeout_s,
            memory_bytes=limits.memory_bytes,
            nice=limits.nice,
            limits=DocumentLimits(max_pages=limits.max_pages, max_links=limits.max_links),
            own=dict(own),
            pages=None if pages is None else pages.to_record(),
        )
        self._count = count
        self._stats = _OF_DOCUMENTS if pages is None else _OF_PAGES
        self._turns = asyncio.Semaphore(limits.workers)
        self._waiting_bytes = 0
        # Those that run, and those of them without a file; the one that was used last is the last.
        self.workers: set[_Worker] = set()
        self._idle: list[_Worker] = []
        self._ending: asyncio.TimerHandle | None = None
        self._errors_logged = 0

    @classmethod
    def of(cls, crawler: Crawler) -> DocumentPool:
        """Return the pool that all components of a crawl share."""

        def count(stat: str, by: int) -> None:
            # There are none yet when the spider is made.
            assert crawler.stats is not None
            crawler.stats.inc_value(stat, by)

        def make() -> DocumentPool:
            pool = cls.from_settings(crawler.settings, count=count)
            crawler.signals.connect(pool.close, signals.spider_closed)
            return pool

        return shared(cls, crawler, make)

    @classmethod
    def for_pages(cls, crawler: Crawler, options: ReaderOptions) -> Self:
        """Return a pool that reads large pages of a crawl, as these options say."""

        def count(stat: str, by: int) -> None:
            assert crawler.stats is not None
            crawler.stats.inc_value(stat, by)

        pool = cls(config.fill(PoolLimits, crawler.settings), {}, count=count, pages=options)
        crawler.signals.connect(pool.close, signals.spider_closed)
        return pool

    @classmethod
    def from_settings(cls, settings: BaseSettings, *, count: Count = _count_nothing) -> Self:
        """Return a pool by settings; whoever calls this closes it."""
        return cls(config.fill(PoolLimits, settings), own_readers(settings), count=count)

    @property
    def is_full(self) -> bool:
        """Whether so many files wait that no more should be fetched."""
        return self._waiting_bytes >= self._limits.waiting_bytes

    def takes(self, content_type: str) -> bool:
        """Return whether a response with this Content-Type is read here, if it is what it says."""
        return sniff(b"", content_type) in self.types

    async def read(
        self,
        media_type: str,
        body: bytes,
        url: str,
        *,
        declared: str | None = None,
        nofollow: bool = False,
        is_closing: Callable[[], bool] = lambda: False,
    ) -> Document:
        """Read a file of one of `types`, or a page with this Content-Type; raises Unreadable.

        `declared` is the Content-Type. The downloader does not put off files whose type shows only
        in their bodies, so they are not read while too many wait. None: it knew by the URL. Raises
        NotStored if the crawl is closing by the time that there is a worker.
        """
        if self.is_full and declared is not None and not self.takes(declared):
            self._count(f"{self._stats.unread}{BUSY}", 1)
            raise Unreadable(BUSY)
        size = max(len(body), _FILE_MIN_BYTES)
        self._waiting_bytes += size
        try:
            async with self._turns:
                if is_closing():
                    raise NotStored(f"the crawl ends before {url} is read")
                since = monotonic()
                answer = await self._answer(media_type, body, url, nofollow=nofollow)
                self._count(self._stats.read_ms, round((monotonic() - since) * 1000))
        finally:
            self._waiting_bytes -= size
        if isinstance(answer, Failed):
            self._log(media_type, url, answer)
            answer = Unreadable(FAILED)
        if isinstance(answer, Unreadable):
            self._count(f"{self._stats.unread}{answer.reason}", 1)
            raise answer
        self._count(self._stats.read, 1)
        return bounded(answer, self.job.limits)

    async def close(self) -> None:
        """End all workers, also those that still read."""
        self._end_idle()
        for worker in self.workers:
            worker.kill()
        await asyncio.gather(*(worker.ended for worker in self.workers))

    async def _answer(self, media_type: str, body: bytes, url: str, *, nofollow: bool) -> Answer:
        """Let a worker read a file; whatever goes wrong is an answer too."""
        try:
            worker = self._idle_worker() or await self._start()
        except (OSError, TimeoutError, _Ended, Garbage) as error:
            return Failed(f"no process could be started ({str(error) or 'it took too long'})")
        answer: Answer
        is_kept = False
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                answer, is_last = await worker.read(media_type, body, url, nofollow=nofollow)
            is_kept = not is_last and worker.files < self._limits.files
        except TimeoutError:
            answer = Unreadable(TIMEOUT)
        except _Ended as ended:
            answer = Unreadable(_REASONS.get(ended.status, CRASHED))
        except Garbage:
            answer = Unreadable(CRASHED)
        finally:
            # Also if this is cancelled: the answer would be taken for that of the next file.
            if is_kept:
                self._rest(worker)
            else:
                worker.kill()
        return answer

    def _idle_worker(self) -> _Worker | None:
        """Take a worker that has no file; those that the system ended meanwhile are left out."""
        while self._idle:
            worker = self._idle.pop()
            if not worker.ended.done():
                return worker
        return None

    async def _start(self) -> _Worker:
        worker = await _Worker.start(self.job)
        self.workers.add(worker)
        worker.ended.add_done_callback(lambda _: self.workers.discard(worker))
        self._count(self._stats.workers_started, 1)
        try:
            async with asyncio.timeout(_START_S):
                await worker.ready()
        except BaseException:
            worker.kill()
            raise
        return worker

    def _rest(self, worker: _Worker) -> None:
        """Keep a worker for the next file, for a while."""
        self._idle.append(worker)
        if self._ending is not None:
            self._ending.cancel()
        loop = asyncio.get_running_loop()
        self._ending = loop.call_later(self._limits.idle_s, self._end_idle)

    def _end_idle(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
        while self._idle:
            self._idle.pop().kill()

    def _log(self, media_type: str, url: str, failed: Failed) -> None:
        self._errors_logged += 1
        if self._errors_logged <= _LOGGED_MAX:
            reader = self.own.get(media_type, "the reader of this project")
            logger.warning("%s (%s) is not read by %s: %s", url, media_type, reader, failed.error)


class _Ended(Exception):
    """Worker process that ended without an answer."""

    def __init__(self, status: int) -> None:
        super().__init__(f"it ended with the exit status {status}")
        self.status = status


class _Worker:
    """Worker process. It has nothing to lose, so it is always ended by SIGKILL."""

    def __init__(self, process: Process) -> None:
        self._process = process
        # Files that it was given.
        self.files = 0
        self.pid = process.pid
        self.ended = asyncio.ensure_future(process.wait())

    @classmethod
    async def start(cls, job: Job) -> Self:
        """Start a process, which may not be `ready` yet."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-B", "-m", "crawler.reading.worker", job.to_argument()),
            stdin=pipe,
            stdout=pipe,
            stderr=asyncio.subprocess.DEVNULL,
            env=_environment(),
            limit=_BUFFER_BYTES,
            # Ctrl-C is for the crawl.
            start_new_session=True,
        )
        return cls(process)

    async def ready(self) -> None:
        """Wait until it takes files."""
        said = unpacked(await self._message())
        if said != READY:
            raise Garbage(f"{said!s:.300}")

    async def read(
        self, media_type: str, body: bytes, url: str, *, nofollow: bool
    ) -> tuple[Answer, bool]:
        """Let it read a file; return its answer, and whether that is its last one."""
        self.files += 1
        into = self._process.stdin
        assert into is not None
        # Its answer comes when it has all of it. If it ends before, there is none.
        into.write(packed([media_type, url, nofollow]) + SIZE.pack(len(body)))
        into.write(body)
        data = await self._message()
        if len(data) > _INLINE_BYTES:
            return await asyncio.to_thread(answer_in, data)
        return answer_in(data)

    async def _message(self) -> bytes:
        out = self._process.stdout
        assert out is not None
        try:
            size = SIZE.unpack(await out.readexactly(SIZE.size))[0]
            if size > MAX_ANSWER_BYTES:
                raise Garbage(f"an answer of {size} bytes")
            return await out.readexactly(size)
        except asyncio.IncompleteReadError:
            raise _Ended(await self.ended) from None

    def kill(self) -> None:
        if self._process.returncode is None:
            # Process.kill() would reap a process that has just ended, and its status were lost.
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def _environment() -> dict[str, str]:
    """Return the environment of a worker, which imports what this process can import."""
    kept = {name: value for name, value in os.environ.items() if _KEPT.fullmatch(name)}
    # Libraries that would start a thread for each core.
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return {**threads, **kept, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
