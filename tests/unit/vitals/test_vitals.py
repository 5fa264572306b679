"""What one process says of itself."""

from typing import Any

from crawler.vitals.vitals import STORE_STATE, RecentRate, Vitals


def test_rates_are_those_of_the_last_seconds() -> None:
    stats: dict[str, Any] = {}
    vitals = Vitals(stats)
    assert vitals.about(100.0)["pages_per_s"] == 0.0
    stats.update({"pages/crawled": 20, "downloader/response_bytes": 4000})
    about = vitals.about(102.0)
    assert (about["pages"], about["pages_per_s"], about["bytes_per_s"]) == (20, 10.0, 2000.0)


def test_the_worst_lag_since_the_last_beat_is_told_once() -> None:
    vitals = Vitals({})
    vitals.late(0.02)
    vitals.late(0.3)
    vitals.late(0.01)
    assert vitals.about(1.0)["loop_lag_ms"] == 300.0
    assert vitals.about(2.0)["loop_lag_ms"] == 0.0
    assert vitals.lag.count == 3


def test_the_state_of_the_store_and_what_others_add_are_told() -> None:
    vitals = Vitals({STORE_STATE: "away"})
    vitals.extra["admin_port"] = 6080
    vitals.answered(0.0021)
    about = vitals.about(1.0)
    assert (about["store"], about["admin_port"], about["redis_ms"]) == ("away", 6080, 2.1)
    assert Vitals({}).about(1.0)["store"] == "off"


def test_figures_are_the_stats_and_the_durations() -> None:
    vitals = Vitals({"pages/crawled": 2})
    vitals.fetch.observe(0.15)
    vitals.parse.observe(0.002)
    assert vitals.figures() == {
        "pages": 2,
        "fetch/0.2": 1,
        "fetch/sum_us": 150_000,
        "parse/0.0025": 1,
        "parse/sum_us": 2000,
    }


def test_the_recent_rate_forgets_what_was_long_ago() -> None:
    rate = RecentRate()
    assert rate.add(0.0, 0) is None
    assert rate.add(1.0, 100) == 100.0
    for second in range(2, 30):
        last = rate.add(float(second), 100)
    assert last == 0.0


def test_the_recent_rate_survives_a_pause_between_readings() -> None:
    rate = RecentRate()
    rate.add(0.0, 0)
    assert rate.add(100.0, 500) == 5.0
