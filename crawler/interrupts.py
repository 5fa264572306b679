"""Ctrl-C while a command loads its modules: none is lost, and each is told in one line.

Modules that are written in C may drop an exception that reaches them while they are loaded.
"""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType, TracebackType

_came = threading.Event()


def watch() -> None:
    """Remember Ctrl-C from now on, where Python alone would handle it."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _note)


def check() -> None:
    """Raise KeyboardInterrupt once more if one came and nobody ended for it."""
    if _came.is_set():
        raise KeyboardInterrupt


def tell_in_one_line(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    """For sys.excepthook: all but KeyboardInterrupt are shown as ever."""
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write("stopped by Ctrl-C\n")
    else:
        sys.__excepthook__(kind, error, traceback)


def _note(number: int, frame: FrameType | None) -> None:
    _came.set()
    signal.default_int_handler(number, frame)
