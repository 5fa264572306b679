"""The rate of a crawl, with two processes at work."""

from pathlib import Path

import pytest

from demo.access_log import read_log
from demo.process import DemoServer
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import Fleet

HOSTS, PAGES = 20, 2
# An interval of 50 ms, and what may be caught up with.
PER_MINUTE, INTERVAL_S, CATCH_UP_S = 1200, 0.05, 0.25
# Requests may arrive somewhat closer to each other than they started.
JITTER_S = 0.5


@pytest.mark.parametrize(
    ("arguments", "settings", "processes"),
    [
        ({"max_pages_per_minute": PER_MINUTE}, {}, 2),
        ({}, {"MAX_PAGES_PER_MINUTE": PER_MINUTE / 2}, 2),
    ],
)
def test_a_crawl_keeps_its_rate(
    tmp_path: Path,
    redis_url: str,
    arguments: dict[str, int],
    settings: dict[str, float],
    processes: int,
) -> None:
    log = tmp_path / "access.log"
    options = WebOptions(hosts=HOSTS, pages=PAGES, seed=1, zoo="none")
    with (
        DemoServer(options, log) as web,
        Fleet(Crawls(tmp_path, redis_url), web, **settings) as fleet,
    ):
        given = {**arguments, "scope": "any"}
        started = [fleet.start("http://s0.test/", arguments=given) for _ in range(processes)]
        for process in started:
            assert process.wait(100) == 0, process.log
    starts = sorted(entry.start_s for entry in read_log(log))
    assert len(starts) >= HOSTS * PAGES
    took_s = (len(starts) - 1) * INTERVAL_S - CATCH_UP_S * processes - JITTER_S
    assert starts[-1] - starts[0] >= took_s
