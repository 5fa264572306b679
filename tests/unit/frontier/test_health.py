"""How long an absence of Redis is borne."""

import pytest

from crawler.frontier import health
from crawler.frontier.health import GaveUp, Health

AWAY = ConnectionError("nobody there")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(health, "monotonic", lambda: now[0])
    return now


def away(found: Health) -> bool:
    try:
        found.failed(AWAY)
    except GaveUp:
        return False
    return True


def test_a_crawl_waits_for_ever_unless_it_is_told_not_to(clock: list[float]) -> None:
    patient, strict = Health(), Health(30.0)
    for found in (patient, strict):
        assert away(found)
    clock[0] += 31
    assert away(patient)
    assert not away(strict)


@pytest.mark.parametrize("give_up_s", [0.0, 3600.0])
def test_a_process_that_closes_does_not_wait_long(clock: list[float], give_up_s: float) -> None:
    found = Health(give_up_s)
    assert away(found)
    found.closing()
    assert away(found)
    clock[0] += 11
    assert found.given_up
    assert not away(found)


def test_closing_makes_nobody_more_patient(clock: list[float]) -> None:
    found = Health(2.0)
    found.closing()
    assert away(found)
    clock[0] += 3
    assert not away(found)
