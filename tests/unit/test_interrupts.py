"""Ctrl-C while modules are loaded."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("KeyboardInterrupt", "stopped by Ctrl-C before it began\n"),
        ("ValueError('bad')", "ValueError: bad\n"),
    ],
)
def test_only_an_interrupt_is_told_without_a_traceback(error: str, text: str) -> None:
    code = f"import crawler.commands\nraise {error}"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode != 0
    assert run.stderr.endswith(text)
    assert ("Traceback" in run.stderr) == (error != "KeyboardInterrupt")
