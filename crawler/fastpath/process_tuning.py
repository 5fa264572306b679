"""Set the process up for pages that come and go: the garbage collector and the C allocator.

A page makes thousands of objects and frees nearly all of them by itself. With Python's and glibc's
defaults a tenth of a crawl's CPU time goes into looking for cycles among objects that live as long
as the process, and into giving memory back to the system that the next page asks for again.
"""

from __future__ import annotations

import ctypes
import gc
from functools import cache

# Objects made since the last look for cycles: some 50 pages, which bounds what cycles can hold.
_YOUNG, _MIDDLE, _OLD = 50_000, 20, 20
# Numbers that glibc has for these options.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
# Free memory at the end of the heap that is kept, and size from which on a block is mapped on its
# own, so that it is given back at once: pages are smaller, the few large bodies need not stay.
_KEPT_BYTES = 64 * 1024 * 1024
_MAPPED_BYTES = 4 * 1024 * 1024


@cache
def keep_memory() -> bool:
    """Let the allocator keep what a page freed for the next one; False where it is not glibc's."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    kept = mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
    return bool(kept and mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES))


@cache
def look_for_cycles_less() -> None:
    """Leave out of the search for cycles what is there when the crawl begins, and search later.

    Once a process: a program may run many crawls. There is no search before it, of which imports
    leave next to nothing to find, and which would take 90 ms.
    """
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
