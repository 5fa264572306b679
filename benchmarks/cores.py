"""Which cores the two sides of a measurement run on, where the system lets us choose.

Left alone, the system moves them: two processes that wait for each other are up to three times as
fast on one core, where neither has to wake the other's, and a measurement would depend on luck.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cores:
    """Which cores whom; both None where there is no way, or no second core, to separate them."""

    client: str | None
    servers: str | None

    @classmethod
    def found(cls) -> Cores:
        """The first core for the client, all others for the servers."""
        if shutil.which("taskset") is None or not hasattr(os, "sched_getaffinity"):
            return cls(None, None)
        first, *others = sorted(os.sched_getaffinity(0))
        return cls(str(first), ",".join(map(str, others))) if others else cls(None, None)


def pinned(command: Sequence[str], cores: str | None) -> list[str]:
    """The command, run on these cores."""
    return list(command) if cores is None else ["taskset", "-c", cores, *command]


@contextmanager
def running_on(cores: str | None) -> Iterator[None]:
    """Keep this process, and what it starts, on these cores inside the block."""
    if cores is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
