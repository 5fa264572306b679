"""Tasks that keep the event loop busy take turns."""

import asyncio

from crawler.fastpath.turns import Turns


class Rounds:
    """Counts the rounds of the event loop."""

    def __init__(self) -> None:
        self.number = 0
        self._count()

    def _count(self) -> None:
        self.number += 1
        self._handle = asyncio.get_running_loop().call_soon(self._count)

    def stop(self) -> None:
        self._handle.cancel()


async def rounds_of(tasks: int, turns: Turns) -> list[int]:
    """Return the round of the event loop in which each task went on."""
    rounds, found = Rounds(), list[int]()

    async def task() -> None:
        if turns.are_over():
            await turns.next()
        found.append(rounds.number)

    try:
        async with asyncio.timeout(60):
            await asyncio.gather(*(task() for _ in range(tasks)))
    finally:
        rounds.stop()
    return found


async def test_with_time_left_all_go_on_in_one_round() -> None:
    found = await rounds_of(50, Turns(round_s=1000))
    assert len(set(found)) == 1


async def test_when_the_time_is_used_up_some_go_on_in_each_round() -> None:
    found = await rounds_of(50, Turns(round_s=0, together=4))
    assert max(found.count(number) for number in found) <= 4
    assert found == sorted(found)


async def test_a_task_that_was_cancelled_keeps_nobody_waiting() -> None:
    turns, went_on = Turns(round_s=0, together=1), list[int]()

    async def task(number: int) -> None:
        if turns.are_over():
            await turns.next()
        went_on.append(number)

    tasks = [asyncio.ensure_future(task(number)) for number in range(5)]
    await asyncio.sleep(0)
    tasks[2].cancel()
    async with asyncio.timeout(60):
        await asyncio.wait(tasks)
    assert went_on == [0, 1, 3, 4]
    # And later ones find a new round.
    assert not turns.are_over()
