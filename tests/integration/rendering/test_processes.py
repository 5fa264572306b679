"""Processes below one are found by their parents, and ended wherever they have gone."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from crawler.rendering.processes import (
    Process,
    below,
    end_below,
    end_tree,
    memory_bytes,
    process_of,
)
from tests.integration.rendering.conftest import are_gone
from tests.support.waiting import wait_until

# Keeps its orphans, as a browser process does. Its children have sessions of their own, and one of
# them an orphan, whose parent has ended.
PARENT = """
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1)
sleep = [sys.executable, "-c", "print(flush=True); import time; time.sleep(1000)"]
child = subprocess.Popen(sleep, start_new_session=True, stdout=subprocess.PIPE)
child.stdout.readline()
orphans = ["sh", "-c", "sleep 1000 & sleep 1000 & exit"]
subprocess.Popen(orphans, start_new_session=True, stdout=subprocess.DEVNULL).wait()
memory = b"x" * 50_000_000
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[str]]:
    if sys.platform != "linux":
        pytest.skip("processes are found by /proc")
    pipe = subprocess.PIPE
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdin=pipe, stdout=pipe, text=True)
    assert parent.stdout is not None
    parent.stdout.readline()
    known = below(parent.pid)
    yield parent
    parent.kill()
    end_tree(Process(parent.pid, 0), known)
    parent.communicate()


def test_processes_below_one_are_found_with_their_orphans(parent: subprocess.Popen[str]) -> None:
    assert len(below(parent.pid)) == 3
    assert {process.pid for process in below(os.getpid())} > {parent.pid}


def test_a_tree_is_ended(parent: subprocess.Popen[str]) -> None:
    root = process_of(parent.pid)
    assert root is not None
    tree = [root, *below(parent.pid)]
    end_tree(root)
    wait_until(lambda: are_gone(tree))


def test_what_is_below_a_process_is_ended_without_it(parent: subprocess.Popen[str]) -> None:
    end_below(parent.pid)
    assert not below(parent.pid)
    assert process_of(parent.pid) is not None


def test_what_was_below_a_process_that_has_ended_is_ended(parent: subprocess.Popen[str]) -> None:
    root = process_of(parent.pid)
    assert root is not None
    known = below(parent.pid)
    parent.kill()
    parent.wait()
    assert not are_gone(known)
    end_tree(root, known)
    wait_until(lambda: are_gone(known))


def test_a_later_process_with_the_same_id_is_left_alone(parent: subprocess.Popen[str]) -> None:
    end_tree(Process(parent.pid, 1), [Process(process.pid, 1) for process in below(parent.pid)])
    assert len(below(parent.pid)) == 3


def test_memory_is_that_of_the_processes_alone(parent: subprocess.Popen[str]) -> None:
    assert 50_000_000 < memory_bytes([parent.pid]) < 100_000_000


def test_a_process_that_has_gone_has_no_memory_and_nothing_below(
    parent: subprocess.Popen[str],
) -> None:
    end_below(parent.pid)
    parent.kill()
    parent.wait()
    assert (memory_bytes([parent.pid]), below(parent.pid)) == (0, [])
    assert process_of(parent.pid) is None
