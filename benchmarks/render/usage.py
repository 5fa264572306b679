"""CPU time of a crawl with all that it started, by what each process is. Linux only."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

CRAWLER, WORKER, DRIVER = "crawler", "worker", "driver"
BROWSER, RENDERER, OTHERS = "browser", "renderer", "others"
ROLES = (CRAWLER, WORKER, DRIVER, BROWSER, RENDERER, OTHERS)
_TICKS = os.sysconf("SC_CLK_TCK")


class Process(NamedTuple):
    """One process, with the CPU time of itself and of its children that have ended."""

    pid: int
    parent: int
    command: str
    own_s: float
    children_s: float


def processes() -> Iterator[Process]:
    """Yield all processes of the machine."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                yield _process(Path(entry.path))
            except OSError:
                # It has just ended.
                continue


def _process(folder: Path) -> Process:
    # The name before it may have blanks and brackets.
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    user, system, children_user, children_system = map(int, fields[11:15])
    return Process(
        int(folder.name),
        int(fields[1]),
        command,
        (user + system) / _TICKS,
        (children_user + children_system) / _TICKS,
    )


def tree(root: int, known: Iterable[Process]) -> list[Process]:
    """Return a process, and below it all that it started."""
    children: dict[int, list[Process]] = {}
    found = []
    for process in known:
        children.setdefault(process.parent, []).append(process)
        if process.pid == root:
            found.append(process)
    for process in found:
        found += children.get(process.pid, ())
    return found


def role_of(process: Process, root: int) -> str:
    """Return what a process does in a crawl with browsers."""
    command = process.command
    if process.pid == root:
        return CRAWLER
    if not command:
        # It has ended, and is not yet waited for.
        return RENDERER
    if "crawler.rendering.worker" in command:
        return WORKER
    if "run-driver" in command:
        return DRIVER
    if "--type=renderer" in command:
        return RENDERER
    if "--type=" in command:
        return OTHERS
    return BROWSER if "--headless" in command else OTHERS


def cpu_by_role(root: int, known: Iterable[Process]) -> Counter[str]:
    """Return the CPU seconds of a tree.

    Renderers end with their pages, and are waited for by the zygote that forked them.
    """
    found: Counter[str] = Counter()
    for process in tree(root, known):
        role = role_of(process, root)
        found[role] += process.own_s
        found[RENDERER if "--type=zygote" in process.command else role] += process.children_s
    return found


def cpu_now(root: int) -> Counter[str]:
    """Return the CPU seconds that a running process and what it started have used."""
    return cpu_by_role(root, processes())
