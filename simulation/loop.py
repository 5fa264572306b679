"""Event loop of a simulated fleet: time never passes by waiting, and a seed chooses who goes on.

All processes of a fleet live in one loop. A process is what its tasks inherit in their context, so
each callback and timer is known to be of one process, or of the world around them: the way to
Redis, web servers, faults.

As in asyncio, the callbacks of one process run in the order in which they came. Processes do not
wait for each other: which of those that are ready goes on is drawn from the seed. When none is
ready, the time of the next timer begins.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from itertools import count
from typing import Any, TypeVar

T = TypeVar("T")


class Lane:
    """Callbacks of one process that are ready; none of them runs while it is stopped or dead."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ready: deque[asyncio.Handle] = deque()
        self.stopped = False
        self.dead = False
        # Callbacks until it is killed; None: it is not about to be.
        self.fuse: int | None = None
        self.context = copy_context()


_LANE: ContextVar[Lane] = ContextVar("lane")


class Stuck(Exception):
    """Schedule that does not come to an end."""


class _Event:
    """Callback of the world, in the place of a handle: most of all that happens, and cheap."""

    __slots__ = ("_run",)
    _cancelled = False

    def __init__(self, callback: Callable[[], Any]) -> None:
        self._run = callback


class _Handle(asyncio.TimerHandle):
    """Handle that is made in half the time: nobody debugs this loop."""

    def __init__(
        self,
        when: float,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        loop: VirtualLoop,
        context: Context,
    ) -> None:
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._loop = loop
        self._context = context
        self._source_traceback = None
        self._repr = None
        self._when = when
        self._scheduled = True


class VirtualLoop(asyncio.AbstractEventLoop):
    """Event loop with a clock of its own, which starts at `starts_s`."""

    def __init__(self, seed: str, *, starts_s: float = 0.0) -> None:
        self._time = self._starts_s = starts_s
        self._chance = random.Random(seed)
        self._timers: list[tuple[float, int, asyncio.TimerHandle, Lane]] = []
        self._numbers = count()
        self._is_closed = False
        self._is_finished = False
        self.world = Lane("world")
        self.world.context.run(_LANE.set, self.world)
        self._lanes = [self.world]
        # Errors of callbacks and of tasks that nobody awaited.
        self.errors: list[dict[str, Any]] = []
        self.on_death: Callable[[Lane], None] = lambda _: None
        self.tasks: dict[asyncio.Task[Any], None] = {}

    # --- processes -----------------------------------------------------------------------------

    def lane(self, name: str) -> Lane:
        """Return the lane of a new process."""
        lane = Lane(name)
        lane.context.run(_LANE.set, lane)
        self._lanes.append(lane)
        return lane

    def start(self, lane: Lane, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine as a task of a process."""
        return self.create_task(work, context=lane.context.copy())

    def kill(self, lane: Lane) -> None:
        """End a process as SIGKILL does: nothing of it runs any more, not even to clean up."""
        lane.dead = True
        lane.ready.clear()
        self._lanes.remove(lane)
        self.on_death(lane)

    def at(self, at_s: float, callback: Callable[[], Any]) -> None:
        """Let something happen in the world at this time."""
        handle: Any = _Event(callback)
        heapq.heappush(self._timers, (at_s, next(self._numbers), handle, self.world))

    # --- running -------------------------------------------------------------------------------

    def run(self, until_s: float) -> None:
        """Run until `finish` is called; Stuck if that is not by this time."""
        self._is_finished = False
        asyncio._set_running_loop(self)
        try:
            while not self._is_finished:
                if not self._step() and not self._advance():
                    raise Stuck("nothing is left to run")
                if self._time > until_s:
                    raise Stuck(f"it does not end within {until_s - self._starts_s:.0f} s")
        finally:
            asyncio._set_running_loop(None)

    def finish(self) -> None:
        """Let `run` return."""
        self._is_finished = True

    def _step(self) -> bool:
        """Run a callback that is ready; return False if none is."""
        ready = [lane for lane in self._lanes if lane.ready and not lane.stopped]
        if not ready:
            return False
        lane = ready[0] if len(ready) == 1 else self._chance.choice(ready)
        if lane.fuse is not None:
            lane.fuse -= 1
            if lane.fuse < 0:
                self.kill(lane)
                return True
        handle = lane.ready.popleft()
        if not handle._cancelled:
            handle._run()
        return True

    def _advance(self) -> bool:
        """Begin the time of the next timer; return False if there is none."""
        timers, now_s = self._timers, None
        while timers and (now_s is None or timers[0][0] <= now_s):
            when, _, handle, lane = heapq.heappop(timers)
            if handle._cancelled or lane.dead:
                continue
            if now_s is None:
                now_s = self._time = max(self._time, when)
            lane.ready.append(handle)
        return now_s is not None

    def close(self) -> None:
        """End all tasks. What they do at their end reaches nobody."""
        self._is_closed = True
        for task in self.tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with suppress(BaseException):
                    task.get_coro().close()  # type: ignore[union-attr]
        self.tasks.clear()
        self._timers.clear()
        for lane in self._lanes:
            lane.ready.clear()

    # --- what asyncio asks of a loop -----------------------------------------------------------

    def time(self) -> float:
        return self._time

    def call_soon(
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        context = context if context is not None else copy_context()
        handle = _Handle(self._time, callback, args, self, context)
        lane = context.get(_LANE, self.world)
        if not self._is_closed and not lane.dead:
            lane.ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[..., Any],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._time + max(0.0, delay), callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., Any],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        context = context if context is not None else copy_context()
        handle = _Handle(when, callback, args, self, context)
        if not self._is_closed:
            lane = context.get(_LANE, self.world)
            heapq.heappush(self._timers, (when, next(self._numbers), handle, lane))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a timer that is cancelled is skipped when its time has come."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Any, *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        # asyncio refers to tasks weakly; those of a dead process must not be collected.
        self.tasks[task] = None
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Call it now: threads would not wait for the seed."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - its caller gets it
            future.set_exception(error)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._is_closed:
            self.errors.append(context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._is_closed

    def is_closed(self) -> bool:
        return self._is_closed
