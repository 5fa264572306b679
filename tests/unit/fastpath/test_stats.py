"""Our statistics count as Scrapy's do."""

import pytest
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from crawler.fastpath.stats import Stats


@pytest.mark.parametrize("kind", [MemoryStatsCollector, Stats])
def test_counts_start_where_they_are_told_and_add_up(kind: type[MemoryStatsCollector]) -> None:
    stats = kind(get_crawler())
    stats.inc_value("a")
    stats.inc_value("a", 2)
    stats.inc_value("b", start=10)
    stats.max_value("c", 3)
    stats.max_value("c", 2)
    stats.set_value("d", "text")
    assert stats.get_stats() == {"a": 3, "b": 11, "c": 3, "d": "text"}
    assert stats.get_value("e", 7) == 7
