"""Crawls into Kafka and PostgreSQL whose processes are killed, while the broker is stopped or cut.

The topics hold at least every page, every error and every new URL, the catalogue each URL once.
`make storm` has 50 deaths.
"""

import os
import random
from pathlib import Path

import psycopg
import pytest

from crawler.urls import canonical
from demo.process import DemoServer
from demo.truth import truth
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import Fleet, Process, sizes
from tests.support.kafka_broker import KafkaBroker
from tests.support.waiting import wait_until

IS_STORM = bool(os.environ.get("STORM"))
DEATHS = 50 if IS_STORM else 3
WEB = WebOptions(hosts=64 if IS_STORM else 12, pages=42 if IS_STORM else 9, seed=6, zoo="none")
SEED = "http://s0.test/"


@pytest.mark.timeout(1800 if IS_STORM else 300)
def test_killed_crawlers_leave_every_url_in_kafka_and_once_in_postgresql(
    tmp_path: Path, redis_url: str, postgres_url: str
) -> None:
    chance, expected, log = random.Random(3), truth(WEB), tmp_path / "access.log"
    with (
        KafkaBroker() as broker,
        DemoServer(WEB, log, arguments=("--latency=0.05",)) as web,
        Fleet(
            Crawls(tmp_path, redis_url),
            web,
            SINKS=f"{broker.url} {postgres_url}",
            KAFKA_DISCOVERED=True,
            KAFKA_TIMEOUT=2,
            LEASE_TTL=2.0,
            RETRY_TIMES=0,
        ) as fleet,
    ):
        for topic in ("crawled-documents", "discovered-urls"):
            # A partition of the mock broker keeps 5 MB.
            broker.create_topic(topic, 16)

        def start() -> Process:
            return fleet.start(SEED, arguments={"scope": "any"})

        def fetched() -> int:
            return log.read_bytes().count(b"\n") if log.exists() else 0

        processes = [start(), start()]
        for death in range(DEATHS):
            target = fetched() + chance.randrange(4, 12)
            wait_until(lambda target=target: fetched() >= target or not processes[0].running)
            if death % 3 == 1:
                broker.cut()
            victim = chance.randrange(2)
            processes[victim].kill()
            broker.mend()
            processes[victim] = start()
        for process in processes:
            assert process.wait() == 0, process.log
            assert "Traceback" not in process.log
        left = sizes(redis_url)
        assert (left.unfinished, left.leased) == (0, 0)
        documents = broker.values("crawled-documents")
        ended = broker.values("crawl-errors")
        # In flight at five deaths by chance, or while the machine had no time for the process.
        assert {value["reason"] for value in ended} <= {"poison", "stood_still"}
        errors = {value["url"] for value in ended}
        assert left.dead == len(errors)
        found = {canonical(value["url"]) for value in broker.values("discovered-urls")}
        pages = {value["url"] for value in documents}
        assert not expected.missing_from(pages | errors)
        assert left.pages <= len(pages)
        assert pages | errors <= found | {SEED}
        with psycopg.connect(postgres_url) as connection:
            rows = [url for (url,) in connection.execute("SELECT url FROM crawled_urls")]
        assert sorted(rows) == sorted(pages | errors)
        # Each page is there about once: what was in flight at a death may be there twice.
        assert len(documents) < len(pages) + 50 * DEATHS
        ends = broker.values("crawl-completed")
        assert [end["summary"]["state"] for end in ends][-1:] == ["finished"]
        print(
            f"{DEATHS} deaths; {len(pages)} pages in {len(documents)} messages, {len(errors)} "
            f"other URLs in {len(ended)}, {len(found)} new URLs"
        )
