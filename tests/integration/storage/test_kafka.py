"""The sink for Kafka, with a broker that speaks the protocol."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from confluent_kafka import Producer as PlainProducer
from scrapy.settings import Settings

from crawler import settings as ours
from crawler.errors import ConfigurationError, ServerAway, SinkAway
from crawler.frontier import Entry
from crawler.items import Page
from crawler.storage.kafka.sink import KafkaSink
from crawler.storage.sink import Discovered, SinkContext
from crawler.storage.storage import BatchLimits, Storage
from tests.support.crawlers import project_crawler
from tests.support.kafka_broker import (
    INVALID_RECORD,
    MESSAGE_TOO_LARGE,
    NOT_ENOUGH_REPLICAS,
    OUT_OF_ORDER,
    PRODUCE,
    TOPIC_NOT_ALLOWED,
    UNKNOWN_TOPIC,
    KafkaBroker,
)
from tests.support.kcat import kcat
from tests.support.sinks import page
from tests.support.waiting import until

DOCUMENTS, ERRORS = "crawled-documents", "crawl-errors"


def make(broker: KafkaBroker, prefix: str = "", **settings: Any) -> KafkaSink:
    found = Settings({name: getattr(ours, name) for name in dir(ours) if name.isupper()})
    found.setdict({"SINKS": "none", "KAFKA_TOPIC_PREFIX": prefix, **settings})
    return KafkaSink.from_context(SinkContext("web", broker.url, found, None))  # type: ignore[arg-type]


@asynccontextmanager
async def opened(
    broker: KafkaBroker, prefix: str = "", **settings: Any
) -> AsyncIterator[KafkaSink]:
    sink = make(broker, prefix, **settings)
    await sink.open()
    yield sink
    await sink.close()


async def write(sink: KafkaSink, *pages: Page) -> dict[int, Any]:
    return dict(await sink.write([sink.prepare(each) for each in pages]))


def urls(broker: KafkaBroker, topic: str = DOCUMENTS) -> list[str]:
    return [value["url"] for value in broker.values(topic)]


async def test_pages_and_errors_are_there_when_write_returns(
    kafka: KafkaBroker, topic_prefix: str
) -> None:
    async with opened(kafka, topic_prefix, KAFKA_BODY=True) as sink:
        found = page(404, status=404, stored=False, reason="status_404")
        assert await write(sink, *(page(number) for number in range(50)), found) == {}
        printed = await asyncio.to_thread(
            kcat, kafka, f"{topic_prefix}{DOCUMENTS}", "-f", "%k %s\n"
        )
        lines = printed.splitlines()
    values = [(line.split()[0].decode(), json.loads(line.split(b" ", 1)[1])) for line in lines]
    assert [key for key, _ in values] == [value["url_hash"] for _, value in values]
    # One domain, so one partition, in order.
    assert [value["url"] for _, value in values] == [page(number).url for number in range(50)]
    (error,) = kafka.messages(f"{topic_prefix}{ERRORS}")
    assert error.key() == b"a.test"
    assert json.loads(error.value() or b"")["reason"] == "status_404"


async def test_messages_of_a_domain_are_where_others_look_for_its_key(
    kafka: KafkaBroker, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}{DOCUMENTS}"
    kafka.create_topic(topic, 7)
    async with opened(kafka, topic_prefix) as sink:
        pages = [page(number) for number in range(20)]
        for number, each in enumerate(pages):
            each.url = f"http://www.d{number}.test/"
        await write(sink, *pages)
    wanted: dict[str, int] = {}
    producer = PlainProducer({"bootstrap.servers": kafka.servers, "partitioner": "murmur2"})
    for number in range(20):

        def remember(_error: Any, message: Any) -> None:
            wanted[message.key().decode()] = message.partition()

        producer.produce(topic, b"null", f"d{number}.test".encode(), on_delivery=remember)
    producer.flush(30)
    found = {}
    for message in kafka.messages(topic):
        value = json.loads(message.value() or b"null")
        if value:
            found[value["domain"]] = message.partition()
    assert found == wanted
    assert len(set(found.values())) > 1


async def test_by_url_hash_the_pages_of_a_domain_are_spread(
    kafka: KafkaBroker, topic_prefix: str
) -> None:
    async with opened(kafka, topic_prefix, KAFKA_PARTITION_BY="url_hash") as sink:
        await write(sink, *(page(number) for number in range(50)))
    partitions = {each.partition() for each in kafka.messages(f"{topic_prefix}{DOCUMENTS}")}
    assert len(partitions) > 1


async def test_new_urls_and_the_end_have_topics_of_their_own(
    kafka: KafkaBroker, topic_prefix: str
) -> None:
    names = {"discovered": "found", "completed": "over"}
    async with opened(kafka, topic_prefix, KAFKA_DISCOVERED=True, KAFKA_TOPICS=names) as sink:
        assert sink.wants_discovered
        await sink.discover([Discovered(Entry(1, "http://b.test/", discovered_s=1), 50)])
        await sink.crawl_ended({"pages": 1})
    (found,) = kafka.values(f"{topic_prefix}found")
    assert (found["url"], found["score"]) == ("http://b.test/", 50)
    assert kafka.values(f"{topic_prefix}over")[0]["summary"] == {"pages": 1}


async def test_errors_of_the_broker_and_what_they_mean() -> None:
    with KafkaBroker() as broker:
        async with opened(broker, KAFKA_BODY=True, KAFKA_TIMEOUT=5) as sink:
            # Too many in one request, then too large alone, then small enough without its body.
            broker.push_errors(PRODUCE, MESSAGE_TOO_LARGE, MESSAGE_TOO_LARGE)
            assert await write(sink, page(1)) == {}
            assert broker.values(DOCUMENTS)[0]["omitted"] == ["body", "text"]
            broker.push_errors(PRODUCE, INVALID_RECORD)
            refused = await write(sink, page(2))
            assert not sink.is_away(refused[0])
            # The library repeats what passes; each message is there once.
            broker.push_errors(PRODUCE, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS)
            assert await write(sink, page(3)) == {}
            # After this error a producer is of no use: the next write has another.
            broker.push_errors(PRODUCE, OUT_OF_ORDER)
            with pytest.raises(SinkAway):
                await write(sink, page(4))
            assert await write(sink, page(4)) == {}
            broker.push_errors(PRODUCE, TOPIC_NOT_ALLOWED)
            with pytest.raises(SinkAway, match="the user may not use the topic"):
                await write(sink, page(5))

            async def is_allowed() -> bool:
                with suppress(SinkAway):
                    return await write(sink, page(5)) == {}
                return False

            await until(is_allowed, "the client has asked for the topic again")
        assert sorted(urls(broker)) == [page(number).url for number in (1, 3, 4, 5)]


async def test_a_start_without_a_broker_or_a_topic_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A topic may be in the making for so long.
    monkeypatch.setattr("crawler.storage.kafka.producer._MADE_WITHIN_S", 0.3)
    with KafkaBroker() as broker:
        broker.fail_topic(DOCUMENTS, TOPIC_NOT_ALLOWED)
        with pytest.raises(ConfigurationError, match=f"{DOCUMENTS}.*give it the right"):
            await make(broker).open()
        broker.fail_topic(DOCUMENTS, 0)
        broker.fail_topic(ERRORS, UNKNOWN_TOPIC)
        with pytest.raises(ConfigurationError, match=f"{ERRORS}.*create it"):
            await make(broker).open()
    with pytest.raises(ServerAway, match=r"Kafka at 127\.0\.0\.1.*refused"):
        await make(broker, KAFKA_TIMEOUT=1).open()


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({"KAFKA_TOPICS": {"pages": "a"}}, "KAFKA_TOPICS has pages; there are documents"),
        ({"KAFKA_TOPIC_PREFIX": "a b"}, "KAFKA_TOPIC_PREFIX names the topic 'a bcrawled"),
        ({"KAFKA_PARTITION_BY": "host"}, "use one of domain, url_hash"),
        ({"KAFKA_MAX_MESSAGE_BYTES": 5}, "100000 or more"),
        ({"KAFKA_OPTIONS": "{"}, "give a JSON object"),
    ],
)
def test_wrong_settings_are_named(
    kafka: KafkaBroker, settings: dict[str, Any], advice: str
) -> None:
    with pytest.raises(ConfigurationError, match=advice):
        make(kafka, **settings)


async def test_doctor_shows_topics_and_partitions(kafka: KafkaBroker, topic_prefix: str) -> None:
    kafka.create_topic(f"{topic_prefix}{DOCUMENTS}", 1)
    report = await make(kafka, topic_prefix).check()
    assert f"{topic_prefix}{ERRORS} 4" in report.text
    assert any("one partition" in warning for warning in report.warnings)


@pytest.mark.parametrize("way", ["pause", "cut"])
async def test_fetching_pauses_while_the_broker_is_away_and_nothing_is_lost(way: str) -> None:
    stats = project_crawler().stats
    assert stats is not None
    with KafkaBroker() as broker:
        quick = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100}
        sink = make(broker, KAFKA_TIMEOUT=1, KAFKA_OPTIONS=quick)
        storage = Storage({"kafka": sink}, stats, BatchLimits(), is_closing=lambda: False)
        pauses: list[bool] = []
        storage.pause = pauses.append
        await storage.open()
        try:
            await storage.put(page(0))
            leave: Callable[[], None] = broker.pause if way == "pause" else broker.cut
            back: Callable[[], None] = broker.resume if way == "pause" else broker.mend
            leave()
            writes = [asyncio.create_task(storage.put(page(number))) for number in range(1, 20)]
            await until(lambda: True in pauses, "fetching pauses")
            assert not any(write.done() for write in writes)
            back()
            await asyncio.gather(*writes)
            await until(lambda: not pauses[-1], "fetching goes on")
        finally:
            await storage.close()
        assert {*urls(broker)} == {page(number).url for number in range(20)}


async def test_a_write_that_was_given_up_is_not_sent_beside_the_next() -> None:
    with KafkaBroker() as broker:
        async with opened(broker) as sink:
            broker.cut()
            given_up = asyncio.create_task(write(sink, page(1)))
            # Its length counts errors of connections too.
            await until(lambda: sink._producer._client and sink._producer._client._batches)
            client = sink._producer._client
            assert client is not None
            given_up.cancel()
            await asyncio.wait([given_up])
            # Its own thread ends it, not the event loop, and not when memory is collected.
            await until(lambda: client.kafka is None)
            broker.mend()
            assert await write(sink, page(2)) == {}
        assert urls(broker) == [page(2).url]
