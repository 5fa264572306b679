"""Programs whose end hangs: they end all the same, and say what they waited for."""

import subprocess
import sys

STUCK_THREAD = """
import threading
from crawler.commands import crawl

def stuck_here():
    threading.Event().wait()

threading.Thread(target=stuck_here).start()
crawl.end_within(0.1)
"""
STUCK_TASK = """
import asyncio
from crawler.commands import crawl

async def stuck_here():
    crawl.end_within(0.1, asyncio.get_running_loop())
    await asyncio.Event().wait()

asyncio.run(stuck_here())
"""
NOT_STUCK = "from crawler.commands import crawl; crawl.end_within(3600)"


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )


def test_a_thread_that_never_ends_is_named() -> None:
    ended = run(STUCK_THREAD)
    assert ended.returncode == 1
    assert "did not end within 0.1 s" in ended.stderr
    assert "in stuck_here" in ended.stderr


def test_a_task_that_never_ends_is_named() -> None:
    ended = run(STUCK_TASK)
    assert ended.returncode == 1
    assert "stuck_here" in ended.stderr


def test_it_ends_though_it_can_tell_nobody() -> None:
    ended = run("import sys; sys.__stderr__.close()\n" + STUCK_THREAD)
    assert (ended.returncode, ended.stderr) == (1, "")


def test_a_process_that_ends_is_not_kept() -> None:
    ended = run(NOT_STUCK)
    assert (ended.returncode, ended.stderr) == (0, "")
