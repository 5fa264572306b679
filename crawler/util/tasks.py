"""Cancel background tasks reliably, and wait for work that may never end."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeVar

_AGAIN_S = 0.5

T = TypeVar("T")
Item = TypeVar("Item")


async def end(task: asyncio.Task[Any]) -> None:
    """Cancel a task and return when it has ended.

    Cancels repeatedly: on Python 3.11 asyncio.wait_for(), which the Redis client uses, loses a
    cancellation that comes together with its result.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_AGAIN_S)


async def in_daemon_thread(function: Callable[[], T]) -> T:
    """Call a function that may block for ever, such as one that reads standard input.

    The interpreter waits at its end for the threads of asyncio.to_thread(), not for this one.
    """
    future: Future[T] = Future()
    # So that it cannot be cancelled while the thread works on it.
    future.set_running_or_notify_cancel()

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001 - the awaiting task raises it
            future.set_exception(error)

    Thread(target=call, daemon=True).start()
    return await asyncio.wrap_future(future)


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function in a thread; if this is cancelled, wait until the function has ended."""
    task = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def in_parallel(
    limit: int, work: Callable[[Item], Awaitable[T]], items: Iterable[Item]
) -> list[T]:
    """Do the same with all items, so many at a time; return the results in order.

    The first error cancels the others, and is raised.
    """
    turns = asyncio.Semaphore(limit)

    async def one(item: Item) -> T:
        async with turns:
            return await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in items]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


async def within(limit_s: float, *work: Coroutine[Any, Any, Any]) -> bool:
    """Run all of this concurrently; return False if the time limit ended it.

    Unlike asyncio.wait_for() it does not wait for work that cannot be cancelled.
    """
    tasks = [asyncio.ensure_future(each) for each in work]
    if not tasks:
        return True
    try:
        done, pending = await asyncio.wait(tasks, timeout=limit_s)
    finally:
        for task in tasks:
            abandon(task)
    for task in done:
        task.result()
    return not pending


def is_ended() -> bool:
    """Return whether the running task itself is cancelled, not only what it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def abandon(task: asyncio.Task[Any]) -> None:
    """Cancel a task without waiting for its end, and ignore its result."""
    task.cancel()
    task.add_done_callback(_forget)


def _forget(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()  # asyncio logs exceptions that are never retrieved
