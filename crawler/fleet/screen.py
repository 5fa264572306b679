"""Where a fleet speaks to people: a live view on a terminal, else a line every few seconds."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from rich.console import Console
from rich.live import Live

from crawler import logs
from crawler.fleet.view import FleetView, live_view, plain_line
from crawler.tasks import end

_LIVE_S = 1.0


class Screen:
    """`mode` is a value of PROGRESS. Standard error: standard output is for results."""

    def __init__(self, mode: str, interval_s: float) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._shows = mode != "off"
        self._interval_s = interval_s
        self._live: Live | None = None
        wants_live = mode == "live" or (mode == "auto" and self._console.is_terminal)
        if wants_live and not logs.is_json():
            self._live = Live(console=self._console, auto_refresh=False, transient=True)

    def say(self, text: str) -> None:
        """Print news, above the live view if there is one."""
        if logs.is_json():
            sys.stderr.write(logs.line(text) + "\n")
        else:
            self._console.print(text, soft_wrap=True, markup=False)

    @asynccontextmanager
    async def showing(self, view: Callable[[], Awaitable[FleetView]]) -> AsyncIterator[None]:
        """Show how things are, again and again, inside the block."""
        if not self._shows:
            yield
            return
        if self._live is not None:
            self._live.start()
        task = asyncio.get_running_loop().create_task(self._show_forever(view))
        try:
            yield
        finally:
            await end(task)
            if self._live is not None:
                self._live.stop()

    async def _show_forever(self, view: Callable[[], Awaitable[FleetView]]) -> None:
        while True:
            if self._live is not None:
                self._live.update(live_view(await view()), refresh=True)
                await asyncio.sleep(_LIVE_S)
            else:
                await asyncio.sleep(self._interval_s)
                self.say(plain_line(await view()))
