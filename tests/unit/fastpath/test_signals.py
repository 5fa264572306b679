"""Signals are sent as Scrapy sends them, with fewer tasks."""

import asyncio
import logging
from typing import Any

import pytest
from pydispatch.dispatcher import Any as Any_  # type: ignore[import-untyped]
from scrapy.exceptions import StopDownload
from scrapy.signalmanager import SignalManager
from twisted.internet.defer import succeed

from crawler.fastpath.signals import QuickSignals

SIGNAL, OTHER = object(), object()


class Handlers:
    """Some that answer, some that fail, some that take a while."""

    def __init__(self, signals: SignalManager) -> None:
        for handler in (self.plain, self.late, self.failing, self.failing_late, self.deferred):
            signals.connect(handler, SIGNAL)

    def plain(self, item: int) -> int:
        return item + 1

    async def late(self, item: int, **more: Any) -> int:
        await asyncio.sleep(0)
        return item + len(more)

    def failing(self) -> None:
        raise ValueError("at once")

    async def failing_late(self) -> None:
        await asyncio.sleep(0)
        raise ValueError("late")

    def deferred(self) -> Any:
        return succeed("later")


def manager(*, quick: bool) -> SignalManager:
    signals = SignalManager(object())
    if quick:
        QuickSignals.take_over(signals)
    return signals


def plainly(answers: list[tuple[Any, Any]]) -> list[tuple[str, str]]:
    return sorted((handler.__name__, repr(answer)) for handler, answer in answers)


@pytest.mark.filterwarnings("ignore:.*Deferred")
async def test_handlers_get_and_answer_the_same_as_with_scrapy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = []
    for quick in (False, True):
        signals = manager(quick=quick)
        handlers = Handlers(signals)
        caplog.clear()
        answers = await signals.send_catch_log_async(SIGNAL, item=1, spider=None)
        said = sorted(record.getMessage().split("Handlers.")[1][:8] for record in caplog.records)
        found.append((plainly(answers), said))
        del handlers
    assert found[0] == found[1]
    assert len(found[0][0]) == 5
    assert len(found[0][1]) == 2


async def test_what_is_not_to_be_logged_is_not(caplog: pytest.LogCaptureFixture) -> None:
    signals = manager(quick=True)
    handlers = Handlers(signals)
    with caplog.at_level(logging.ERROR):
        await signals.send_catch_log_async(SIGNAL, item=1, dont_log=ValueError)
    assert caplog.records == []
    del handlers


async def test_handlers_that_wait_for_nothing_need_no_tasks() -> None:
    signals = manager(quick=True)
    before = len(asyncio.all_tasks())
    tasks: list[int] = []

    def count() -> None:
        tasks.append(len(asyncio.all_tasks()))

    signals.connect(count, SIGNAL)
    assert len(await signals.send_catch_log_async(SIGNAL)) == 1
    assert await signals.send_catch_log_async(OTHER) == []
    assert tasks == [before]


def test_signals_of_somebody_elses_making_stay_as_they_are() -> None:
    class Own(SignalManager):
        pass

    signals = Own()
    QuickSignals.take_over(signals)
    assert type(signals) is Own


def test_a_signal_without_handlers_is_not_prepared_and_has_no_answers() -> None:
    signals = manager(quick=True)
    assert signals.send_catch_log(OTHER, item=1) == []
    handlers = Handlers(signals)
    assert signals.send_catch_log(OTHER, item=1) == []
    signals.connect(handlers.plain, OTHER)
    assert [answer for _, answer in signals.send_catch_log(OTHER, item=1)] == [2]


@pytest.mark.parametrize(("signal", "of_sender"), [(OTHER, False), (Any_, True), (Any_, False)])
def test_handlers_for_any_signal_or_any_sender_are_heard(signal: Any, of_sender: bool) -> None:
    signals = manager(quick=True)

    def heard(item: int) -> int:
        return item

    where = {} if of_sender else {"sender": Any_}
    signals.connect(heard, signal, **where)
    try:
        assert [answer for _, answer in signals.send_catch_log(OTHER, item=7)] == [7]
    finally:
        signals.disconnect(heard, signal, **where)


class Choosy:
    """Handlers with other wishes than the values of a signal."""

    async def known(self, item: int, missing: str = "default") -> tuple[int, str]:
        return item, missing

    async def of_whom(self, signal: Any, sender: Any) -> tuple[Any, Any]:
        return signal, sender

    async def all_of_it(self, **named: Any) -> int:
        return len(named)

    async def by_name(self, item: int, *, response: int = 0) -> tuple[int, int]:
        return item, response


async def test_handlers_get_the_arguments_that_they_have() -> None:
    found = []
    for quick in (False, True):
        signals, choosy = manager(quick=quick), Choosy()
        for name in ("known", "of_whom", "all_of_it", "by_name"):
            signals.connect(getattr(choosy, name), SIGNAL)
        answers = await signals.send_catch_log_async(SIGNAL, item=1, response=2, more=3)
        said = {handler.__name__: answer for handler, answer in answers}
        assert said.pop("of_whom") == (SIGNAL, signals.sender)
        found.append(said)
    assert found[0] == found[1] == {"known": (1, "default"), "all_of_it": 5, "by_name": (1, 0)}


class Plain:
    """Handlers of a signal that is not awaited."""

    def fine(self, item: int) -> int:
        return item

    def failing(self) -> None:
        raise ValueError("told")

    def expected(self) -> None:
        raise KeyError("not told")

    def stopping(self) -> None:
        raise StopDownload(fail=False)


def test_signals_that_are_not_awaited_are_answered_and_logged_as_by_scrapy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = []
    for quick in (False, True):
        signals, handlers = manager(quick=quick), Plain()
        for name in ("fine", "failing", "expected", "stopping"):
            signals.connect(getattr(handlers, name), SIGNAL)
        caplog.clear()
        answers = signals.send_catch_log(SIGNAL, item=1, spider="s", dont_log=KeyError)
        said = [
            (handler.__name__, repr(getattr(answer, "value", answer)), type(answer))
            for handler, answer in answers
        ]
        records = [(record.levelname, record.exc_info is not None) for record in caplog.records]
        found.append((said, records))
    assert found[0] == found[1]
    assert found[1][1] == [("ERROR", True)]


def test_a_deferred_that_nobody_waits_for_is_told(caplog: pytest.LogCaptureFixture) -> None:
    signals = manager(quick=True)

    def late() -> Any:
        return succeed(1)

    signals.connect(late, SIGNAL)
    signals.send_catch_log(SIGNAL)
    assert "returned a Deferred" in caplog.text
