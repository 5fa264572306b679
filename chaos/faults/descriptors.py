"""Crawlers without file descriptors."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from chaos.faults import Cost, Fault

if TYPE_CHECKING:
    from chaos.storm import Storm

_LONGEST_S: Final = 6.0
_BEGUN: Final = b"Spider opened"
_LOOKS, _LOOK_S = 40, 0.25


def _prepare(storm: Storm) -> None:
    # Otherwise all hosts of a small web have a connection that is kept.
    storm.settings["DOWNLOAD_KEEPALIVE_HOSTS"] = 4


def exhaust(storm: Storm, chance: Random) -> str:
    """Let a crawler open nothing new: no connection, no file."""
    crawler = storm.choose(chance)
    # Python itself needs files to begin: a program that cannot be loaded is no crawler yet.
    for _ in range(_LOOKS):
        if _BEGUN in crawler.log_path.read_bytes():
            break
        storm.rest(_LOOK_S)
    else:
        return f"{crawler.name}, which had not begun"
    # It may end meanwhile.
    with suppress(ProcessLookupError, FileNotFoundError):
        open_now = len(list(Path(f"/proc/{crawler.pid}/fd").iterdir()))
        _, most = limits = resource.prlimit(crawler.pid, resource.RLIMIT_NOFILE)
        # Below what is open: nothing that closes makes room, either.
        left = max(1, int(open_now * chance.choice((0.5, 0.9, 1.0))))
        resource.prlimit(crawler.pid, resource.RLIMIT_NOFILE, (left, most))
        try:
            storm.rest(chance.uniform(0.5, _LONGEST_S))
        finally:
            resource.prlimit(crawler.pid, resource.RLIMIT_NOFILE, limits)
    return crawler.name


def _missing() -> str:
    return "" if Path("/proc/self/fd").is_dir() else "no /proc"


FAULTS = (
    Fault("no descriptors left", "limits", exhaust, Cost(), prepare=_prepare, missing=_missing),
)
