"""What a scrape answers, and that dashboards and alerts ask for nothing else."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from scrapy.crawler import Crawler

from crawler.frontier import Sizes
from crawler.monitoring.ledger import Fleet
from crawler.monitoring.process_stats import ProcessStats
from crawler.monitoring.prometheus import (
    Sheet,
    add_crawl,
    add_worker,
)
from crawler.scheduling.recrawls import Recrawls
from tests.support.crawlers import project_crawler
from tests.support.promtool import promtool

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
GRAFANA = DEPLOY / "grafana" / "crawler.json"
ASKED = re.compile(r"\bcrawler_\w+")
STATS: dict[str, Any] = {
    "item_scraped_count": 12,
    "pages/crawled": 11,
    "downloader/response_bytes": 34_000,
    "downloader/response_status_count/200": 12,
    "failed/timeout": 2,
    "failed/callback_error_KeyError": 1,
    "failed/status_404": 3,
    "dead/timeout": 9,
    "retry/status_503": 4,
    "failed/http://secret.example/": 1,
    "frontier/discovered": 100,
    "politeness/rest_ms": 2500,
    "log_count/ERROR": 1,
    "my/stat": 5,
    "my/other": 6,
}


def stored(state: str, *, waiting: int, lag_s: float, spooled: int = 0) -> dict[str, Any]:
    sinks = [
        {"name": "mongo", "state": "ok", "waiting": 1, "lag_s": 0.1},
        {"name": "Files", "state": state, "waiting": waiting, "lag_s": lag_s},
    ]
    return {"sinks": sinks, "spooled_pages": spooled, "spooled_bytes": spooled * 1000}


INSTANCES = {
    "a": {"silent_s": 1.0, "pages_per_s": 2.0, "held": 3, "store": "ok"}
    | stored("ok", waiting=2, lag_s=0.5),
    "b": {"silent_s": 2.0, "pages_per_s": 1.5, "held": 4, "store": "away"}
    | stored("away", waiting=40, lag_s=7.5, spooled=9),
    "c": {"silent_s": 25.0, "pages_per_s": 9.0, "held": 9, "store": "ok"}
    | stored("away", waiting=99, lag_s=99.0, spooled=99),
}
TOTALS = {"pages": 500, "failed/dns": 3, "fetch/0.1": 9, "sink/pages/mongo": 490}
FLEET = Fleet(totals=TOTALS, instances=INSTANCES)


def sizes(**changes: int) -> Sizes:
    numbers = {name: number for number, name in enumerate(Sizes.__dataclass_fields__) if number}
    return Sizes((1, 2, 3, 4, 5), **(numbers | changes))


def worker(stats: dict[str, Any] | None = None, *names: str) -> Crawler:
    crawler = project_crawler(METRICS_STATS=names)
    outbox = SimpleNamespace(unsettled=[1, 2])
    leases = SimpleNamespace(held=7, outbox=outbox)
    recrawls = Recrawls()
    recrawls.use("budget:86400/d")
    crawler.engine = SimpleNamespace(  # type: ignore[assignment]
        scheduler=SimpleNamespace(leases=leases, recrawls=recrawls),
        downloader=SimpleNamespace(active={1, 2, 3}),
    )
    assert crawler.stats is not None
    crawler.stats.set_stats(dict(stats or {}))
    storage: Any = SimpleNamespace(report=lambda: stored("ok", waiting=3, lag_s=0.2))
    ProcessStats.of(crawler).storage = storage
    return crawler


def sheet_of(worker: Crawler | None, fleet: Fleet | None) -> Sheet:
    sheet = Sheet("crawl")
    if worker is not None:
        add_worker(sheet, worker)
    if fleet is not None:
        hosts = {"ready": 4, "blocked": 1}
        add_crawl(sheet, fleet, [sizes(paused=0)], hosts, memory_bytes=1000, memory_ratio=0.25)
    return sheet


def text(worker: Crawler | None, fleet: Fleet | None) -> str:
    return sheet_of(worker, fleet).text().decode()


def definitions() -> dict[str, tuple[str, list[str], str]]:
    """All metrics: kind, labels and meaning."""
    return {
        metric.name: (
            metric.type,
            [label for label in metric._labelnames if label != "crawl"],  # type: ignore[attr-defined]
            metric.documentation,
        )
        for metric in sheet_of(worker(STATS), FLEET).collect()
    }


def samples(found: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset((k, v) for k, v in sample.labels.items() if k != "crawl")): (
            sample.value
        )
        for family in text_string_to_metric_families(found)
        for sample in family.samples
    }


def value(found: str, name: str, **labels: str) -> float:
    return samples(found)[name, frozenset(labels.items())]


@pytest.fixture
def everything() -> str:
    return text(worker(STATS), FLEET)


def test_promtool_has_nothing_against_the_text(everything: str) -> None:
    promtool("check", "metrics", stdin=everything.encode())


def test_a_process_and_its_fleet_are_told_apart(everything: str) -> None:
    assert value(everything, "crawler_pages_crawled_total", scope="worker") == 11
    assert value(everything, "crawler_items_scraped_total", scope="worker") == 12
    assert value(everything, "crawler_pages_crawled_total", scope="fleet") == 500
    failed = "crawler_pages_failed_total"
    assert value(everything, failed, scope="worker", cause="timeout") == 2
    assert value(everything, failed, scope="worker", cause="status_404") == 3
    # Also before the first of its kind, which would else be in no rate.
    assert value(everything, failed, scope="worker", cause="poison") == 0
    assert value(everything, failed, scope="worker", cause="callback_error") == 1
    assert value(everything, failed, scope="fleet", cause="dns") == 3
    assert value(everything, "crawler_politeness_wait_seconds_total", scope="worker") == 2.5


def test_the_frontier_is_shown_by_state_and_queue(everything: str) -> None:
    for queue in range(1, 6):
        size = value(everything, "crawler_frontier_size", state="front", queue=str(queue))
        assert size == queue
    assert value(everything, "crawler_frontier_size", state="back", queue="") == 1
    assert value(everything, "crawler_frontier_leases_reclaimed_total") == sizes().reclaimed
    assert value(everything, "crawler_active_hosts", state="ready") == 4


def test_each_shard_has_its_sizes() -> None:
    sheet = Sheet("crawl")
    shards = [sizes(leased=2), sizes(leased=5)]
    add_crawl(sheet, FLEET, shards, {}, memory_bytes=1000, memory_ratio=0.25)
    found = sheet.text().decode()
    for shard, leased in {"0": 2, "1": 5}.items():
        assert value(found, "crawler_shard_size", shard=shard, state="leased") == leased


def test_only_processes_that_beat_count(everything: str) -> None:
    assert value(everything, "crawler_active_workers") == 2
    assert value(everything, "crawler_silent_workers") == 1
    assert value(everything, "crawler_pages_per_second", scope="fleet") == 3.5
    assert value(everything, "crawler_leases_held", scope="fleet") == 7
    assert value(everything, "crawler_store_breaker_open", scope="fleet") == 1


def test_each_sink_has_its_state(everything: str) -> None:
    def of(metric: str, scope: str, sink: str) -> float:
        return value(everything, f"crawler_sink_{metric}", scope=scope, sink=sink)

    assert (of("up", "fleet", "mongo"), of("up", "fleet", "Files")) == (1, 0)
    assert of("waiting_pages", "fleet", "Files") == 42
    assert of("lag_seconds", "fleet", "Files") == 7.5
    assert (of("up", "worker", "Files"), of("waiting_pages", "worker", "Files")) == (1, 3)
    assert of("pages_total", "fleet", "mongo") == 490
    # Also before the first write.
    assert of("failed_writes_total", "worker", "Files") == 0
    assert value(everything, "crawler_spooled_pages", scope="fleet") == 9
    assert value(everything, "crawler_spooled_bytes", scope="fleet") == 9000
    assert value(everything, "crawler_spooled_pages", scope="worker") == 0


def test_a_sink_that_no_process_writes_to_is_neither_up_nor_down() -> None:
    found = text(None, Fleet(totals={"sink/pages/mongo": 7}))
    assert value(found, "crawler_sink_pages_total", scope="fleet", sink="mongo") == 7
    assert "crawler_sink_up" not in found


def test_durations_are_histograms(everything: str) -> None:
    found = worker(STATS)
    ProcessStats.of(found).fetch.observe(0.15)
    ProcessStats.of(found).fetch.observe(99.0)
    lines = text(found, None)
    name = "crawler_fetch_latency_seconds"
    assert value(lines, f"{name}_bucket", scope="worker", le="0.1") == 0
    assert value(lines, f"{name}_bucket", scope="worker", le="0.2") == 1
    assert value(lines, f"{name}_bucket", scope="worker", le="+Inf") == 2
    assert value(lines, f"{name}_sum", scope="worker") == pytest.approx(99.15)
    assert value(everything, f"{name}_count", scope="fleet") == 9


def test_no_text_of_the_web_becomes_a_label(everything: str) -> None:
    assert "secret.example" not in everything
    assert "my/stat" not in everything


def test_more_of_scrapys_stats_are_exported_on_wish() -> None:
    found = text(worker(STATS, "my/stat", "not/there"), None)
    assert value(found, "crawler_scrapy_stat", stat="my/stat") == 5
    assert value(found, "crawler_scrapy_stat", stat="item_scraped_count") == 12
    assert "not/there" not in found


def test_without_redis_the_process_still_answers() -> None:
    found = text(worker(STATS), None)
    assert value(found, "crawler_pages_crawled_total", scope="worker") == 11
    assert 'scope="fleet"' not in found


def test_an_admin_api_that_stands_alone_answers_for_the_fleet() -> None:
    found = text(None, FLEET)
    names = {name for name, _ in samples(found)}
    assert names >= {
        "crawler_pages_crawled_total",
        "crawler_pages_failed_total",
        "crawler_links_discovered_total",
        "crawler_fetch_latency_seconds_bucket",
        "crawler_parse_latency_seconds_bucket",
        "crawler_frontier_size",
        "crawler_active_workers",
        "crawler_pages_per_second",
    }


# --- what others ask for --------------------------------------------------------------------------


def queries() -> list[str]:
    panels = json.loads(GRAFANA.read_text(encoding="utf-8"))["panels"]
    asked = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    return [*asked, ALERTS.read_text(encoding="utf-8")]


def test_grafana_and_the_alerts_ask_for_what_is_exported(everything: str) -> None:
    exported = {name for name, _ in samples(everything)}
    asked = {name for query in queries() for name in ASKED.findall(query)}
    assert len(asked) > 30
    assert asked <= exported


def test_all_that_is_exported_is_shown_or_watched_or_plain() -> None:
    asked = {name for query in queries() for name in ASKED.findall(query)}
    exported = definitions()
    shown = {name for name in exported if any(one.startswith(name) for one in asked)}
    assert {"crawler_frontier_size", "crawler_event_loop_lag_seconds"} <= shown
    assert len(shown) > len(exported) / 2


def test_queries_use_labels_that_their_metrics_have() -> None:
    labels_of = {name: labels for name, (_, labels, _) in definitions().items()}
    for query in queries():
        for name, labels in re.findall(r"\b(crawler_\w+)\{([^}]*)\}", query):
            base = re.sub(r"_(total|bucket|sum|count)$", "", name)
            allowed = {"crawl", "instance", "le", *labels_of[base]}
            assert set(re.findall(r"(\w+)=", labels)) <= allowed, (name, labels)


def test_the_dashboard_of_grafana_has_panels_that_do_not_overlap() -> None:
    panels = json.loads(GRAFANA.read_text(encoding="utf-8"))["panels"]
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        own = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not own & cells, panel["title"]
        cells |= own
        assert at["x"] + at["w"] <= 24
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_every_panel_of_grafana_says_what_it_shows() -> None:
    panels = json.loads(GRAFANA.read_text(encoding="utf-8"))["panels"]
    told = [panel["description"] for panel in panels if panel["type"] != "row"]
    assert len(told) > 30
    assert len(set(told)) == len(told)
    for text in told:
        assert len(text) > 30
        assert text.endswith(".")
        # Words of the code of old, which nothing else uses.
        assert not re.search(r"\b(rests?|manners|worker)\b", text.replace("worker processes", ""))


def test_the_rules_are_valid_and_fire_when_they_should() -> None:
    folder = DEPLOY / "prometheus"
    promtool("check", "rules", "alerts.yml", cwd=folder)
    promtool("test", "rules", "alerts_test.yml", cwd=folder)


def test_the_scrape_configuration_is_valid() -> None:
    promtool("check", "config", "--syntax-only", str(DEPLOY / "prometheus" / "prometheus.yml"))


def test_the_documentation_has_every_metric() -> None:
    text = (DEPLOY.parent / "docs" / "metrics.md").read_text(encoding="utf-8")
    row = r"^\| `(crawler_\w+)` \| (\w+) \| ([\w, ]*) \| (.*) \|$"
    assert set(re.findall(row, text, re.MULTILINE)) == {
        (name + "_total" * (kind == "counter"), kind, ", ".join(labels), meaning)
        for name, (kind, labels, meaning) in definitions().items()
    }


def test_the_documentation_has_every_alert() -> None:
    text = (DEPLOY.parent / "docs" / "operations.md").read_text(encoding="utf-8")
    for alert in re.findall(r"alert: (\w+)", ALERTS.read_text(encoding="utf-8")):
        assert f"| `{alert}` |" in text
