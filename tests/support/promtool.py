"""Debian's promtool, or a skipped test."""

import shutil
import subprocess
from pathlib import Path

import pytest


def promtool(*arguments: str, stdin: bytes = b"", cwd: Path | None = None) -> None:
    """Run it; fails the test with what it says."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed; Debian has it in the package prometheus")
    done = subprocess.run(
        [program, *arguments], input=stdin, cwd=cwd, capture_output=True, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
