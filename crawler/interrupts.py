"""End a command in one line at Ctrl-C while it loads its modules, where nothing catches it."""

from __future__ import annotations

import sys
from types import TracebackType


def tell_in_one_line(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    """For sys.excepthook: all but KeyboardInterrupt are shown as ever."""
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write("stopped by Ctrl-C before it began\n")
    else:
        sys.__excepthook__(kind, error, traceback)
