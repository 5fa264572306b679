"""Worker process: reads the files that come through standard input, one after the other.

It is started as `python -m crawler.reading.worker JOB`, imports a reader when the first file of its
type comes, and ends with its standard input. What it may do is limited before that: it has no
descriptors but its pipes, little memory, a low priority, and, unless the user has readers of their
own, it writes no file and starts no process. The system ends it when its crawl dies, and when a
file takes too long: even if the crawl cannot.
"""

from __future__ import annotations

import ctypes
import os
import re
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from crawler.parsing.document import Document, Unreadable, cut_text
from crawler.parsing.documents import read_document
from crawler.reading.messages import (
    READY,
    SIZE,
    Answer,
    Failed,
    Job,
    document_of,
    packed,
    packed_answer,
    unpacked,
)

if TYPE_CHECKING:
    from crawler.parsing.reader import DocumentReader

_DESCRIPTORS = 64
# The crawl ends a worker whose time is over. This much later the system does.
_LATE_S = 5.0
# A worker whose memory was once so much ends after its file: not all of it would come back.
_FAT_BYTES = 200_000_000
# Characters of the traceback of a user's reader that the log gets.
_ERROR_CHARS = 4000
_PEAK = re.compile(rb"^VmHWM:\s*(\d+) kB$", re.MULTILINE)
_PR_SET_PDEATHSIG = 1


def main(argument: str) -> None:
    """Read files until there are no more."""
    job = Job.from_argument(argument)
    incoming, outgoing = _take_pipes()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _go_on)
    greeting = READY
    try:
        _give_up_rights(job)
    except (OSError, ValueError, OverflowError) as error:
        # As in a sandbox that forbids it. The crawl ends a worker that says anything else.
        greeting = f"its limits cannot be set: {error}"
    outgoing.write(packed(greeting))
    outgoing.flush()
    while (head := _message(incoming)) is not None:
        media_type, url, nofollow = unpacked(head)
        body = _message(incoming)
        if body is None:
            return
        signal.setitimer(signal.ITIMER_REAL, job.timeout_s + _LATE_S)
        message, is_last = _answer(job, media_type, body, url, nofollow=nofollow)
        signal.setitimer(signal.ITIMER_REAL, 0)
        del head, body
        outgoing.write(message)
        outgoing.flush()
        if is_last:
            return


def _go_on(_number: int, _frame: object) -> None:
    """Handle a signal that is for the crawl, which ends its workers when their files are read.

    Supervisors such as systemd send it to all processes of a service. It is not ignored: programs
    that a user's reader starts would ignore it too.
    """


def _answer(
    job: Job, media_type: str, body: bytes, url: str, *, nofollow: bool
) -> tuple[bytes, bool]:
    """Return the message that answers a file, and whether it is the last one."""
    with suppress(MemoryError):
        answer = _read(job, media_type, body, url, nofollow=nofollow)
        is_last = _peak_bytes() > _FAT_BYTES
        return packed_answer(answer, is_last=is_last), is_last
    # What the reader had is free again, now that the error is gone with its frames.
    return packed_answer(Unreadable("memory"), is_last=True), True


def _read(job: Job, media_type: str, body: bytes, url: str, *, nofollow: bool) -> Answer:
    try:
        if job.pages is not None:
            return _read_page(job, media_type, body, url, nofollow=nofollow)
        if media_type in job.own:
            document = _read_by(_function(job.own[media_type]), body, url)
        else:
            document = read_document(media_type, body, url, limits=job.limits)
    except Unreadable as unreadable:
        return unreadable
    except MemoryError:
        raise
    # Whatever a reader of a user's raises, it costs one file.
    except Exception:  # noqa: BLE001
        return Failed(traceback.format_exc()[-_ERROR_CHARS:])
    document.media_type = document.media_type or media_type
    return document


def _read_by(function: Callable[[bytes, str], object], body: bytes, url: str) -> Document:
    found = function(body, url)
    if isinstance(found, Document):
        return document_of({name: getattr(found, name) for name in Document.__slots__})
    if not isinstance(found, dict):
        raise TypeError(f"it returned {found!r:.60}; return a Document, or a dict of its fields")
    return document_of(found)


def _read_page(job: Job, content_type: str, body: bytes, url: str, *, nofollow: bool) -> Document:
    reader = _page_reader(job.to_argument())
    page = reader.read(body, url, content_type=content_type, nofollow=nofollow)
    cut_text(page, job.limits.max_text_chars)
    return page


@cache
def _page_reader(job: str) -> DocumentReader:
    """Make the reader of pages when the first one comes."""
    from crawler.parsing.reader import ReaderOptions  # noqa: PLC0415 - not for documents

    pages = Job.from_argument(job).pages
    assert pages is not None
    return ReaderOptions.from_record(pages).reader()


def _function(path: str) -> Callable[[bytes, str], object]:
    module, _, name = path.rpartition(".")
    function: Callable[[bytes, str], object] = getattr(import_module(module), name)
    return function


def _message(incoming: BinaryIO) -> bytes | None:
    """Return the next message, or None if there are no more."""
    size = incoming.read(SIZE.size)
    if len(size) < SIZE.size:
        return None
    wanted = SIZE.unpack(size)[0]
    data = incoming.read(wanted)
    return data if len(data) == wanted else None


# --- rights ----------------------------------------------------------------------------------


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Take standard input and output away from the readers, which may print."""
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nothing, descriptor)
    os.close(nothing)
    return incoming, outgoing


def _give_up_rights(job: Job) -> None:
    if sys.platform == "linux":
        # Sent when the crawl dies, also while a file is read.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        with suppress(OSError):
            # If the system itself has no memory left, it is not the crawl that ends.
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    os.nice(job.nice)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, _DESCRIPTORS)
    _limit(resource.RLIMIT_DATA, job.memory_bytes)
    if not job.own:
        _limit(resource.RLIMIT_FSIZE, 0)
        _limit(resource.RLIMIT_NPROC, 0)


def _limit(kind: int, most: int) -> None:
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(kind, (most, most))


def _peak_bytes() -> int:
    """Return the most memory that this process ever had."""
    try:
        found = _PEAK.search(Path("/proc/self/status").read_bytes())
    except OSError:
        # On other systems. On Linux this may be the peak of the crawl, from which it was started.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return 1024 * int(found[1]) if found is not None else 0


if __name__ == "__main__":
    main(sys.argv[1])
    sys.stdout.flush()
    # Native libraries have nothing to clean up that the system does not.
    os._exit(0)
