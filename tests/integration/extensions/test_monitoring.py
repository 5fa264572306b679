"""A process tells the log of its crawl what people should know, and stops when they ask for it."""

import logging
from typing import Any

from crawler.extensions.monitoring import _Warnings
from crawler.frontier import CrawlControl, Frontier, event_log
from crawler.frontier.event_log import KEPT, TEXT_MAX, Event


def record(text: str, *args: Any, line: int = 1, level: int = logging.WARNING) -> logging.LogRecord:
    return logging.LogRecord("crawler", level, "a.py", line, text, args, None)


def test_warnings_are_kept_until_they_are_sent_few_and_no_two_alike() -> None:
    warnings = _Warnings("m 7")
    for host in ("a.test", "b.test"):
        warnings.handle(record("%s did not answer", host))
    warnings.handle(record("broken", line=2, level=logging.ERROR))
    found = warnings.taken()
    assert [(event.kind, event.text) for event in found] == [
        ("warning", "m 7: a.test did not answer"),
        ("error", "m 7: broken"),
    ]
    assert warnings.taken() == []
    for line in range(100):
        warnings.handle(record("much", line=10 + line))
    assert len(warnings.taken()) == 5


def test_an_event_has_no_secrets_and_one_short_line() -> None:
    event = Event.now("warning", "redis://u:topsecret@h/ is\n away " + "x" * 1000)
    assert event.text.startswith("redis://u:***@h/ is away x")
    assert len(event.text) == TEXT_MAX


async def test_the_log_has_the_last_events_and_all_orders(redis_client: Any) -> None:
    await Frontier(redis_client, "web").open({"machine": "m", "pid": 7})
    control = await CrawlControl.open(redis_client, "web")
    events = [Event.now("process", f"number {number}") for number in range(KEPT + 50)]
    await event_log.note(redis_client, "web", events)
    await control.pause()
    await control.set_options({"max_depth": 3})
    await control.set_options({"max_depth": 3})
    await control.set_options({"max_depth": None})
    await control.host("a.test", budget=5)
    await control.requeue(reason="timeout")
    found = [event.text for event in await control.events()]
    assert found[:6] == [
        "0 dead letters requeued (timeout)",
        "host a.test: budget 5",
        "max_depth is as usual (was 3)",
        "max_depth is 3 (was not set)",
        "paused",
        f"number {KEPT + 49}",
    ]
    assert len(found) == KEPT


async def test_one_process_is_asked_to_stop_and_no_other(redis_client: Any) -> None:
    one, two = Frontier(redis_client, "web"), Frontier(redis_client, "web")
    for frontier, pid in ((one, 7), (two, 8)):
        await frontier.open({"machine": "m", "pid": pid})
    control = await CrawlControl.open(redis_client, "web")
    assert not await control.stop("nobody")
    assert await control.stop(one.owner)
    assert await one.is_asked_to_stop()
    assert not await two.is_asked_to_stop()
    assert [event.text for event in await control.events()] == ["process m 7 is to stop"]
