"""`scrapy crawl`: the exit code of a crawl that ended by itself."""

from types import SimpleNamespace
from typing import Any

import pytest
from scrapy.statscollectors import MemoryStatsCollector

from crawler.commands.crawl import Command
from crawler.errors import ExitCode
from crawler.scheduling.lease_pool import BAD_SEEDS, DATA_LOST, NO_SEEDS, REDIS_LOST
from tests.support.crawlers import project_crawler


@pytest.mark.parametrize(
    ("stats", "code"),
    [
        ({"finish_reason": "finished"}, ExitCode.DONE),
        ({"finish_reason": "shutdown"}, ExitCode.DONE),
        ({"finish_reason": "start_error"}, ExitCode.FAILED),
        ({"finish_reason": NO_SEEDS}, ExitCode.MISTAKE),
        ({"finish_reason": BAD_SEEDS}, ExitCode.MISTAKE),
        ({"finish_reason": REDIS_LOST}, ExitCode.SERVER_AWAY),
        ({"finish_reason": DATA_LOST}, ExitCode.DATA_LOST),
        ({"finish_reason": "finished", "feedexport/failed_count/S3": 1}, ExitCode.FAILED),
        ({"finish_reason": DATA_LOST, "feedexport/failed_count/S3": 1}, ExitCode.DATA_LOST),
    ],
)
def test_the_exit_code_tells_why_it_ended(stats: dict[str, Any], code: ExitCode) -> None:
    collector = MemoryStatsCollector(project_crawler())
    collector.set_stats(stats)
    assert Command._outcome(SimpleNamespace(stats=collector)) is code  # type: ignore[arg-type]
