"""Crawlers that die while they write to Elasticsearch, on a server that rejects and cuts."""

import random
from functools import partial
from pathlib import Path

from demo.process import DemoServer
from demo.truth import truth
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import Fleet, sizes
from tests.support.elastic_server import Answer, error, serving
from tests.support.waiting import wait_until

WEB = WebOptions(hosts=4, pages=8, seed=6, zoo="none")
PASSWORD = "s3cret-word"
REJECTED = error(429, "circuit_breaking_exception", "told to")


def test_killed_crawlers_leave_one_document_for_each_page(tmp_path: Path, redis_url: str) -> None:
    chance = random.Random(4)

    def answer(method: str) -> Answer | None:
        return REJECTED if method == "POST" and chance.random() < 0.1 else None

    with (
        serving(user=f"crawler:{PASSWORD}") as server,
        DemoServer(WEB, tmp_path / "access.log", arguments=("--latency=0.05",)) as web,
        Fleet(Crawls(tmp_path, redis_url), web) as fleet,
    ):
        server.answers += [answer] * 1000
        server.cuts += chance.choices([None, False, True], [8, 1, 1], k=1000)
        settings = {
            "SINKS": server.url(f"crawler:{PASSWORD}"),
            "LEASE_TTL": 1.0,
            "RETRY_TIMES": 0,
            "STORE_BATCH_MAX": 3,
            "LOG_LEVEL": "DEBUG",
        }
        logs = []
        for _ in range(2):
            enough = sum(server.batches) + 8
            victim = fleet.start("http://s0.test/", arguments={"scope": "any"}, **settings)
            wait_until(partial(lambda least: sum(server.batches) > least, enough), what="documents")
            victim.kill()
            logs.append(victim.log)
        last = fleet.start(None, arguments={"scope": "any"}, **settings)
        assert last.wait() == 0, last.log
        logs.append(last.log)
        left = sizes(redis_url)
        assert (left.unfinished, left.leased, left.dead) == (0, 0, 0), last.log
        assert not truth(WEB).missing_from(server.documents)
        assert len(server.documents) == len(server.indexes["pages"].documents)
    for log in logs:
        assert "Traceback" not in log
        assert PASSWORD not in log
