"""Processes of a browser, by /proc: their memory, and their end. They block for milliseconds.

A browser starts a dozen processes, in sessions and process groups of their own. So all processes
below one are found by their parents, and ended together. On systems without /proc there are none to
find: a browser ends with the pipes to it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from time import sleep
from typing import NamedTuple

_PROC = Path("/proc")
# Looks for processes that were started while others were ended, and seconds between two.
_LOOKS, _PAUSE_S = 100, 0.02
_DEAD = b"ZX"
_OWN = (b"RssAnon:", b"RssShmem:")


class Process(NamedTuple):
    """Process; the time of its start tells it from a later one with the same id."""

    pid: int
    started: int


def below(pid: int) -> list[Process]:
    """Return the living processes that a process started, and those that they did."""
    children: dict[int, list[Process]] = {}
    dead: set[int] = set()
    with suppress(OSError), os.scandir(_PROC) as entries:
        for entry in entries:
            if entry.name.isdecimal() and (found := _stat(int(entry.name))):
                state, parent, process = found
                children.setdefault(parent, []).append(process)
                if state in _DEAD:
                    dead.add(process.pid)
    found_below = list(children.get(pid, ()))
    for process in found_below:
        found_below += children.get(process.pid, ())
    return [process for process in found_below if process.pid not in dead]


def memory_bytes(pids: Iterable[int]) -> int:
    """Return the bytes of memory of processes, without the files that they have in common."""
    kilobytes = 0
    for pid in pids:
        with suppress(OSError):
            for line in Path(_PROC, str(pid), "status").read_bytes().splitlines():
                if line.startswith(_OWN):
                    kilobytes += int(line.split()[1])
    return kilobytes * 1024


def process_of(pid: int) -> Process | None:
    """Return a living process by its id."""
    found = _stat(pid)
    return found[2] if found is not None and found[0] not in _DEAD else None


def end_tree(root: Process, known: Iterable[Process] = ()) -> None:
    """End a process and all below it.

    `known` were below it some time ago: if it ended by itself, nobody knows them as its own.
    """
    if process_of(root.pid) == root:
        # As long as it is there, it is the parent of all that lose theirs.
        end_below(root.pid)
        _send(root, signal.SIGKILL)
    for process in known:
        if process_of(process.pid) == process:
            end_below(process.pid)
            _send(process, signal.SIGKILL)


def end_below(pid: int) -> None:
    """End all processes below one that does not start others for ever."""
    for _ in range(_LOOKS):
        found = below(pid)
        for process in found:
            _send(process, signal.SIGKILL)
        if not found:
            return
        sleep(_PAUSE_S)


def _send(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process.pid, number)


def _stat(pid: int) -> tuple[bytes, int, Process] | None:
    """Return the state of a process, its parent, and itself; None if it has gone."""
    try:
        fields = Path(_PROC, str(pid), "stat").read_bytes().rpartition(b")")[2].split()
        return fields[0], int(fields[1]), Process(pid, int(fields[19]))
    except (OSError, ValueError, IndexError):
        return None
