"""Crawls whose browsers are killed at random: no page is lost, and no host is burdened more."""

import json
import os
import random
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from chaos.faults.browsers import browsers_of
from demo.judge import judge
from demo.process import DemoServer
from demo.truth import truth
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import Fleet
from tests.support.browser import PROGRAM
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium on PATH")

KILLS = 50 if os.environ.get("STORM") else 3
WEB = WebOptions(hosts=12 if os.environ.get("STORM") else 4, pages=24, zoo="browser")
DELAY_S = 0.02
SETTINGS: dict[str, Any] = {
    "DELAY_MIN": DELAY_S + 0.01,
    "RENDER_TIMEOUT": 6,
    # Whatever is killed is tried again.
    "RETRY_TIMES": 20,
    "CRAWL_MAX_WAIT": 60,
}


def test_browsers_that_are_killed_lose_no_page(tmp_path: Path, redis_url: str) -> None:
    chance = random.Random(1)
    log, feed = tmp_path / "access.log", tmp_path / "pages"
    with (
        DemoServer(WEB, log) as web,
        Fleet(Crawls(tmp_path, redis_url), web, **SETTINGS) as fleet,
    ):
        arguments = {"scope": "any", "render": "auto"}
        processes = [
            fleet.start(
                "http://s0.test/",
                arguments=arguments,
                FEEDS=json.dumps({f"{feed}-{number}.jsonl": {"format": "jsonl"}}),
            )
            for number in range(2)
        ]
        killed = 0
        while killed < KILLS and any(process.running for process in processes):
            wait_until(
                lambda: browsers_of(processes) or not any(each.running for each in processes),
                what="a browser runs",
            )
            for pid in chance.sample(found := browsers_of(processes), min(1, len(found))):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
            fetched = log.read_text().count("\n")
            wait_until(
                lambda before=fetched: (
                    log.read_text().count("\n") > before + chance.randrange(20)
                    or not any(each.running for each in processes)
                ),
                what="the crawl goes on",
            )
        for process in processes:
            assert process.wait(1200) == 0, process.log
            assert "Traceback" not in process.log, process.log
    assert killed >= KILLS * 0.8
    expected = truth(WEB, renders=True, read_sitemaps=True)
    # The document of a page whose browser was killed is fetched again.
    verdict = judge(log, expected, min_delay_s=DELAY_S, allow_repeats=2 * killed)
    assert verdict.ok, "\n".join(verdict.lines())
    pages = [
        json.loads(line)
        for file in tmp_path.glob("pages-*.jsonl")
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    texts = {page["url"]: page["text"] for page in pages}
    for url, shown in expected.shown.items():
        if url in expected.must_store:
            assert all(text in texts[url] for text in shown.texts), url
