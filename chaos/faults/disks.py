"""Disks without room, and files that may not grow.

Where a file system can be mounted, the folders of archives, spools and crawls are on small ones of
their own, of which some are full for a while. A limit on the size of files does the same to all
files of one crawler, its log included.
"""

from __future__ import annotations

import resource
import tempfile
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from chaos.faults import Cost, Fault
from tests.support.full_disk import SmallDisk

if TYPE_CHECKING:
    from chaos.storm import Storm

_OWN: Final = "disks"
_FOLDERS: Final = ("archive", "spool", "crawl")
_LONGEST_S: Final = 8.0
# A line of its log may be missing meanwhile, so this is short.
_LIMITED_S: Final = 3.0


def _missing() -> str:
    with tempfile.TemporaryDirectory() as folder:
        return SmallDisk.missing(Path(folder))


def _prepare(storm: Storm) -> None:
    storm.own[_OWN] = [
        storm.stack.enter_context(SmallDisk(storm.folder / name)) for name in _FOLDERS
    ]


def fill(storm: Storm, chance: Random) -> str:
    """Leave no room on some disks."""
    disks: list[SmallDisk] = chance.sample(storm.own[_OWN], chance.randint(1, len(_FOLDERS)))
    try:
        for disk in disks:
            disk.fill()
        storm.rest(chance.uniform(0.5, _LONGEST_S))
    finally:
        for disk in disks:
            disk.clear()
    return f"disks: {' '.join(disk.folder.name for disk in disks)}"


def limit_files(storm: Storm, chance: Random) -> str:
    """Let no file of a crawler grow."""
    crawler = storm.choose(chance)
    # It may end meanwhile.
    with suppress(ProcessLookupError):
        _, most = limits = resource.prlimit(crawler.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(crawler.pid, resource.RLIMIT_FSIZE, (0, most))
        try:
            storm.rest(chance.uniform(0.5, _LIMITED_S))
        finally:
            resource.prlimit(crawler.pid, resource.RLIMIT_FSIZE, limits)
    return crawler.name


FAULTS = (
    Fault("disk full", "disks", fill, Cost(), prepare=_prepare, missing=_missing),
    Fault("files may not grow", "limits", limit_files, Cost(), weight=0.5),
)
