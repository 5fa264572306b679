"""One line when a server goes away, one when it is back, and how long its callers wait."""

import asyncio

import pytest
from pymongo.errors import NetworkTimeout
from redis.exceptions import AuthenticationError, NoPermissionError, OutOfMemoryError
from redis.exceptions import ConnectionError as RedisConnectionError

from crawler.servers import health
from crawler.servers.health import (
    LEASES,
    OUTBOX,
    PAGES,
    SPILLED_URLS,
    GaveUp,
    ServerHealth,
    mongo_health,
    redis_health,
)

AWAY = ConnectionError("nobody there")
MONGO_AWAY = NetworkTimeout("timed out (configured timeouts: socketTimeoutMS: 20.0ms)")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(health, "monotonic", lambda: now[0])
    return now


def away(found: ServerHealth) -> bool:
    try:
        found.failed(LEASES, AWAY)
    except GaveUp:
        return False
    return True


def test_a_crawl_waits_for_ever_unless_it_is_told_not_to(clock: list[float]) -> None:
    patient, strict = redis_health(), redis_health(30.0)
    for found in (patient, strict):
        assert away(found)
    clock[0] += 31
    assert away(patient)
    assert not away(strict)


def test_a_reason_is_in_one_line_and_never_empty(caplog: pytest.LogCaptureFixture) -> None:
    found = mongo_health()
    for error in (TimeoutError(), OSError(), OSError("closed\n\tby the server\n")):
        found.failed(SPILLED_URLS, error)
        found.worked(SPILLED_URLS)
    reasons = [record.getMessage().partition(";")[0] for record in caplog.records[::2]]
    assert reasons == [
        "MongoDB is away (no answer in time)",
        "MongoDB is away (OSError)",
        "MongoDB is away (closed by the server)",
    ]


@pytest.mark.parametrize("give_up_s", [0.0, 3600.0])
def test_a_process_that_closes_does_not_wait_long(clock: list[float], give_up_s: float) -> None:
    found = redis_health(give_up_s)
    assert away(found)
    found.closing()
    assert away(found)
    clock[0] += 11
    assert found.given_up
    assert not away(found)


def test_closing_makes_nobody_more_patient(clock: list[float]) -> None:
    found = redis_health(2.0)
    found.closing()
    assert away(found)
    clock[0] += 3
    assert not away(found)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [" ".join(record.getMessage().split()[:3]) for record in caplog.records]


def test_who_is_answered_does_not_speak_for_who_is_not(caplog: pytest.LogCaptureFixture) -> None:
    found = redis_health()
    for _ in range(3):
        # A full server refuses links and takes beats.
        found.failed(OUTBOX, OutOfMemoryError("OOM command not allowed"))
        found.worked(LEASES)
    assert found.away
    found.failed(LEASES, AWAY)
    found.worked(OUTBOX)
    assert said(caplog) == ["Redis is away"]
    found.worked(LEASES)
    assert not found.away
    assert said(caplog) == ["Redis is away", "Redis is back"]


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (OutOfMemoryError("OOM command not allowed"), "more maxmemory"),
        (RedisConnectionError("MISCONF Errors writing to the AOF file"), "disk is full"),
        (AuthenticationError("WRONGPASS invalid username-password pair"), "password"),
        (NoPermissionError("this user has no permissions"), "rights"),
        (AWAY, "nothing new is started"),
    ],
)
def test_the_line_says_what_to_do(
    caplog: pytest.LogCaptureFixture, error: Exception, word: str
) -> None:
    redis_health().failed(OUTBOX, error)
    [record] = caplog.records
    assert str(error) in record.getMessage()
    assert word in record.getMessage()


def test_what_somebody_has_to_do_is_told_when_it_turns_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = redis_health()
    for _ in range(3):
        found.failed(LEASES, AWAY)
        found.failed(OUTBOX, AuthenticationError("Authentication required."))
    assert said(caplog) == ["Redis is away", "Redis is not"]
    assert "password" in caplog.records[-1].getMessage()


async def test_whoever_waits_for_the_next_try_hears_of_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health, "_CLOSING_S", 0.01)
    found = redis_health()
    assert away(found)
    waiting = asyncio.create_task(found.wait(3600))
    await asyncio.sleep(0)
    assert not waiting.done()
    found.closing()
    async with asyncio.timeout(60):
        await waiting
    assert found.given_up


def test_mongo_is_back_when_all_that_failed_works(caplog: pytest.LogCaptureFixture) -> None:
    found = mongo_health()
    for _ in range(2):
        found.failed(PAGES, MONGO_AWAY)
        found.failed(SPILLED_URLS, MONGO_AWAY)
    assert found.trouble == (
        "MongoDB has not answered for 0 s; pages, URLs kept there wait (timed out)"
    )
    # A server whose disk is full answers to reads.
    found.worked(SPILLED_URLS)
    assert "pages wait" in found.trouble
    found.worked(PAGES)
    assert found.trouble == ""
    lines = [record.getMessage()[:15] for record in caplog.records]
    assert lines == ["MongoDB is away", "MongoDB is back"]


def test_a_mongo_that_takes_writes_can_be_read(caplog: pytest.LogCaptureFixture) -> None:
    found = mongo_health()
    found.failed(SPILLED_URLS, MONGO_AWAY)
    found.worked(PAGES)
    assert found.trouble == ""
    found.worked(PAGES)
    assert caplog.text.count("MongoDB is back") == 1
