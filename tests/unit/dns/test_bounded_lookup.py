"""A lookup that takes long holds nobody up, and its result is not lost."""

import asyncio
from collections import Counter

import pytest

from crawler.dns import resolver
from crawler.dns.errors import DnsFailed, NoSuchHost
from crawler.dns.resolver import BoundedLookup


class Names:
    """Each lookup takes until it is told what it finds; what it found is known from then on."""

    def __init__(self, wait_s: float = 0.01) -> None:
        self.asked: Counter[str] = Counter()
        self.bounded = BoundedLookup(self._look_up, wait_s=wait_s)
        self._said: dict[str, asyncio.Future[None]] = {}

    async def _look_up(self, host: str) -> None:
        self.asked[host] += 1
        self._said[host] = asyncio.get_running_loop().create_future()
        await self._said[host]

    async def say(self, host: str, error: Exception | None = None) -> None:
        while host not in self._said:  # noqa: ASYNC110 - a task asks meanwhile
            await asyncio.sleep(0)
        if error is None:
            self._said.pop(host).set_result(None)
        else:
            self._said.pop(host).set_exception(error)
        while host in self.bounded._slow:  # noqa: ASYNC110 - it is told by a callback
            await asyncio.sleep(0)


async def test_an_answer_in_time_is_waited_for() -> None:
    names = Names(wait_s=60)
    asked = asyncio.create_task(names.bounded.look_up("h.test"))
    await names.say("h.test")
    assert await asked
    asked = asyncio.create_task(names.bounded.look_up("h.test"))
    await names.say("h.test", NoSuchHost("none"))
    with pytest.raises(NoSuchHost):
        await asked
    assert names.bounded._slow == {}


async def test_a_slow_lookup_goes_on_and_is_asked_for_once() -> None:
    names = Names()
    for _ in range(3):
        assert not await names.bounded.look_up("h.test")
    assert names.asked == {"h.test": 1}
    await names.say("h.test")
    assert names.bounded._slow == {}


async def test_a_late_failure_is_told_once_to_the_next_who_asks() -> None:
    names = Names()
    assert not await names.bounded.look_up("h.test")
    await names.say("h.test", DnsFailed("no answer"))
    with pytest.raises(DnsFailed):
        await names.bounded.look_up("h.test")
    assert not await names.bounded.look_up("h.test")
    assert names.asked == {"h.test": 2}


async def test_two_who_ask_at_the_same_time_wait_for_one_lookup(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ended = asyncio.Event()

    async def look_up(host: str) -> None:
        await ended.wait()
        raise DnsFailed(f"no answer for {host}")

    asked = BoundedLookup(look_up, wait_s=0.01)
    assert await asyncio.gather(*(asked.look_up("h.test") for _ in range(2))) == [False, False]
    ended.set()
    while asked._slow:  # noqa: ASYNC110 - it is told by a callback
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert caplog.records == []
    with pytest.raises(DnsFailed):
        await asked.look_up("h.test")


async def test_an_old_failure_is_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolver, "_FAILED_S", -1.0)
    names = Names()
    assert not await names.bounded.look_up("h.test")
    await names.say("h.test", DnsFailed("no answer"))
    assert not await names.bounded.look_up("h.test")


async def test_late_answers_are_left_to_the_cache() -> None:
    names = Names()
    assert not await names.bounded.look_up("h.test")
    await names.say("h.test", NoSuchHost("none"))
    assert names.bounded._failed == {}


async def test_there_are_so_many_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolver, "_SLOW_MAX", 2)
    names = Names()
    assert not await names.bounded.look_up("1.test")
    assert not await names.bounded.look_up("2.test")
    third = asyncio.create_task(names.bounded.look_up("3.test"))
    await names.say("3.test")
    assert await third
    for host in ("1.test", "2.test", "4.test"):
        await names.bounded.look_up(host)
        await names.say(host, DnsFailed("no answer"))
    assert list(names.bounded._failed) == ["2.test", "4.test"]


async def test_closing_ends_what_is_under_way() -> None:
    names = Names()
    assert not await names.bounded.look_up("h.test")
    (lookup,) = names.bounded._slow.values()
    names.bounded.close()
    await asyncio.wait([lookup])
    assert lookup.cancelled()
