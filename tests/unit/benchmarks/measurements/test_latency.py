"""What is made of the times of operations."""

from benchmarks.measurements.latency import Latencies


def test_a_few_times_have_a_median_only() -> None:
    latencies = Latencies()
    for _ in range(3):
        with latencies.timed("find"):
            pass
    assert [figure.name for figure in latencies.figures()] == ["latency.find_ms"]


def test_many_times_have_a_95th_percentile() -> None:
    latencies = Latencies()
    for _ in range(40):
        with latencies.timed("find"):
            pass
    median, p95 = latencies.figures()
    assert (median.name, p95.name) == ("latency.find_ms", "latency.find_p95_ms")
    assert 0 <= median.value <= p95.value
