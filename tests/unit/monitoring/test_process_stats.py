"""What one process says of itself."""

from types import SimpleNamespace
from typing import Any

from crawler.monitoring.process_stats import ProcessStats, RecentRate
from crawler.storage.storage import STORE_STATE


def test_rates_are_those_of_the_last_seconds() -> None:
    stats: dict[str, Any] = {}
    process_stats = ProcessStats(stats)
    assert process_stats.about(100.0)["pages_per_s"] == 0.0
    stats.update({"pages/crawled": 20, "downloader/response_bytes": 4000})
    about = process_stats.about(102.0)
    assert (about["pages"], about["pages_per_s"], about["bytes_per_s"]) == (20, 10.0, 2000.0)


def test_the_worst_lag_since_the_last_beat_is_told_once() -> None:
    process_stats = ProcessStats({})
    process_stats.observe_lag(0.02)
    process_stats.observe_lag(0.3)
    process_stats.observe_lag(0.01)
    assert process_stats.about(1.0)["loop_lag_ms"] == 300.0
    assert process_stats.about(2.0)["loop_lag_ms"] == 0.0
    assert process_stats.lag.count == 3


def test_the_state_of_the_store_and_what_others_add_are_told() -> None:
    process_stats = ProcessStats({STORE_STATE: "away"})
    process_stats.extra["admin_port"] = 6080
    process_stats.observe_redis(0.0021)
    about = process_stats.about(1.0)
    assert (about["store"], about["admin_port"], about["redis_ms"]) == ("away", 6080, 2.1)
    assert ProcessStats({}).about(1.0)["store"] == "off"


def test_each_sink_is_told_with_its_rates() -> None:
    process_stats, sink = ProcessStats({}), {"name": "mongo", "pages": 10, "bytes": 500}
    report = {"sinks": [sink], "spooled_pages": 3}
    storage: Any = SimpleNamespace(report=lambda: report | {"sinks": [dict(sink)]})
    process_stats.storage = storage
    assert process_stats.about(100.0)["sinks"][0]["pages_per_s"] == 0.0
    sink |= {"pages": 30, "bytes": 2500}
    about = process_stats.about(102.0)
    assert about["sinks"] == [sink | {"pages_per_s": 10.0, "bytes_per_s": 1000.0}]
    assert about["spooled_pages"] == 3


def test_figures_are_the_stats_and_the_durations() -> None:
    process_stats = ProcessStats({"pages/crawled": 2})
    process_stats.fetch.observe(0.15)
    process_stats.parse.observe(0.002)
    assert process_stats.figures() == {
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
