"""End a process whose end hangs, and say where.

When the spider is closed, all that matters is safe. What is left (closing connections, joining
threads) must not keep the process for ever: whoever started it waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from io import StringIO
from threading import Timer
from traceback import format_stack

from crawler import logs
from crawler.policy.exit_codes import ExitCode


def within(
    seconds: float,
    loop: asyncio.AbstractEventLoop | None = None,
    *,
    code: int = ExitCode.FAILED,
) -> Timer:
    """Give the process so long; then its stacks are printed and it ends with this exit code."""
    # A daemon: it runs while the interpreter waits for other threads, and is not waited for.
    timer = Timer(seconds, _leave, (seconds, loop, code))
    timer.daemon = True
    timer.start()
    return timer


def _leave(seconds: float, loop: asyncio.AbstractEventLoop | None, code: int) -> None:
    try:
        _tell(seconds, loop)
    finally:
        # Whether or not that was possible: tasks may change meanwhile, standard error be closed.
        os._exit(code)


def _tell(seconds: float, loop: asyncio.AbstractEventLoop | None) -> None:
    out = sys.__stderr__
    if out is None:
        return
    text = (
        f"The crawl is over and safe, but the process did not end within {seconds:g} s; "
        "it is ended now. What it waited for:"
    )
    stacks = StringIO()
    for task in asyncio.all_tasks(loop) if loop is not None else ():
        task.print_stack(file=stacks)
    for frame in sys._current_frames().values():  # noqa: SLF001 - there is no other way
        stacks.write("Thread:\n" + "".join(format_stack(frame)))
    print(logs.line(f"{text}\n{stacks.getvalue()}", level=logging.ERROR), file=out, flush=True)
