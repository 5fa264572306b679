"""Disks without room: a file system of a few bytes, where one may be mounted, or a limit of files.

disk.fill()      nothing more can be written
disk.clear()     there is room again
"""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# More than any test or storm writes; a tmpfs takes memory only for what is in it.
_ROOM = "4g"


class SmallDisk:
    """Context manager: a file system in memory at an empty folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @staticmethod
    def missing(folder: Path) -> str:
        """Return why none can be mounted at an existing folder; empty if one can."""
        disk = SmallDisk(folder)
        try:
            with disk:
                return ""
        except OSError as error:
            return f"no file system can be mounted: {error}"

    def fill(self) -> None:
        """Leave no room, whatever is in it."""
        status = os.statvfs(self.folder)
        used_bytes = (status.f_blocks - status.f_bfree) * status.f_bsize
        # No size is no limit.
        self._mount(f"remount,size={max(used_bytes, status.f_bsize)}")

    def clear(self) -> None:
        """Give it room again."""
        self._mount(f"remount,size={_ROOM}")

    def _mount(self, options: str) -> None:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(done.stderr.strip())

    def __enter__(self) -> SmallDisk:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._mount(f"size={_ROOM}")
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "--lazy", self.folder], check=True)


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """Let no file of this process grow beyond that, as on a full disk."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
