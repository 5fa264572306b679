"""Browser processes of one crawl process: started when needed, limited, replaced, ended when idle.

Each renders one page at a time. One that crashes, hangs, takes too much memory or answers nonsense
is killed with all that it started: its page was not rendered, and the next page gets a new process.
Pages wait in memory until a browser is free; when too many do (`is_full`), the middleware puts
further pages off.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Self

from crawler.reading.messages import READY, SIZE, Garbage, packed, unpacked
from crawler.rendering.messages import (
    MAX_MESSAGE_BYTES,
    MAX_PARTS,
    PARTS_AT_ONCE,
    BrowserConfig,
    Part,
    PartAnswer,
    Rendered,
    RenderFailed,
    RenderJob,
    answer_message,
    job_message,
    outcome_in,
    part_in,
)
from crawler.rendering.processes import (
    Process,
    below,
    end_below,
    end_tree,
    memory_bytes,
    process_of,
)

if TYPE_CHECKING:
    from asyncio import subprocess

logger = logging.getLogger(__name__)

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# Seconds that a browser has beyond a page's own time, until it is killed.
_LATE_S = 8.0
# Seconds between two looks at the memory of a browser.
_LOOK_S = 1.0
_BUFFER_BYTES = 1_000_000
# Larger messages are unpacked in a thread.
_INLINE_BYTES = 200_000
_LOGGED_MAX = 10

FetchPart = Callable[[Part], Awaitable[PartAnswer | str]]


def find_browser(given: str | None) -> str | None:
    """Return the path of a browser: the one that is given, or the first on PATH."""
    names = (given,) if given else _PROGRAMS
    return next(filter(None, map(shutil.which, names)), None)


@dataclass(frozen=True, slots=True)
class BrowserLimits:
    """Number of browsers, and what they may take."""

    config: BrowserConfig
    count: int = 2
    # Of a browser with its page.
    memory_bytes: int = 1024 * 1024 * 1024
    # Pages that wait for a browser.
    waiting: int = 4
    # Pages after which a browser is replaced, and seconds without one after which it ends.
    pages: int = 200
    idle_s: float = 30.0


class Browsers:
    """Browsers of one process of a crawl."""

    def __init__(self, limits: BrowserLimits, *, count: Callable[[str], None]) -> None:
        self.limits = limits
        self.waiting = 0
        self.processes: set[BrowserProcess] = set()
        self._count = count
        self._turns = asyncio.Semaphore(limits.count)
        self._idle: list[BrowserProcess] = []
        self._ending: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._logged = 0

    @property
    def is_full(self) -> bool:
        """Whether so many pages wait that no more should be fetched."""
        return self.waiting >= self.limits.waiting

    @property
    def is_busy(self) -> bool:
        """Whether another page would wait."""
        return self._turns.locked()

    async def render(self, job: RenderJob, fetch_part: FetchPart) -> Rendered:
        """Render a page; raises RenderFailed. `fetch_part` gives its parts, or says why not."""
        self.waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self.waiting -= 1
        try:
            if self._is_closed:
                raise RenderFailed("crashed", "the crawl ends")
            process = self._idle_process() or await self._start()
            return await self._render(process, job, fetch_part)
        finally:
            self._turns.release()

    async def close(self) -> None:
        """End all browsers, also those that have a page; there will be no others."""
        self._is_closed = True
        if self._ending is not None:
            self._ending.cancel()
        await asyncio.gather(*(process.kill() for process in self.processes))
        # Pages that are under way, or for which a browser starts, fail now.
        for _ in range(self.limits.count):
            await self._turns.acquire()
        for _ in range(self.limits.count):
            self._turns.release()

    async def _render(
        self, process: BrowserProcess, job: RenderJob, fetch_part: FetchPart
    ) -> Rendered:
        outcome: Rendered | RenderFailed = RenderFailed("crashed")
        is_kept = False
        watching = asyncio.ensure_future(process.outgrows(self.limits.memory_bytes))
        rendering = asyncio.ensure_future(process.render(job, fetch_part))
        try:
            async with asyncio.timeout(job.deadline_s + _LATE_S):
                await asyncio.wait({watching, rendering}, return_when=asyncio.FIRST_COMPLETED)
            if not rendering.done():
                outcome = RenderFailed("memory", "it took more than RENDER_MEMORY")
            else:
                outcome, is_last = rendering.result()
                is_kept = not is_last and await self._may_go_on(process)
        except TimeoutError:
            outcome = RenderFailed("timeout")
        except (Ended, Garbage, OSError) as error:
            outcome = RenderFailed("crashed", str(error))
        finally:
            for task in (watching, rendering):
                task.cancel()
            await asyncio.gather(watching, rendering, return_exceptions=True)
            # Also if this is cancelled: what it sends would be taken for the next page.
            if is_kept:
                self._rest(process)
            else:
                await process.kill()
        if isinstance(outcome, RenderFailed):
            raise outcome
        return outcome

    async def _may_go_on(self, process: BrowserProcess) -> bool:
        """Return whether a browser that has rendered a page gets another one."""
        if self._is_closed or process.pages >= self.limits.pages:
            return False
        return await process.memory_bytes() <= self.limits.memory_bytes

    def _idle_process(self) -> BrowserProcess | None:
        while self._idle:
            process = self._idle.pop()
            if not process.ended.done():
                return process
            process.kill()
        return None

    async def _start(self) -> BrowserProcess:
        self._count("render/browsers_started")
        try:
            process = await BrowserProcess.start(self.limits.config)
        except OSError as error:
            raise RenderFailed("start", str(error)) from error
        self.processes.add(process)
        process.gone.add_done_callback(lambda _: self.processes.discard(process))
        try:
            async with asyncio.timeout(self.limits.config.start_s + _LATE_S):
                await process.ready()
        except (TimeoutError, Ended, Garbage, RenderFailed) as error:
            await process.kill()
            self._logged += 1
            if self._logged <= _LOGGED_MAX and not self._is_closed:
                logger.error(
                    *("The browser %s does not start: %s", self.limits.config.program),
                    str(error) or "it takes too long",
                )
            raise RenderFailed("start", str(error)) from error
        except BaseException:
            await process.kill()
            raise
        if self._is_closed:
            await process.kill()
            raise RenderFailed("crashed", "the crawl ends")
        return process

    def _rest(self, process: BrowserProcess) -> None:
        """Keep a browser for the next page, for a while."""
        self._idle.append(process)
        if self._ending is not None:
            self._ending.cancel()
        loop = asyncio.get_running_loop()
        self._ending = loop.call_later(self.limits.idle_s, self._end_idle)

    def _end_idle(self) -> None:
        while self._idle:
            # It goes on after this: `close` waits for all processes.
            self._idle.pop().kill()


class Ended(Exception):
    """Browser process that ended without an answer."""


class BrowserProcess:
    """Browser process with its folder. It has nothing to lose, so it is always ended by SIGKILL."""

    def __init__(self, process: subprocess.Process, folder: str) -> None:
        self._process = process
        self._folder = folder
        self.pages = 0
        self._errors = 0
        self.pid = process.pid
        self._self = process_of(process.pid)
        # What it had started when somebody last looked.
        self._below: list[Process] = []
        self.ended = asyncio.ensure_future(process.wait())
        # Done when nothing is left of it.
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ending: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, config: BrowserConfig) -> Self:
        """Start a process, which may not be `ready` yet."""
        pipe = asyncio.subprocess.PIPE
        # For the browser's profile, which one that is killed leaves behind.
        folder = await asyncio.to_thread(mkdtemp, prefix="browser-")
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-B", "-m", "crawler.rendering.worker"),
                *(config.to_argument(), folder),
                stdin=pipe,
                stdout=pipe,
                stderr=asyncio.subprocess.DEVNULL,
                env={**_environment(), "HOME": folder, "TMPDIR": folder},
                limit=_BUFFER_BYTES,
                # Ctrl-C is for the crawl.
                start_new_session=True,
            )
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return cls(process, folder)

    async def ready(self) -> None:
        """Wait until it takes pages; raises RenderFailed if it says why it does not."""
        said = await self._message()
        if isinstance(said, dict):
            found, _ = outcome_in(said)
            if isinstance(found, RenderFailed):
                raise found
        if said != READY:
            raise Garbage(f"{said!s:.300}")
        # Notes what it has started.
        await self.memory_bytes()

    async def render(
        self, job: RenderJob, fetch_part: FetchPart
    ) -> tuple[Rendered | RenderFailed, bool]:
        """Let it render a page; return what came of it, and whether that is its last one."""
        self.pages += 1
        self._send(job_message(job))
        parts: set[asyncio.Task[None]] = set()
        asked = 0
        try:
            while "part" in (message := await self._message()):
                number, part = part_in(message)
                asked += 1
                if len(parts) >= PARTS_AT_ONCE or asked > MAX_PARTS:
                    raise Garbage("a request for more parts than a page may have")
                task = asyncio.ensure_future(self._answer(number, part, fetch_part))
                parts.add(task)
                task.add_done_callback(parts.discard)
        finally:
            # The page has ended without them.
            for task in parts:
                task.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
        return outcome_in(message, job.url)

    async def _answer(self, number: int, part: Part, fetch_part: FetchPart) -> None:
        try:
            answer = await fetch_part(part)
        # Whatever goes wrong, it costs this part.
        except Exception:
            self._errors += 1
            if self._errors <= _LOGGED_MAX:
                logger.exception("%s is left out of its page", part.url)
            answer = "failed"
        self._send(answer_message(number, answer))

    def _send(self, message: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(packed(message))

    async def _message(self) -> Any:
        out = self._process.stdout
        assert out is not None
        try:
            size = SIZE.unpack(await out.readexactly(SIZE.size))[0]
            if size > MAX_MESSAGE_BYTES:
                raise Garbage(f"a message of {size} bytes")
            data = await out.readexactly(size)
        except asyncio.IncompleteReadError as error:
            raise Ended("the browser process ended") from error
        found = unpacked(data) if size <= _INLINE_BYTES else await asyncio.to_thread(unpacked, data)
        if not isinstance(found, dict | str):
            raise Garbage(f"{found!s:.300}")
        return found

    async def outgrows(self, most_bytes: int) -> None:
        """Return when the process and all that it started take more memory."""
        while True:
            await asyncio.sleep(_LOOK_S)
            if await self.memory_bytes() > most_bytes:
                return

    async def memory_bytes(self) -> int:
        """Return the memory of the process and of all that it started."""
        self._below = await asyncio.to_thread(below, self.pid)
        pids = [self.pid, *(process.pid for process in self._below)]
        return await asyncio.to_thread(memory_bytes, pids)

    def kill(self) -> asyncio.Future[None]:
        """End the process and all that it started; the future is done when nothing is left."""
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())
        # Whoever waits may be cancelled, this may not.
        return asyncio.shield(self.gone)

    async def _end(self) -> None:
        try:
            await asyncio.to_thread(self._clean_up)
            await self.ended
        finally:
            self.gone.set_result(None)

    def _clean_up(self) -> None:
        # The process itself ends last: should the crawl die meanwhile, it goes on with this.
        if process_of(self.pid) == self._self:
            end_below(self.pid)
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._self is not None:
            end_tree(self._self, self._below)
        # It may have begun something in between.
        shutil.rmtree(self._folder, ignore_errors=True)


# What a browser process keeps of the environment. The rest may have passwords of servers.
_KEPT = frozenset("PATH USER LANG LANGUAGE LC_ALL TZ LD_LIBRARY_PATH FONTCONFIG_PATH".split())


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in _KEPT}
    # Whatever the folder is in which the crawl was started.
    paths = (str(Path(__file__).parents[2]), *sys.path)
    return {**kept, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, paths))}
