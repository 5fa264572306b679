"""The limit on open files: how many a crawl needs, and what it does with less.

Each fetch needs a file descriptor for its connection and, for a moment, one for DNS. Each idle
connection that is kept needs one.
"""

from __future__ import annotations

import errno
import logging
import resource
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy.exceptions import DownloadFailedError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

# Other files: logs, connections to servers, those of the interpreter. At most, and at least.
_OTHER_FILES = 150
_OTHER_FILES_MIN = 48
# No file left for this process, for this machine, or no memory for its network.
_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS})
_SHORTAGE_TEXTS = tuple(f"[Errno {number}]" for number in _SHORTAGES)


@dataclass(frozen=True, slots=True)
class Connections:
    """Connections of a process: concurrent fetches, and hosts whose connection is kept."""

    fetches: int
    kept: int

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Connections:
        return cls(
            settings.getint("CONCURRENT_REQUESTS"), settings.getint("DOWNLOAD_KEEPALIVE_HOSTS")
        )

    @property
    def files(self) -> int:
        """Open files that a crawl with these connections needs."""
        return 2 * self.fetches + self.kept + _OTHER_FILES

    def within(self, limit: int) -> Connections:
        """Return as many of them as fit into this limit on open files, and at least one fetch."""
        if limit >= self.files:
            return self
        room = max(0, limit - _OTHER_FILES_MIN)
        kept = min(self.kept, room // 3)
        fetches = max(1, min(self.fetches, (room - kept) // 2))
        left = limit - _OTHER_FILES - 2 * fetches
        return Connections(fetches, min(self.kept, max(kept, left)))


def limits() -> tuple[int, int]:
    """Return the limit on open files of this process, and the one that it may raise it to."""
    limit, most = (
        sys.maxsize if each == resource.RLIM_INFINITY else each
        for each in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    return limit, most


def prepare(settings: BaseSettings) -> Connections:
    """Raise the limit to what a crawl needs; return the connections that fit, with a warning."""
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
    if fitting.fetches < wanted.fetches:
        logger.warning(
            "Only %d files may be open and %d are needed: %d fetches run at a time instead of "
            "CONCURRENT_REQUESTS=%d. %s",
            *(limit, wanted.files, fitting.fetches, wanted.fetches, advice(wanted.files)),
        )
    return fitting


def advice(needed: int) -> str:
    """Return what to do about a limit that is too low."""
    return (
        f"Run `ulimit -n {max(needed, 65_536)}` before the crawl (systemd: LimitNOFILE), or lower "
        "CONCURRENT_REQUESTS or DOWNLOAD_KEEPALIVE_HOSTS."
    )


def is_shortage(error: BaseException) -> bool:
    """Does this error mean that no file descriptor or buffer is left? No host is to blame."""
    if not isinstance(error, OSError):
        return False
    # Errors of several addresses may be joined into one, which has no number.
    return error.errno in _SHORTAGES or (
        error.errno is None and any(text in str(error) for text in _SHORTAGE_TEXTS)
    )


class OutOfSockets(DownloadFailedError):
    """Error of a fetch for which no file descriptor was left; the host was not contacted."""
