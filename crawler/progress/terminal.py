"""Keep the live view at the bottom of the terminal while log lines scroll above it."""

from __future__ import annotations

import atexit
import logging
import sys
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live
from scrapy.utils.log import get_scrapy_root_handler

from crawler import logs


class Terminal:
    """Owns standard error from `start` to `stop`: all that is written there goes above the view."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        # Refreshed by its owner's task: a thread would draw while the process is busy.
        self._live = Live(console=self.console, auto_refresh=False, transient=True)
        self._handler: logging.StreamHandler[Any] | None = None
        self._stream: Any = None

    def start(self) -> None:
        self._live.start()
        # A process that is forced to end must give the cursor back.
        atexit.register(self.stop)
        handler = get_scrapy_root_handler() or logs.root_handler()
        if isinstance(handler, logging.StreamHandler) and not isinstance(
            handler, logging.FileHandler
        ):
            # The handler keeps the stream it was made with; rich has put its own in place.
            self._handler, self._stream = handler, handler.stream
            handler.setStream(sys.stderr)

    def show(self, view: RenderableType) -> None:
        self._live.update(view, refresh=True)

    def stop(self) -> None:
        """Remove the view. May be repeated."""
        atexit.unregister(self.stop)
        if self._handler is not None:
            self._handler.setStream(self._stream)
            self._handler = None
        self._live.stop()
