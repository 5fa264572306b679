"""Why nothing is claimed is told once."""

import pytest

from crawler.scheduling.lease_pool import Round, Standstill


@pytest.fixture(autouse=True)
def _info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")


def test_a_crawl_that_is_served_needs_no_word(caplog: pytest.LogCaptureFixture) -> None:
    standstill = Standstill()
    for states in ({"ok"}, set[str](), {"limit"}):
        standstill.log(Round(states=states))
    assert not caplog.messages


def test_a_pause_is_told_and_its_end(caplog: pytest.LogCaptureFixture) -> None:
    standstill = Standstill()
    for states in ({"ok"}, {"paused"}, set[str](), {"paused"}, {"ok"}, {"ok"}):
        standstill.log(Round(states=states))
    paused, resumed = caplog.messages
    assert "paused: nothing new is fetched until it is resumed, by `scrapy frontier res" in paused
    assert resumed == "The crawl is resumed"


def test_the_wait_after_a_restart_of_redis_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    standstill = Standstill()
    for states in ({"grace", "ok"}, {"ok"}, {"grace"}):
        standstill.log(Round(states=states, waits_s=[10_000.0, 1.0]))
    (told,) = caplog.messages
    assert told.startswith("Redis has restarted: nothing new is fetched for 10000 s")
