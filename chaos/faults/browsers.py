"""Browsers of crawlers are killed, in storms whose crawl renders pages."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Protocol

from chaos.faults import Cost, Fault
from crawler.rendering.processes import below
from tests.support.browser import PROGRAM

if TYPE_CHECKING:
    from chaos.storm import Storm

# Time for a browser to start, and between two looks.
_START_S, _LOOK_S = 5.0, 0.2


class _Process(Protocol):
    @property
    def pid(self) -> int: ...
    @property
    def running(self) -> bool: ...


def browsers_of(processes: Iterable[_Process]) -> list[int]:
    """Return the browsers of crawls, without the processes that they started themselves."""
    found = []
    for process in processes:
        for started in below(process.pid) if process.running else ():
            with suppress(OSError):
                command = Path(f"/proc/{started.pid}/cmdline").read_bytes()
                if b"--remote-debugging-pipe" in command and b"--type=" not in command:
                    found.append(started.pid)
    return found


def kill(storm: Storm, chance: Random) -> str:
    """End a browser of a crawler as a crash does, if it has one soon."""
    crawler = storm.choose(chance)
    for _ in range(round(_START_S / _LOOK_S)):
        if found := browsers_of([crawler]):
            with suppress(ProcessLookupError):
                os.kill(chance.choice(found), signal.SIGKILL)
            break
        storm.rest(_LOOK_S)
    return crawler.name


def missing() -> str:
    """Say what is missing."""
    return "" if PROGRAM else "no Chromium on PATH"


FAULTS = (
    Fault(
        "browser killed",
        "browsers",
        kill,
        # The document of the page that it had is fetched again.
        Cost(repeats=True),
        weight=10,
        is_of="browser",
        missing=missing,
    ),
)
