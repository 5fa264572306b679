"""What an audit reads of Redis and the sinks: each thing that is left, lacking or there twice."""

from collections import Counter
from typing import Any

import psycopg
import pymongo
import pytest
import redis

from chaos import audit
from chaos.audit import Evidence, Finding
from chaos.evidence import of_kafka, of_mongo, of_postgres, of_redis
from chaos.servers import PARTITIONS, TOPICS, Messages
from crawler.frontier import Frontier
from crawler.servers.redis.connection import Client
from demo.truth import truth
from demo.web import WebOptions
from tests.integration.frontier.fleet import Place, beat, entries, one
from tests.support.kafka_broker import KafkaBroker

CRAWL, SHARDS = "test", 1
HASH = "00000000000000a1"


@pytest.fixture
def left(redis_url: str) -> Any:
    """Read what is left in Redis, as columns with their texts."""

    def read() -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        with redis.Redis.from_url(redis_url) as client:
            for column, text in of_redis(client, CRAWL, SHARDS):
                found.setdefault(column, []).append(text)
        return found

    return read


async def instance(client: Client) -> Frontier:
    return await Place(client, SHARDS).instance()


async def test_a_crawl_that_is_over_leaves_nothing(redis_client: Client, left: Any) -> None:
    frontier = await instance(redis_client)
    await frontier.add(entries(1))
    lease = await one(frontier)
    await frontier.release([(lease, 0)])
    await frontier.done([(lease, True)])
    await frontier.leave()
    assert left() == {}


async def test_a_lease_of_a_dead_process_is_found(redis_client: Client, left: Any) -> None:
    frontier = await instance(redis_client)
    await frontier.add(entries(1))
    await one(frontier)
    found = left()
    assert set(found) == {audit.LEAKS, audit.ORPHANS}
    leaks = "\n".join(found[audit.LEAKS])
    assert "its slot is taken by" in leaks
    assert f":leases:{frontier.owner}: 1 leases" in leaks
    assert any("is registered" in text for text in found[audit.ORPHANS])


async def test_urls_that_wait_are_delayed_or_given_up_are_found(
    redis_client: Client, left: Any
) -> None:
    frontier = await instance(redis_client)
    await frontier.add(entries(3))
    first = await one(frontier)
    await frontier.release([(first, 0)])
    await frontier.bury([(first, "status_500")])
    second = await one(frontier)
    await frontier.release([(second, 0)])
    await frontier.retry([(second, 60_000, second.entry)])
    await frontier.leave()
    texts = "\n".join(left()[audit.LOST])
    assert f"given up (status_500): {first.entry.url}" in texts
    assert "1 URLs are still delayed" in texts
    assert "http://a.test/2 still waits" in texts


async def test_what_is_on_the_disk_of_a_process_is_found(redis_client: Client, left: Any) -> None:
    await redis_client.hset(f"{{{CRAWL}}}:on_disk", "m1", "/spool")
    await redis_client.set("robots:lock:a.test", "1")
    await redis_client.set("robots:lock:b.test", "1", ex=60)
    texts = left()[audit.ORPHANS]
    assert len(texts) == 2
    assert any("m1" in text and "/spool" in text for text in texts)
    assert any("robots:lock:a.test" in text for text in texts)


async def test_an_owner_that_beats_is_an_orphan_when_all_have_ended(
    redis_client: Client, left: Any
) -> None:
    frontier = await instance(redis_client)
    await beat(frontier)
    assert any(frontier.owner in text for text in left()[audit.ORPHANS])


# --- sinks ----------------------------------------------------------------------------------------


@pytest.fixture
def evidence() -> Evidence:
    return Evidence(truth=truth(WebOptions(1, 1, zoo="none")), entries=[])


def texts(found: list[Finding], column: str) -> str:
    return "\n".join(each.text for each in found if each.column == column)


def test_mongodb(mongo_uri: str, mongo_db_name: str, evidence: Evidence) -> None:
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        database = client[mongo_db_name]
        pages = [
            {"url": "http://a.test/1", "url_hash": "1", "status": 200, "reason": ""},
            {"url": "http://a.test/2", "url_hash": "2", "status": 200, "duplicate_of": "1"},
            {"url": "http://a.test/3", "url_hash": "3", "status": 200, "duplicate_of": "9"},
            {"url": "http://a.test/4", "url_hash": "4", "status": 404},
            {"url": "http://a.test/4", "url_hash": "5", "status": 404},
        ]
        database["pages_metadata"].insert_many(pages)
        database["pages_content"].insert_many([{"page_id": "1"}, {"page_id": "8"}])
    found: list[Finding] = []
    of_mongo(mongo_uri, evidence, found, database=mongo_db_name)
    assert evidence.pages["mongo"] == Counter({"http://a.test/1": 1})
    assert evidence.failures["mongo"] == {"http://a.test/4"}
    assert "http://a.test/3 is a copy of 9, which is unknown" in texts(found, audit.LACKING)
    assert "the content 8 has no metadata" in texts(found, audit.LACKING)
    assert texts(found, audit.TWICE) == "mongo: http://a.test/4"
    assert len(found) == 3


def test_postgresql(postgres_url: str, evidence: Evidence) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute(
            "CREATE TABLE crawled_urls (crawl text, url_hash text, url text, http_status int, "
            "reason text, content_hash text); CREATE TABLE documents (crawl text, url_hash text, "
            "duplicate_of text, content_hash text)"
        )
        for number, status in ((1, 200), (2, 200), (3, 404), (4, 200)):
            connection.execute(
                "INSERT INTO crawled_urls VALUES ('web', %s, %s, %s, '', 'x')",
                (str(number), f"http://a.test/{number}", status),
            )
        connection.execute(
            "INSERT INTO documents VALUES ('web', '1', '', 'x'), ('web', '4', '7', 'x')"
        )
    found: list[Finding] = []
    of_postgres(postgres_url, evidence, found)
    assert evidence.pages["postgresql"] == Counter({"http://a.test/1": 1})
    assert evidence.failures["postgresql"] == {"http://a.test/3"}
    assert "http://a.test/2 has no document" in texts(found, audit.LACKING)
    assert "4 is a copy of 7, which it lacks" in texts(found, audit.LACKING)
    assert len(found) == 2


def test_kafka(evidence: Evidence) -> None:
    with KafkaBroker() as broker:
        for topic in TOPICS:
            broker.create_topic(topic, PARTITIONS)
        broker.send("crawled-documents", *['{"url": "http://a.test/1"}'] * 2)
        broker.send("crawl-errors", '{"url": "http://a.test/2"}')
        with Messages(broker.servers) as messages:
            found: list[Finding] = []
            of_kafka(messages, evidence, found)
            # Messages may be repeated.
            assert evidence.pages["kafka"] == Counter({"http://a.test/1": 1})
            assert evidence.failures["kafka"] == {"http://a.test/2"}
            assert found == []
            messages.missed = 3
            of_kafka(messages, evidence, found)
    assert "3 messages were dropped by the broker" in texts(found, audit.LACKING)
