"""The fleet's figures as one JSON object."""

import json

from crawler.monitoring.histogram import FETCH_S, Histogram
from crawler.monitoring.ledger import Fleet, Minute
from crawler.monitoring.report import report


def minute(at_s: int, **figures: int) -> Minute:
    return Minute(at_s, {name.replace("__", "/"): n for name, n in figures.items()})


def test_an_empty_fleet_has_a_report() -> None:
    found = report(Fleet())
    assert found["totals"]["pages"] == 0
    assert found["hour"]["errors"] == []
    assert found["hour"]["fetch_ms"] == {"p50": None, "p95": None, "p99": None}
    assert (found["minutes"], found["workers"]) == ([], [])
    json.dumps(found)


def test_errors_of_the_hour_are_sorted_by_how_often_they_happened() -> None:
    fleet = Fleet(
        minutes=[
            minute(0, retries__timeout=5, failed__timeout=1, failed__dns=2),
            minute(60, failed__dns=1, retries__status_503=9, failed__status_404=2),
            minute(120, robots__denied=7, robots__cached=99),
        ]
    )
    assert report(fleet)["hour"]["errors"] == [
        {"cause": "status_503", "retried": 9, "failed": 0, "blocked": 0},
        {"cause": "robots", "retried": 0, "failed": 0, "blocked": 7},
        {"cause": "timeout", "retried": 5, "failed": 1, "blocked": 0},
        {"cause": "dns", "retried": 0, "failed": 3, "blocked": 0},
        {"cause": "status_404", "retried": 0, "failed": 2, "blocked": 0},
    ]
    assert [found["failed"] for found in report(fleet)["minutes"]] == [3, 3, 0]


def test_the_success_rate_is_that_of_visits() -> None:
    totals = {"pages": 6, "not_modified": 1, "failed/status_404": 2, "failed/dns": 1}
    assert report(Fleet(totals=totals))["totals"]["success_rate"] == 0.7
    assert report(Fleet())["totals"]["success_rate"] is None


def test_latencies_are_those_of_all_processes_in_each_minute() -> None:
    histogram = Histogram(FETCH_S)
    for _ in range(100):
        histogram.observe(0.15)
    fleet = Fleet(minutes=[Minute(0, histogram.figures("fetch")), Minute(60, {})])
    first, second = report(fleet)["minutes"]
    assert 100 < first["fetch_ms"]["p50"] <= first["fetch_ms"]["p99"] <= 200
    assert second["fetch_ms"]["p50"] is None


def test_rates_of_the_workers_are_added_up() -> None:
    fleet = Fleet(
        instances={
            "b": {"pages_per_s": 2.5, "bytes_per_s": 100.0, "silent_s": 0.0},
            "a": {"pages_per_s": 4.0, "silent_s": 1.0},
        }
    )
    found = report(fleet)
    assert found["rates"] == {"pages_per_s": 6.5, "bytes_per_s": 100.0}
    assert [worker["name"] for worker in found["workers"]] == ["a", "b"]


def test_each_sink_of_live_processes_is_told() -> None:
    sink = {"name": "mongo", "state": "away", "waiting": 3, "lag_s": 1.5}
    about = {"sinks": [sink], "spooled_pages": 7, "spooled_bytes": 900}
    fleet = Fleet(
        totals={"sink/pages/mongo": 40, "sink/bytes/mongo": 5000},
        instances={
            "a": about | {"silent_s": 1.0},
            "dead": about | {"silent_s": 20.0},
        },
    )
    found = report(fleet)
    [told] = found["sinks"]
    assert (told["name"], told["state"]) == ("mongo", "away")
    assert (told["pages"], told["bytes"]) == (40, 5000)
    assert (told["waiting"], told["lag_s"]) == (3, 1.5)
    assert found["spool"] == {"pages": 7, "bytes": 900}
    assert (report(Fleet())["sinks"], report(Fleet())["spool"]["pages"]) == ([], 0)
