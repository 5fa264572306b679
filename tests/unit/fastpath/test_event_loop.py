"""The event loop serves few sockets at a time, and all of them in turn."""

import asyncio
import selectors
import socket

import pytest

from crawler.fastpath import event_loop
from crawler.fastpath.event_loop import EVENTS_MAX, take_over

pytestmark = pytest.mark.skipif(not hasattr(selectors, "EpollSelector"), reason="needs epoll")


def test_sockets_are_served_in_turns_and_none_is_left_out() -> None:
    loop = asyncio.SelectorEventLoop()
    take_over(loop)
    pairs = [socket.socketpair() for _ in range(3 * EVENTS_MAX)]
    steps: list[list[int]] = []
    try:
        for number, (ours, theirs) in enumerate(pairs):
            # It is never read: every socket is ready at every step.
            theirs.send(b"x")
            loop.add_reader(ours, lambda number=number: steps[-1].append(number))
        for _ in range(3):
            steps.append([])
            loop.call_soon(loop.stop)
            loop.run_forever()
    finally:
        for pair in pairs:
            loop.remove_reader(pair[0])
            pair[0].close()
            pair[1].close()
        loop.close()
    assert [len(step) for step in steps] == [EVENTS_MAX] * 3
    assert sorted(number for step in steps for number in step) == list(range(3 * EVENTS_MAX))


def test_other_event_loops_stay_as_they_are() -> None:
    loop = asyncio.SelectorEventLoop(selectors.PollSelector())
    try:
        take_over(loop)
        assert not isinstance(loop._selector._selector, event_loop.FewEvents)  # type: ignore[attr-defined]
    finally:
        loop.close()


async def test_taking_over_twice_changes_nothing_more() -> None:
    loop = asyncio.SelectorEventLoop()
    try:
        take_over(loop)
        first = loop._selector._selector  # type: ignore[attr-defined]
        take_over(loop)
        assert loop._selector._selector is first  # type: ignore[attr-defined]
    finally:
        loop.close()
