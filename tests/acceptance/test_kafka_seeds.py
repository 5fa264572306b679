"""Crawls with seeds of Kafka: they end with the topic, and work for any spider."""

import json
from pathlib import Path

from demo.access_log import read_log
from demo.process import DemoServer
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import sizes
from tests.support.kafka_broker import KafkaBroker

WEB = WebOptions(hosts=4, pages=3, seed=3, zoo="none")
OPTIONS = {"session.timeout.ms": 1500, "heartbeat.interval.ms": 200, "fetch.wait.max.ms": 20}


def test_a_crawl_ends_when_it_has_read_the_topic_and_goes_on_with_new_messages(
    kafka: KafkaBroker, topic_prefix: str, redis_url: str, tmp_path: Path
) -> None:
    topic, log = f"{topic_prefix}seeds", tmp_path / "access.tsv"
    settings = {"KAFKA_OPTIONS": json.dumps(OPTIONS)}
    crawls = Crawls(tmp_path, redis_url)
    with DemoServer(WEB, log) as web:
        kafka.send(topic, "http://s0.test/", "nonsense", json.dumps({"url": "http://s1.test/"}))
        seeds = f"{kafka.url}/{topic} http://s2.test/"
        run = crawls.run(seeds, web=web, arguments={"follow": "no"}, settings=settings)
        assert run.code == 0, run.stderr
        assert run.summary["finished"]
        assert "'nonsense' was left out: it is no URL" in run.stderr
        kafka.send(topic, "http://s3.test/")
        # The setting is for any spider.
        settings["KAFKA_SEEDS"] = f"{kafka.url}/{topic}"
        run = crawls.run(web=web, arguments={"follow": "no"}, settings=settings)
        assert run.code == 0, run.stderr
    fetched = sorted(entry.url for entry in read_log(log) if entry.target == "/")
    assert fetched == [f"http://s{number}.test/" for number in range(4)]
    found = sizes(redis_url)
    assert (found.pages, found.dead) == (4, 1)


def test_urls_that_a_crawl_discovers_are_seeds_of_another(
    kafka: KafkaBroker, topic_prefix: str, redis_url: str, tmp_path: Path
) -> None:
    log, topic = tmp_path / "access.tsv", f"{topic_prefix}discovered-urls"
    settings = {"KAFKA_OPTIONS": json.dumps(OPTIONS), "SINKS": kafka.url}
    first = {"CRAWL": "first", "KAFKA_TOPIC_PREFIX": topic_prefix, "KAFKA_DISCOVERED": True}
    second = {"CRAWL": "second", "KAFKA_TOPIC_PREFIX": f"{topic_prefix}second-"}
    crawls = Crawls(tmp_path, redis_url)
    with DemoServer(WEB, log) as web:
        run = crawls.run(
            "http://s0.test/", web=web, arguments={"scope": "any"}, settings={**settings, **first}
        )
        assert run.code == 0, run.stderr
        discovered = {message["url"] for message in kafka.values(topic)}
        assert discovered
        kafka.send(topic, "nonsense")
        run = crawls.run(
            f"{kafka.url}/{topic}",
            web=web,
            arguments={"follow": "no"},
            settings={**settings, **second},
        )
        assert run.code == 0, run.stderr
    pages = {page["url"] for page in kafka.values(f"{topic_prefix}second-crawled-documents")}
    errors = kafka.values(f"{topic_prefix}second-crawl-errors")
    assert discovered <= pages | {error["url"] for error in errors}
    [bad] = [error for error in errors if error["url"] is None]
    assert (bad["text"], bad["source"]["topic"]) == ("nonsense", topic)
    assert sizes(redis_url, "second").dead == len(errors) - 1


def test_a_crawl_that_has_its_pages_does_not_wait_for_the_end_of_a_topic(
    kafka: KafkaBroker, topic_prefix: str, redis_url: str, tmp_path: Path
) -> None:
    topic = f"{topic_prefix}seeds"
    kafka.create_topic(topic, 1)
    kafka.send(topic, "http://s0.test/", *(f"http://s0.test/{number}" for number in range(1000)))
    # The frontier is full with one URL, and more than one batch waits: the topic is never read to
    # its end.
    settings = {"KAFKA_OPTIONS": json.dumps(OPTIONS), "FRONTIER_MAX_WAITING": 1}
    with DemoServer(WEB) as web:
        run = Crawls(tmp_path, redis_url).run(
            f"{kafka.url}/{topic}",
            web=web,
            arguments={"follow": "no", "max_pages": 1},
            settings=settings,
        )
    assert run.code == 0, run.stderr
    assert sizes(redis_url).pages == 1


def test_a_crawl_without_its_topic_does_not_start(
    kafka: KafkaBroker, redis_url: str, tmp_path: Path
) -> None:
    run = Crawls(tmp_path, redis_url).run(f"{kafka.url}/no-such-topic")
    assert run.code == 2
    assert "names the topic 'no-such-topic', which Kafka at" in run.stderr
    assert "Traceback" not in run.stderr
