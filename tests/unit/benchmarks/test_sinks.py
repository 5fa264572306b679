"""What the benchmark of sinks makes of its measurements, and a small run of it."""

import pytest

from benchmarks import sinks
from benchmarks.sinks import Run, figures, measure, pages


def test_figures_are_medians_with_their_spread() -> None:
    runs = {
        "mongo": [Run(1000, 0.4), Run(1200, 0.3), Run(900, 0.9)],
        "postgresql": [Run(6000, 0.1)],
        "elasticsearch": [Run(500, 0.2)],
    }
    found = {figure.name: figure for figure in figures(runs)}
    assert found["sinks.mongo.pages_per_s"].value == 1000
    assert found["sinks.mongo.rate_spread"].value == 300
    assert found["sinks.mongo.cpu_ms_per_page"].value == 0.4
    assert found["sinks.mongo.cpu_ms_spread"].value == pytest.approx(0.6)
    assert found["sinks.postgresql.records_per_s"].met
    assert "sinks.elasticsearch.pages_per_s" not in found
    assert found["sinks.elasticsearch.cpu_ms_per_page"].value == 0.2


def test_each_round_has_new_pages_of_the_same_kind() -> None:
    first, second = pages(30, 1), pages(30, 2)
    assert not {page.url_hash for page in first} & {page.url_hash for page in second}
    assert [page.body for page in first] == [page.body for page in second]
    for page in first:
        assert 25_000 < len(page.body) < 27_000
        assert page.exchange is not None
        assert page.title
        assert len(page.links) == 60


def test_a_small_run_measures_a_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "_QUICK_PAGES", 30)
    found = {figure.name: figure.value for figure in measure(True, ["warc"])}
    assert found["sinks.warc.pages_per_s"] > 0
    assert found["sinks.warc.cpu_ms_per_page"] > 0
