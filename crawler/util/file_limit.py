"""The limit on open files: what a crawl needs of it, and what fits into less.

Each fetch takes a file descriptor for its connection and for a moment one for its name, each
connection that is kept takes one.
"""

from __future__ import annotations

import errno
import logging
import resource
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy.exceptions import (
    DownloadFailedError,
)

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)


# Beside those of fetches: logs, servers' connections, the interpreter's own. As many as there may
# be, and as many as there are at least.
_OTHER_FILES = 150
_OTHER_FILES_MIN = 48
# Of this process, of this machine, and memory of its network.
_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS})
_SHORTAGE_TEXTS = tuple(f"[Errno {number}]" for number in _SHORTAGES)


@dataclass(frozen=True, slots=True)
class Connections:
    """The connections of a process: fetches at a time, and hosts whose connection is kept."""

    fetches: int
    kept: int

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Connections:
        return cls(
            settings.getint("CONCURRENT_REQUESTS"), settings.getint("DOWNLOAD_KEEPALIVE_HOSTS")
        )

    @property
    def files(self) -> int:
        """How many open files a crawl with these needs."""
        return 2 * self.fetches + self.kept + _OTHER_FILES

    def within(self, limit: int) -> Connections:
        """As many of them as this limit on open files has room for, and at least one fetch."""
        if limit >= self.files:
            return self
        room = max(0, limit - _OTHER_FILES_MIN)
        kept = min(self.kept, room // 3)
        return Connections(max(1, min(self.fetches, (room - kept) // 2)), kept)


def limits() -> tuple[int, int]:
    """The limit on open files that holds for this process, and the one it may raise it to."""
    limit, most = (
        sys.maxsize if each == resource.RLIM_INFINITY else each
        for each in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    return limit, most


def prepare(settings: BaseSettings) -> Connections:
    """Raise the limit to what a crawl needs, and say so if that is not allowed; what fits."""
    wanted = Connections.from_settings(settings)
    limit, most = limits()
    needed = min(wanted.files, most)
    if limit < needed:
        try:
            resource.setrlimit(
                resource.RLIMIT_NOFILE, (needed, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
            )
        except (OSError, ValueError) as error:
            logger.debug("The limit on open files stays %d: %s", limit, error)
        else:
            limit = needed
    fitting = wanted.within(limit)
    if fitting != wanted:
        logger.warning(
            "Only %d files may be open and %d are needed: %d fetches run at a time instead of "
            "CONCURRENT_REQUESTS=%d. %s",
            *(limit, wanted.files, fitting.fetches, wanted.fetches, advice(wanted.files)),
        )
    return fitting


def advice(needed: int) -> str:
    """What to do about a limit that is too low."""
    return (
        f"Run `ulimit -n {max(needed, 65_536)}` before the crawl (systemd: LimitNOFILE), or lower "
        "CONCURRENT_REQUESTS or DOWNLOAD_KEEPALIVE_HOSTS."
    )


def is_shortage(error: BaseException) -> bool:
    """Has this process no file descriptor or buffer left? Then no host is to blame."""
    if not isinstance(error, OSError):
        return False
    # Those of several addresses may be one error, which has no number.
    return error.errno in _SHORTAGES or (
        error.errno is None and any(text in str(error) for text in _SHORTAGE_TEXTS)
    )


class OutOfSockets(DownloadFailedError):
    """This process has no file descriptor left for a connection; the host was not contacted."""
