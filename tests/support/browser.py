"""A real Chromium for tests of the dashboard, or a skipped test.

def test_something(browser: Browser, artefacts: Path) -> None: ...
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Waits for conditions, never for time: a busy machine is slow.
PATIENCE_MS = 90_000
_ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@pytest.fixture
def browser() -> Iterator[Any]:
    """The system's browser, driven by playwright."""
    if PROGRAM is None:
        pytest.skip("no Chromium on PATH; Debian has it in the package chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=PROGRAM, args=_ARGUMENTS, timeout=PATIENCE_MS
        )
        yield found
        found.close()


@pytest.fixture
def artefacts(tmp_path: Path) -> Path:
    """Where screenshots are kept: the folder ARTEFACTS names, or the test's own."""
    folder = Path(os.environ.get("ARTEFACTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
