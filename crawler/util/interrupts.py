"""Handle SIGINT and SIGTERM until an event loop does: one line, and one exit code.

While modules are imported, SIGTERM ends the process at once, since nothing is open yet, and SIGINT
raises KeyboardInterrupt as usual. A command that has something to clean up calls `unwind`, one that
starts a reactor calls `remember`.
"""

import asyncio
import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Container, Coroutine
from types import FrameType, TracebackType
from typing import Any, TypeVar

from crawler.errors import ExitCode

T = TypeVar("T")

_LINES = {signal.SIGINT: "stopped by Ctrl-C\n", signal.SIGTERM: "stopped by SIGTERM\n"}
# Set by the first signal. Modules written in C may drop an exception while they are imported.
_came = threading.Event()


def watch() -> None:
    """Handle both signals from now on, unless a handler is set already."""
    if threading.current_thread() is not threading.main_thread():
        return
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = show_in_one_line
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _note)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _exit)


def unwind() -> None:
    """Let the next signal raise KeyboardInterrupt, and the one after it end the process at once.

    Raises KeyboardInterrupt if a signal came already.
    """
    _replace({_note, _exit}, _raise_once)
    if _came.is_set():
        raise KeyboardInterrupt


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run this in an event loop of its own, after `unwind`; a signal cancels it.

    Python's handlers raise KeyboardInterrupt in the middle of any step, such as one that opens a
    connection. Here it is raised when the work has been cancelled.
    """
    ours = [number for number in _LINES if signal.getsignal(number) is _raise_once]

    async def cancellable() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        for number in ours:
            loop.add_signal_handler(number, _cancel, number, task)
        try:
            return await work
        except asyncio.CancelledError:
            if came():
                raise KeyboardInterrupt from None
            raise

    try:
        # With a factory: asyncio.run() would take the loop away from Scrapy's reactor.
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            return runner.run(cancellable())
    finally:
        for number in ours:
            signal.signal(number, _raise_once)


def remember() -> None:
    """Only note signals, for `came`, until another handler is set.

    For the start of Twisted's reactor, which logs exceptions and goes on.
    """
    _replace({_raise_once}, _remember)


def came() -> bool:
    """Return whether a signal came."""
    return _came.is_set()


def show_in_one_line(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    """Show KeyboardInterrupt as one line, all else as usual. For sys.excepthook."""
    if not issubclass(kind, KeyboardInterrupt) or hasattr(sys, "ps1"):
        sys.__excepthook__(kind, error, traceback)
        return
    sys.stderr.write(_LINES[signal.SIGINT])
    # Python would end itself by SIGINT, which is another exit code.
    atexit._run_exitfuncs()  # noqa: SLF001 - there is no public name for it
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ExitCode.INTERRUPTED)


def _replace(ours: Container[Any], handler: Callable[[int, FrameType | None], None]) -> None:
    for number in _LINES:
        if signal.getsignal(number) in ours:
            signal.signal(number, handler)


def _remember(_: int, __: FrameType | None) -> None:
    _came.set()


def _note(number: int, frame: FrameType | None) -> None:
    _came.set()
    signal.default_int_handler(number, frame)


def _raise_once(number: int, frame: FrameType | None) -> None:
    if _came.is_set():
        _exit(number)
    _note(number, frame)


def _cancel(number: int, task: asyncio.Task[Any]) -> None:
    if _came.is_set():
        _exit(number)
    _came.set()
    task.cancel()


def _exit(number: int, _: FrameType | None = None) -> None:
    # Not through Python's buffers: the signal may have come during a write.
    os.write(2, _LINES[signal.Signals(number)].encode())
    os._exit(ExitCode.INTERRUPTED)
