"""Switch on the fast path (fastpath/), which spends less CPU time on a page.

docs/performance.md says what each measure saves. Also tunes the garbage collector and the C
allocator for pages that come and go: a page makes thousands of objects, and reference counts free
nearly all of them. With the defaults of Python and glibc a tenth of a crawl's CPU time goes into
searching long-lived objects for cycles, and into returning memory to the system that the next page
needs again.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from functools import cache
from typing import TYPE_CHECKING, Self

from scrapy import signals

from crawler.fastpath import event_loop, middleware_chains
from crawler.fastpath.request_task import RequestTasks
from crawler.fastpath.signals import QuickSignals
from crawler.scheduling.engine import Engine

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

# Collections start after so many new objects, some 50 pages: this bounds what cycles can hold.
_YOUNG, _MIDDLE, _OLD = 50_000, 20, 20
# glibc's numbers of these options of mallopt().
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
# Free memory that is kept at the end of the heap. Blocks above the second size are mapped on their
# own and returned at once: most pages are smaller, and the few large bodies need not stay.
_KEPT_BYTES = 64 * 1024 * 1024
_MAPPED_BYTES = 4 * 1024 * 1024


@cache
def keep_memory() -> bool:
    """Let the allocator keep memory that a page freed; False if the allocator is not glibc's."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    kept = mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
    return bool(kept and mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES))


@cache
def collect_less() -> None:
    """Collect garbage less often, and leave out objects that exist at the start of the crawl.

    Done once in a process, which may run many crawls. There is no collection before it: imports
    leave next to nothing to collect, and it would take 90 ms.
    """
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)


class FastPath:
    """Extension that switches on the fast path; it is loaded before the other extensions."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        fast_path = cls(crawler)
        QuickSignals.take_over(crawler.signals)
        keep_memory()
        crawler.signals.connect(fast_path.engine_started, signals.engine_started)
        return fast_path

    def engine_started(self) -> None:
        RequestTasks.take_over(self._crawler)
        Engine.take_outputs_in_turn(self._crawler)
        middleware_chains.take_over(self._crawler)
        event_loop.take_over(asyncio.get_running_loop())
        collect_less()
