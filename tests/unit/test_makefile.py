"""`make crawl` where nothing is installed, with a Python that only says how it is called."""

import os
import pty
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = '#!/bin/sh\necho "python $*"\n'


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON)
    python.chmod(0o755)
    return tmp_path / "venv"


def make(venv: Path, output: int) -> str:
    """Run `make crawl`; its standard output is `output`, and standard error is returned."""
    # As typed in a shell: also when make runs these tests.
    inherited = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "ARGS", "SEEDS"}
    environment = {name: value for name, value in os.environ.items() if name not in inherited}
    done = subprocess.run(
        ["make", "crawl", f"VENV={venv}"],
        cwd=ROOT,
        env=environment,
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stderr


def test_the_installation_shows_its_progress_in_a_terminal(venv: Path) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        told = make(venv, theirs)
        os.close(theirs)
        shown = terminal.read(10_000).decode()
    assert f"into {venv}: a few minutes the first time" in told
    first = shown.splitlines()[0]
    assert first.startswith("python -m pip install --disable-pip-version-check -r requirements.txt")
    assert "quiet" not in shown


def test_a_log_is_not_filled_by_the_installation(venv: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        make(venv, file.fileno())
    first, second = log.read_text().splitlines()
    assert "pip install --quiet " in first
    assert second == "python -m demo crawl"
    # Once installed, nothing is said of it.
    with log.open("wb") as file:
        assert make(venv, file.fileno()) == ""
    assert log.read_text() == "python -m demo crawl\n"
