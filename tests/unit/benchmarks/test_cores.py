"""The cores that the two sides of a measurement run on."""

import os
import subprocess
import sys

import pytest

from benchmarks.cores import Cores, pinned, running_on

_CHOOSES = hasattr(os, "sched_setaffinity")


def test_a_command_is_pinned_where_that_is_possible() -> None:
    assert pinned(("crawl",), "0") == ["taskset", "-c", "0", "crawl"]
    assert pinned(("crawl",), None) == ["crawl"]


def test_client_and_servers_have_no_core_in_common() -> None:
    cores = Cores.found()
    if cores.client is None:
        assert cores.servers is None
    else:
        assert cores.client not in (cores.servers or "").split(",")


@pytest.mark.skipif(not _CHOOSES, reason="this system does not let a process choose its cores")
def test_what_is_started_inside_the_block_runs_on_its_cores() -> None:
    before = os.sched_getaffinity(0)
    core = min(before)
    with running_on(str(core)):
        shown = subprocess.run(
            [sys.executable, "-c", "import os; print(*os.sched_getaffinity(0))"],
            capture_output=True,
            check=True,
        )
        assert os.sched_getaffinity(0) == {core}
    assert int(shown.stdout) == core
    assert os.sched_getaffinity(0) == before


def test_no_cores_are_no_change() -> None:
    before = os.sched_getaffinity(0)
    with running_on(None):
        assert os.sched_getaffinity(0) == before
