"""Processes in virtual time: who goes on, and who never does."""

import asyncio
from collections.abc import Callable

import pytest

from simulation.loop import Lane, Stuck, VirtualLoop


async def says(said: list[str], what: str, times: int, wait_s: float = 0.0) -> None:
    for _ in range(times):
        said.append(what)
        await asyncio.sleep(wait_s)


def ran(seed: str, begin: Callable[[VirtualLoop, list[str]], None], until_s: float = 1e6) -> str:
    loop, said = VirtualLoop(seed), []
    begin(loop, said)
    with pytest.raises(Stuck, match=r"nothing is left to run|does not end"):
        loop.run(until_s)
    loop.close()
    return "".join(said)


def two(loop: VirtualLoop, said: list[str]) -> None:
    for name in "ab":
        loop.start(loop.lane(name), says(said, name, 10))


def test_time_passes_only_when_nobody_is_ready() -> None:
    loop, said = VirtualLoop("1", starts_s=5.0), []
    loop.start(loop.lane("a"), says(said, "a", 3, wait_s=1e6))
    with pytest.raises(Stuck, match="nothing is left to run"):
        loop.run(1e9)
    assert (said, loop.time()) == (["a"] * 3, 5.0 + 3e6)


def test_the_seed_chooses_who_goes_on() -> None:
    orders = {ran(str(seed), two) for seed in range(5)}
    assert len(orders) > 1
    assert ran("1", two) == ran("1", two)


def test_a_process_keeps_the_order_of_its_callbacks() -> None:
    def begin(loop: VirtualLoop, said: list[str]) -> None:
        lane = loop.lane("a")
        for name in "xyz":
            loop.start(lane, says(said, name, 2))

    assert {ran(str(seed), begin) for seed in range(5)} == {"xyzxyz"}


def test_a_killed_process_does_not_even_clean_up() -> None:
    async def work(said: list[str]) -> None:
        try:
            await asyncio.sleep(10)
        finally:
            said.append("cleaned up")

    loop, said, deaths = VirtualLoop("1"), [], []
    lane = loop.lane("a")
    loop.on_death = deaths.append
    loop.start(lane, work(said))
    loop.at(5, lambda: loop.kill(lane))
    loop.at(20, lambda: said.append("later"))
    with pytest.raises(Stuck):
        loop.run(100)
    assert (said, deaths, lane.dead) == (["later"], [lane], True)


def test_a_stopped_process_goes_on_where_it_was() -> None:
    def begin(loop: VirtualLoop, said: list[str]) -> None:
        lane: Lane = loop.lane("a")
        loop.start(lane, says(said, "a", 3, wait_s=1.0))
        loop.at(0.5, lambda: setattr(lane, "stopped", True))
        loop.at(10.0, lambda: said.append("|"))
        loop.at(10.5, lambda: setattr(lane, "stopped", False))

    assert ran("1", begin) == "a|aa"


def test_a_fuse_kills_a_process_between_two_callbacks() -> None:
    def begin(loop: VirtualLoop, said: list[str]) -> None:
        lane = loop.lane("a")
        lane.fuse = 4
        loop.start(lane, says(said, "a", 10))

    assert ran("1", begin) == "aaaa"


def test_a_schedule_that_goes_on_for_ever_is_stuck() -> None:
    def begin(loop: VirtualLoop, said: list[str]) -> None:
        loop.start(loop.lane("a"), says(said, "a", 1000, wait_s=1.0))

    assert ran("1", begin, until_s=9.5) == "a" * 10
