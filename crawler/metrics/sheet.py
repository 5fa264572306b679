"""One answer to a scrape: samples are added by name, the text comes out. No state beyond it."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from crawler.metrics.catalogue import METRICS
from crawler.vitals.histogram import Histogram

CONTENT_TYPE = CONTENT_TYPE_LATEST


class Sheet:
    """The metrics of the catalogue, as far as somebody filled them in."""

    def __init__(self, crawl: str) -> None:
        self._crawl = crawl
        self._families: dict[str, Metric] = {}

    def add(self, name: str, value: float, **labels: str) -> None:
        """Add a sample; the metric and its labels are those of the catalogue."""
        family = self._family(name)
        assert isinstance(family, (CounterMetricFamily, GaugeMetricFamily))
        family.add_metric(self._values(name, labels), value)

    def add_histogram(self, name: str, histogram: Histogram, **labels: str) -> None:
        """Add all samples of a histogram."""
        family = self._family(name)
        assert isinstance(family, HistogramMetricFamily)
        buckets, total = [], 0
        for bound, count in zip((*histogram.bounds_s, None), histogram.counts, strict=True):
            total += count
            buckets.append(("+Inf" if bound is None else repr(float(bound)), float(total)))
        family.add_metric(self._values(name, labels), buckets, histogram.sum_s)

    def collect(self) -> Iterator[Metric]:
        """What prometheus_client asks of a registry."""
        yield from self._families.values()

    def text(self) -> bytes:
        """The answer, in the text format."""
        return generate_latest(self)

    def _family(self, name: str) -> Metric:
        family = self._families.get(name)
        if family is None:
            metric = METRICS[name]
            kind = {
                "counter": CounterMetricFamily,
                "gauge": GaugeMetricFamily,
                "histogram": HistogramMetricFamily,
            }[metric.kind]
            family = self._families[name] = kind(
                name, metric.help, labels=("crawl", *metric.labels)
            )
        return family

    def _values(self, name: str, labels: dict[str, str]) -> list[str]:
        return [self._crawl, *(labels[label] for label in METRICS[name].labels)]
