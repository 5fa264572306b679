"""Two crawlers read seeds of Kafka, and are killed: every message is fetched or rejected.

`make storm` kills 50 processes.
"""

import asyncio
import json
import os
import random
from pathlib import Path
from time import monotonic

from confluent_kafka import Producer

from crawler.frontier import CrawlControl
from crawler.servers.redis.connection import connect
from demo.access_log import read_log
from demo.process import DemoServer
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import Fleet, Process, sizes
from tests.support.kafka_broker import KafkaBroker
from tests.support.waiting import wait_until

IS_STORM = bool(os.environ.get("STORM"))
KILLS, URLS_A_ROUND = (50, 200) if IS_STORM else (3, 60)
HOSTS, BAD_A_ROUND = 16, 5
OPTIONS = {"session.timeout.ms": 1500, "heartbeat.interval.ms": 200, "fetch.wait.max.ms": 20}


def bad_texts(redis_url: str) -> list[str]:
    """The texts of the messages that became dead letters."""

    async def ask() -> list[str]:
        redis = await connect(redis_url)
        try:
            letters = await (await CrawlControl.open(redis, "web")).dead(limit=10_000)
            return [
                json.loads(each.data)["text"] for each in letters if each.reason == "bad_message"
            ]
        finally:
            await redis.aclose()

    return asyncio.run(ask())


def test_no_message_is_lost_when_processes_are_killed(
    kafka: KafkaBroker, topic_prefix: str, redis_url: str, tmp_path: Path
) -> None:
    chance = random.Random(7)
    topic = f"{topic_prefix}seeds"
    kafka.create_topic(topic, 4)
    producer = Producer({"bootstrap.servers": kafka.servers})
    good: set[str] = set()
    bad: set[str] = set()
    log = tmp_path / "access.tsv"

    def send() -> None:
        for _ in range(URLS_A_ROUND):
            url = f"http://s{chance.randrange(HOSTS)}.test/n{len(good)}"
            good.add(url)
            producer.produce(topic, url.encode())
        for _ in range(BAD_A_ROUND):
            text = f"nonsense {len(bad)}"
            bad.add(text)
            producer.produce(topic, text.encode())
        assert producer.flush(60) == 0

    options = WebOptions(hosts=HOSTS, pages=1, seed=2, zoo="none")
    with (
        DemoServer(options, log) as web,
        Fleet(
            Crawls(tmp_path, redis_url),
            web,
            LEASE_TTL=2,
            KAFKA_OPTIONS=json.dumps(OPTIONS),
            DELAY_MIN=0.001,
        ) as fleet,
    ):

        def start() -> Process:
            seeds = f"{kafka.url}/{topic}"
            return fleet.start(seeds, arguments={"follow": "no"}, CRAWL_IDLE="wait")

        running = [start(), start()]
        for process in running:
            process.says("Seeds are read from Kafka")
        for _ in range(KILLS):
            before = sizes_added(redis_url)
            send()
            # Some of them are in the frontier, and of these some are not committed.
            wait_until(lambda at=before: sizes_added(redis_url) > at, "messages are added")
            until_s = monotonic() + chance.random() * 0.3
            wait_until(lambda at=until_s: monotonic() > at)
            victim = running.pop(chance.randrange(2))
            victim.kill()
            running.append(start())
        wait_until(lambda: sizes_added(redis_url) == len(good), "all URLs are in the frontier")
        wait_until(lambda: bad <= {*bad_texts(redis_url)}, "all others are rejected")
        wait_until(lambda: sizes(redis_url).unfinished == 0, "all are fetched")
    fetched = {entry.url for entry in read_log(log)}
    assert good <= fetched


def sizes_added(redis_url: str) -> int:
    return sizes(redis_url).added
