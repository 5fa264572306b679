"""Background work: it is ended for good, and what may block for ever keeps nobody."""

import asyncio
import threading
from contextlib import suppress

import pytest

from crawler.util.tasks import end, in_daemon_thread, within


async def test_a_task_that_loses_a_cancellation_is_cancelled_again() -> None:
    lost = asyncio.Event()

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            lost.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await end(task)
    assert lost.is_set()
    assert task.cancelled()


async def test_a_daemon_thread_gives_its_result_or_its_error() -> None:
    assert await in_daemon_thread(lambda: threading.current_thread().daemon)
    with pytest.raises(ZeroDivisionError):
        await in_daemon_thread(lambda: 1 // 0)


async def test_who_waits_for_a_daemon_thread_can_be_cancelled() -> None:
    release = threading.Event()
    task = asyncio.create_task(in_daemon_thread(release.wait))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()


async def test_work_is_given_up_after_its_time_whatever_it_does() -> None:
    stubborn_ended = asyncio.Event()

    async def stubborn() -> None:
        while not stubborn_ended.is_set():
            with suppress(asyncio.CancelledError):
                await stubborn_ended.wait()

    async def quick() -> None:
        done.append("quick")

    done: list[str] = []
    assert await within(30, quick())
    assert await within(30)
    assert not await within(0.05, stubborn(), quick())
    assert done == ["quick", "quick"]
    stubborn_ended.set()
