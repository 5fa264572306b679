"""Standard error of a crawl or a fleet: a live view, or a plain line every few seconds."""

from __future__ import annotations

import asyncio
import atexit
import logging
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text
from scrapy.utils.log import get_scrapy_root_handler

from crawler.errors import ConfigurationError
from crawler.monitoring import logs
from crawler.monitoring.console.view import Snapshot, live_view, plain_line
from crawler.util.tasks import end

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

_MODES = ("auto", "live", "plain", "off")
_LIVE_INTERVAL_S = 1.0


class Screen:
    """Standard error; standard output is for results.

    In `mode` "live" the view stays below all that is written, in "plain" each line goes to `log`
    (by default it is printed), in "off" nothing is shown but what `say` prints.
    """

    def __init__(
        self,
        mode: str,
        interval_s: float,
        *,
        log: Callable[[str], None] | None = None,
        console: Console | None = None,
    ) -> None:
        self.mode = mode
        self._interval_s = _LIVE_INTERVAL_S if mode == "live" else interval_s
        self._log = log or self.say
        self._console = console or Console(stderr=True, highlight=False, no_color=mode != "live")
        # Refreshed by our own task: a thread would draw while the process is busy.
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._task: asyncio.Task[None] | None = None
        self._handler: logging.StreamHandler[Any] | None = None
        self._stream: Any = None

    @classmethod
    def from_settings(
        cls, settings: BaseSettings, log: Callable[[str], None] | None = None
    ) -> Self:
        """Read PROGRESS and PROGRESS_INTERVAL; with LOG_JSON there is no live view."""
        mode, interval_s = settings["PROGRESS"], settings.getfloat("PROGRESS_INTERVAL")
        if mode not in _MODES:
            raise ConfigurationError(f"PROGRESS is {mode!r}; use one of {', '.join(_MODES)}.")
        if interval_s <= 0:
            raise ConfigurationError(
                f"PROGRESS_INTERVAL is {interval_s:g}; give seconds above 0, or set PROGRESS=off."
            )
        if mode == "auto":
            mode = "live" if sys.stderr.isatty() else "plain"
        if mode == "live" and settings.getbool("LOG_JSON"):
            mode = "plain"
        return cls(mode, interval_s, log=log)

    def say(self, text: str | Text, figures: dict[str, Any] | None = None) -> None:
        """Print a text, above the live view if there is one; with LOG_JSON as a line of JSON."""
        if logs.is_json():
            plain = text if isinstance(text, str) else text.plain.strip("\n")
            sys.stderr.write(logs.line(plain, figures=figures) + "\n")
        else:
            self._console.print(text, soft_wrap=True, markup=False)

    def start(self, read: Callable[[], Awaitable[Snapshot]]) -> None:
        """Show what `read` returns, again and again."""
        if self.mode == "off":
            return
        if self.mode == "live":
            self._take_terminal()
        self._task = asyncio.get_running_loop().create_task(self._show_forever(read))

    async def stop(self) -> None:
        """Stop showing, and remove the view."""
        if self._task is not None:
            await end(self._task)
        self._leave_terminal()

    async def _show_forever(self, read: Callable[[], Awaitable[Snapshot]]) -> None:
        has_failed = False
        if self.mode == "plain":
            await asyncio.sleep(self._interval_s)
        while True:
            try:
                snapshot = await read()
                if self.mode == "live":
                    # The terminal shows ^C where the cursor is. At the end of a full line that
                    # would begin another one, and the view would leave its border behind.
                    self._live.update(Group(live_view(snapshot), ""), refresh=True)
                else:
                    self._log(plain_line(snapshot))
            except Exception:
                # No error may end the view. Logging it once is enough.
                if not has_failed:
                    logger.exception("The progress could not be shown; trying again each time")
                has_failed = True
            await asyncio.sleep(self._interval_s)

    def _take_terminal(self) -> None:
        self._live.start()
        # A process that is forced to end must give the cursor back.
        atexit.register(self._leave_terminal)
        handler = get_scrapy_root_handler() or logs.root_handler()
        if isinstance(handler, logging.StreamHandler) and not isinstance(
            handler, logging.FileHandler
        ):
            # The handler keeps the stream that it was made with; rich has put its own in place.
            self._handler, self._stream = handler, handler.stream
            handler.setStream(sys.stderr)

    def _leave_terminal(self) -> None:
        atexit.unregister(self._leave_terminal)
        if self._handler is not None:
            self._handler.setStream(self._stream)
            self._handler = None
        self._live.stop()
