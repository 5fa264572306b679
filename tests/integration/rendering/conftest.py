"""Browsers for tests, or skipped tests."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import pytest_asyncio

from crawler.rendering.browsers import Browsers
from crawler.rendering.processes import Process, process_of
from tests.support.browser import PROGRAM
from tests.support.rendering import limits

Make = Callable[..., Browsers]


@pytest.fixture(scope="session")
def chromium() -> str:
    if PROGRAM is None:
        pytest.skip("no Chromium on PATH; Debian has it in the package chromium")
    pytest.importorskip("playwright", reason="playwright is not installed")
    return PROGRAM


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browsers(chromium: str) -> AsyncIterator[Browsers]:
    """A browser for all tests of a module."""
    browsers = Browsers(limits(idle_s=600), count=lambda _stat: None)
    yield browsers
    await browsers.close()


@pytest.fixture
def stats() -> Counter[str]:
    return Counter()


@pytest_asyncio.fixture(loop_scope="module")
async def make(chromium: str, stats: Counter[str]) -> AsyncIterator[Make]:
    """Browsers of the test's own."""
    made: list[Browsers] = []

    def make(**given: Any) -> Browsers:
        made.append(Browsers(limits(**given), count=lambda stat: stats.update([stat])))
        return made[-1]

    yield make
    for browsers in made:
        await browsers.close()


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder in which browsers have theirs; those of pytest are too long for their sockets."""
    with TemporaryDirectory(prefix="b") as folder:
        monkeypatch.setattr("tempfile.tempdir", folder)
        yield Path(folder)


def are_gone(processes: list[Process]) -> bool:
    return all(process_of(process.pid) != process for process in processes)
