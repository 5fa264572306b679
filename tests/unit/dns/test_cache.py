"""A slow lookup holds nobody up, and its result is not lost."""

import asyncio
from collections import Counter

import pytest

from crawler.dns import resolver
from crawler.dns.lookup import DnsAnswer, DnsFailed, NoSuchHost
from crawler.dns.resolver import DnsCache

ADDRESS = "192.0.2.1"


class Names:
    """Lookups that take until a test says what they find."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.cache = DnsCache(self, size=100, min_ttl_s=60, max_ttl_s=60)  # type: ignore[arg-type]
        self._said: dict[str, asyncio.Future[DnsAnswer]] = {}

    def local(self, host: str) -> None:
        """Know no name without asking."""

    async def ask(self, host: str) -> DnsAnswer:
        self.asked[host] += 1
        self._said[host] = asyncio.get_running_loop().create_future()
        return await self._said[host]

    async def look_up(self, host: str, wait_s: float = 0.01) -> bool:
        return await self.cache.get_within(host, wait_s)

    async def say(self, host: str, error: Exception | None = None) -> None:
        while host not in self._said:  # noqa: ASYNC110 - a task asks meanwhile
            await asyncio.sleep(0)
        if error is None:
            self._said.pop(host).set_result(DnsAnswer((ADDRESS,), 60))
        else:
            self._said.pop(host).set_exception(error)
        while host in self.cache._in_flight:  # noqa: ASYNC110 - a callback ends it
            await asyncio.sleep(0)


async def test_an_answer_in_time_is_waited_for() -> None:
    names = Names()
    asked = asyncio.create_task(names.look_up("h.test", 60))
    await names.say("h.test")
    assert await asked
    assert await names.look_up("h.test")
    asked = asyncio.create_task(names.look_up("none.test", 60))
    await names.say("none.test", NoSuchHost("none"))
    with pytest.raises(NoSuchHost):
        await asked
    assert names.asked == {"h.test": 1, "none.test": 1}


async def test_a_failure_in_time_is_raised_and_not_kept() -> None:
    names = Names()
    for _ in range(2):
        asked = asyncio.create_task(names.look_up("h.test", 60))
        await names.say("h.test", DnsFailed("no answer"))
        with pytest.raises(DnsFailed):
            await asked
    assert names.asked == {"h.test": 2}


async def test_a_slow_lookup_goes_on_and_is_asked_for_once() -> None:
    names = Names()
    for _ in range(3):
        assert not await names.look_up("h.test")
    # Callers without a limit wait for the same lookup.
    asked = asyncio.create_task(names.cache.get("h.test"))
    await names.say("h.test")
    assert await asked == (ADDRESS,)
    assert await names.look_up("h.test")
    assert names.asked == {"h.test": 1}


async def test_a_late_failure_is_raised_once_by_the_next_call() -> None:
    names = Names()
    assert not await names.look_up("h.test")
    await names.say("h.test", DnsFailed("no answer"))
    with pytest.raises(DnsFailed):
        await names.look_up("h.test")
    assert not await names.look_up("h.test")
    assert names.asked == {"h.test": 2}


async def test_two_calls_at_the_same_time_wait_for_one_lookup(
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = Names()
    both = asyncio.gather(*(names.look_up("h.test") for _ in range(2)))
    assert await both == [False, False]
    await names.say("h.test", DnsFailed("no answer"))
    assert caplog.records == []
    assert names.asked == {"h.test": 1}
    with pytest.raises(DnsFailed):
        await names.look_up("h.test")


async def test_an_old_failure_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolver, "_SLOW_FAILED_S", -1.0)
    names = Names()
    assert not await names.look_up("h.test")
    await names.say("h.test", DnsFailed("no answer"))
    assert not await names.look_up("h.test")


async def test_late_answers_are_in_the_cache() -> None:
    names = Names()
    assert not await names.look_up("h.test")
    await names.say("h.test", NoSuchHost("none"))
    for _ in range(2):
        with pytest.raises(NoSuchHost):
            await names.look_up("h.test")
    assert names.asked == {"h.test": 1}


async def test_slow_lookups_and_their_failures_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resolver, "_SLOW_MAX", 2)
    names = Names()
    assert not await names.look_up("1.test")
    assert not await names.look_up("2.test")
    third = asyncio.create_task(names.look_up("3.test"))
    await names.say("3.test")
    assert await third
    for host in ("1.test", "2.test", "4.test"):
        await names.look_up(host)
        await names.say(host, DnsFailed("no answer"))
    assert list(names.cache._slow_failed) == ["2.test", "4.test"]


async def test_closing_cancels_slow_lookups() -> None:
    names = Names()
    assert not await names.look_up("h.test")
    (lookup,) = names.cache._in_flight.values()
    await names.cache.close()
    assert lookup.cancelled()
    assert names.cache._slow == set()
