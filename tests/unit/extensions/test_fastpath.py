"""The process is set up for pages that come and go."""

import gc
import subprocess
import sys

from crawler.extensions import fastpath


def test_what_is_there_at_the_start_is_left_out_of_the_search_for_cycles() -> None:
    # In a process of its own: it would change the garbage collector of the tests.
    program = (
        "import gc\n"
        "from crawler.extensions import fastpath\n"
        "fastpath.collect_less()\n"
        "assert gc.isenabled()\n"
        "assert gc.get_freeze_count() > 1000\n"
        "assert gc.get_threshold()[0] > 10_000\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_allocator_is_told_where_it_can_be() -> None:
    assert fastpath.keep_memory() in (True, False)
    assert gc.isenabled()
