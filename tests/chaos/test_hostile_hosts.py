"""Hosts that turn hostile in mid-crawl cost their own pages time, and no other host anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from demo.access_log import read_log
from demo.control import HOSTILE_STATUS, Turn
from demo.judge import judge
from demo.process import DemoServer
from demo.truth import truth
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import Fleet
from tests.support.waiting import wait_until

WEB = WebOptions(hosts=12, pages=12, seed=2, zoo="none")
DELAY_S = 0.05
SETTINGS = {
    "DELAY_MIN": DELAY_S,
    "DOWNLOAD_TIMEOUT": 1.5,
    "RETRY_BASE": 0.3,
    "RETRY_TIMES": 20,
    "BREAKER_REST": 1,
    "ROBOTS_ERROR_TTL": 0.5,
    "CRAWL_MAX_WAIT": 60,
}
# Each is hostile in a way of its own. A page without an end is given up at once.
WAYS = [way for way in Turn if way is not Turn.ENDLESS]
# Not those whose home pages lead to all others.
HOSTILE = dict(zip(("s1.test", "s2.test", "s3.test", "s5.test", "s6.test"), WAYS, strict=True))


def pages_of(log: Path) -> set[str]:
    """Hosts of which pages were fetched."""
    return {entry.host for entry in read_log(log) if entry.target != "/robots.txt"}


@pytest.mark.slow
def test_hosts_that_turn_hostile_lose_no_page_and_hold_up_no_other(
    tmp_path: Path, redis_url: str
) -> None:
    log = tmp_path / "access.log"
    with (
        DemoServer(WEB, log, arguments=("--latency=0.02",)) as web,
        Fleet(Crawls(tmp_path, redis_url), web, **SETTINGS) as fleet,
    ):
        processes = [fleet.start("http://s0.test/", arguments={"scope": "any"})]
        wait_until(lambda: log.exists() and pages_of(log) >= HOSTILE.keys())
        processes.append(fleet.start())
        for host, way in HOSTILE.items():
            web.turn(host, way)

        def are_others_done() -> bool:
            seen = {entry.url for entry in read_log(log) if entry.status == 200}
            others = {url for url in known.must_fetch if url.split("/")[2] not in HOSTILE}
            return others <= seen

        known = truth(WEB)
        wait_until(are_others_done, "all pages of the other hosts are fetched")
        for host in HOSTILE:
            web.turn(host, "")
        assert [process.wait() for process in processes] == [0, 0], processes[0].log
    assert not any("Traceback" in process.log for process in processes)
    summary = json.loads((tmp_path / "process-0.json").read_text(encoding="utf-8"))
    assert summary["finished"], summary
    verdict = judge(log, known, min_delay_s=DELAY_S)
    assert verdict.ok, verdict.lines()
    hostile = {entry.host for entry in read_log(log) if entry.status == HOSTILE_STATUS}
    assert hostile == HOSTILE.keys()
