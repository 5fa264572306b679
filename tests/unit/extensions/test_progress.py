"""The task that shows the progress."""

import asyncio
from pathlib import Path

import pytest

from crawler.extensions.progress import Progress
from tests.unit.schedulers import WritingScheduler, crawler_with


async def test_errors_are_logged_once_and_do_not_end_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress = Progress(
        crawler_with(WritingScheduler()),
        mode="plain",
        interval_s=0.001,
        summary_file=Path("unused"),
        log_file=None,
    )
    shown: list[int] = []
    enough = asyncio.Event()

    async def show() -> None:
        shown.append(len(shown))
        if len(shown) > 3:
            enough.set()
        raise ValueError("odd")

    monkeypatch.setattr(progress, "_show", show)
    progress._opened()
    async with asyncio.timeout(5):
        await enough.wait()
    assert progress._task is not None
    assert not progress._task.done()
    progress._task.cancel()
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        "The progress could not be shown; trying again each time"
    ]
