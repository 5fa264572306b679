"""A crawl on a cluster of which one master dies or hangs: the others' sites are crawled on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.judge import judge
from demo.process import DemoServer
from demo.truth import truth
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import Fleet, sizes
from tests.support.cluster import FAULTS, Fault, RedisProcess, running_cluster
from tests.support.waiting import wait_until

WEB = WebOptions(hosts=32, pages=12, seed=6, zoo="demo")
EXPECTED = truth(WEB, read_sitemaps=True)
DELAY_S = 0.2
CONCURRENCY = 16


@pytest.fixture
def masters(tmp_path: Path) -> Iterator[list[RedisProcess]]:
    """Three, of which two serve their slots while the third is away."""
    with running_cluster(tmp_path, timeout_ms=500, whole=False) as nodes:
        yield nodes


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_sites_of_the_other_masters_give_pages_while_one_is_away(
    tmp_path: Path, masters: list[RedisProcess], fault: Fault
) -> None:
    log = tmp_path / "access.log"

    def fetched() -> int:
        return log.read_text().count("\n") if log.exists() else 0

    with DemoServer(WEB, log, arguments=("--latency=0.02",)) as web:
        crawls = Crawls(tmp_path, masters[1].url)
        settings = {"DELAY_MIN": DELAY_S + 0.01, "CONCURRENT_REQUESTS": CONCURRENCY}
        with Fleet(crawls, web, **settings) as fleet:
            process = fleet.start("http://s0.test/", arguments={"scope": "any"})
            wait_until(lambda: fetched() >= 60, what="60 fetches")
            fault.begin(masters[0])
            process.says("Redis is away")
            # More than were in flight, and than one a site.
            target = fetched() + CONCURRENCY + WEB.hosts
            wait_until(lambda: fetched() >= target, what="pages while a master is away")
            assert "Redis is back" not in process.log
            fault.mend(masters[0])
            assert process.wait() == 0, process.log
        web.stop()
    assert "Traceback" not in process.log, process.log
    left = sizes(masters[1].url)
    assert (left.unfinished, left.leased, left.owners) == (0, 0, 0), process.log
    verdict = judge(log, EXPECTED, min_delay_s=DELAY_S, allow_repeats=4 * CONCURRENCY)
    assert verdict.ok, "\n".join(verdict.lines())
