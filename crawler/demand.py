"""What a workbench asks of its surroundings: room for work, and a look outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Demand:
    """What the workbench asks of its surroundings."""

    # How many fetches could start now; None when this process is closing.
    room: Callable[[], int | None]
    # Tell the engine that leases are ready, or that the crawl is over.
    wake: Callable[[], None]
    # Take in seeds and URLs that wait outside the frontier; says how many there were.
    look_outside: Callable[[], Awaitable[int]]
    # Are seeds still being read? An empty frontier says nothing then.
    starting: Callable[[], bool] = lambda: False
