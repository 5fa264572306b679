"""Seeds come from topics of Kafka: none is lost, and offsets are committed when Redis has them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from crawler.discovery.pushed import Pushed, PushedReader
from crawler.errors import ConfigurationError, ServerAway
from crawler.frontier import Added, Entry, Frontier
from crawler.scheduling.kafka_seeds import KafkaSeeds
from crawler.servers.kafka import KafkaSettings
from crawler.servers.kafka_group import GroupMember, KafkaAway
from crawler.servers.redis.connection import Client
from crawler.storage.sink import RejectedMessage
from crawler.urls import DEFAULT
from tests.support.kafka_broker import UNKNOWN_TOPIC, KafkaBroker
from tests.support.waiting import until

# The mock broker lets a group wait for one second less than its session.
QUICK = KafkaSettings(
    {
        "session.timeout.ms": 1200,
        "heartbeat.interval.ms": 100,
        "reconnect.backoff.max.ms": 200,
        "fetch.wait.max.ms": 10,
    }
)
PARTITIONS = 4


class Crawl:
    """A process that takes in seeds: what KafkaSeeds needs of the scheduler."""

    def __init__(self, frontier: Frontier, kafka: KafkaBroker, topic: str) -> None:
        self.frontier = frontier
        self.stats: Counter[str] = Counter()
        self.bad: list[RejectedMessage] = []
        self.full: bool | Exception = False
        self.may_add = asyncio.Event()
        self.may_add.set()
        self.may_reject = True
        self.member = GroupMember(QUICK, kafka.servers, [topic], f"group-{topic}", session_s=6)
        self.reader = PushedReader("KAFKA_SEEDS", DEFAULT, thresholds=(80, 60, 40, 20))
        self.seeds = KafkaSeeds(
            self.member,
            self.reader,
            self.add,
            self.reject,
            is_full=self.is_full,
            sync=self.sync,
            count=self.count,
        )

    def count(self, name: str, by: int) -> None:
        self.stats[name] += by

    async def is_full(self) -> bool:
        if isinstance(self.full, Exception):
            raise self.full
        return self.full

    async def add(self, entries: Sequence[Entry], mode: str) -> Added:
        await self.may_add.wait()
        return await self.frontier.add(entries, mode=mode)

    async def reject(self, bad: Sequence[RejectedMessage]) -> None:
        if not self.may_reject:
            raise ConnectionError
        self.bad += bad

    async def sync(self) -> None:
        """Nothing is killed here, so nothing has to be on the disk."""

    async def waiting(self) -> int:
        return (await self.frontier.sizes()).waiting


@pytest.fixture
async def frontier(redis_client: Client) -> Frontier:
    frontier = Frontier(redis_client, "web")
    await frontier.open()
    return frontier


@pytest.fixture
def topic(kafka: KafkaBroker, topic_prefix: str) -> str:
    name = f"{topic_prefix}seeds"
    kafka.create_topic(name, PARTITIONS)
    return name


@asynccontextmanager
async def running(crawl: Crawl) -> AsyncIterator[Crawl]:
    await crawl.seeds.open()
    crawl.seeds.start()
    try:
        yield crawl
    finally:
        await crawl.seeds.close()


def send(kafka: KafkaBroker, topic: str, *values: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": kafka.servers, "log_level": 0})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def committed(kafka: KafkaBroker, topic: str) -> int:
    """How many messages the group has done."""
    consumer = Consumer({"bootstrap.servers": kafka.servers, "group.id": f"group-{topic}"})
    try:
        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        return sum(max(0, place.offset) for place in consumer.committed(places, timeout=30))
    finally:
        consumer.close()


def urls(number: int, start: int = 0) -> list[bytes]:
    return [f"http://h{i}.test/".encode() for i in range(start, start + number)]


async def at_end(crawl: Crawl) -> None:
    await until(lambda: _is_at_end(crawl), "all messages are done")


async def _is_at_end(crawl: Crawl) -> bool:
    return not await crawl.seeds.waiting()


async def queues(frontier: Frontier) -> dict[str, int]:
    """The front queue of each URL that waits."""
    await frontier.register()
    claim = await frontier.claim(100, "all")
    return {lease.entry.url: lease.entry.queue for lease in claim.leases}


async def test_messages_are_urls_or_json_and_others_are_rejected_with_a_reason(
    frontier: Frontier, kafka: KafkaBroker, topic: str
) -> None:
    found = {"schema": "discovered/1", "url": "http://found.test/", "score": 45, "depth": 7}
    send(
        *(kafka, topic),
        b"http://plain.test",
        json.dumps({"url": "http://json.test/"}).encode(),
        json.dumps(found).encode(),
        None,
        b"\xff\xfe",
        b"nonsense",
        b"{",
        b'{"link": 1}',
        b"http://h.test/" + b"a" * 200_000,
        b"ftp://h.test/",
        b"",
    )
    async with running(Crawl(frontier, kafka, topic)) as crawl:
        await at_end(crawl)
    assert await queues(frontier) == {
        "http://plain.test/": 1,
        "http://json.test/": 1,
        "http://found.test/": 3,
    }
    assert {bad.text[:20]: (bad.reason, bad.last_error[:20]) for bad in crawl.bad} == {
        "\ufffd\ufffd": ("no_utf8", "it is no UTF-8"),
        "nonsense": ("no_scheme", "it is no URL; write "),
        "{": ("no_json", "it begins as JSON, a"),
        '{"link": 1}': ("no_url", "the JSON has no url"),
        "http://h.test/aaaaaa": ("too_long", "it has 200,014 bytes"),
        "ftp://h.test/": ("scheme", "only http and https "),
        "": ("no_scheme", "it is no URL; write "),
    }
    assert max(len(bad.text) for bad in crawl.bad) == 1000
    assert crawl.stats == {
        "seeds/messages": 11,
        "seeds/streamed": 3,
        "seeds/known": 0,
        "seeds/rejected": 7,
    }
    assert committed(kafka, topic) == 11


async def test_offsets_are_committed_when_redis_has_the_urls(
    frontier: Frontier, kafka: KafkaBroker, topic: str
) -> None:
    send(kafka, topic, *urls(8))
    crawl = Crawl(frontier, kafka, topic)
    crawl.may_add.clear()
    async with running(crawl):
        await until(lambda: crawl.seeds._batch, "messages are read")
        assert await crawl.seeds.waiting()
        assert committed(kafka, topic) == 0
        crawl.may_add.set()
        await at_end(crawl)
        assert committed(kafka, topic) == 8
    assert await crawl.waiting() == 8


async def test_what_a_process_added_and_did_not_commit_is_read_again_and_known(
    frontier: Frontier, kafka: KafkaBroker, topic: str
) -> None:
    send(kafka, topic, *urls(20))
    dying = Crawl(frontier, kafka, topic)

    async def cannot_sync() -> None:
        raise ConnectionError

    dying.seeds._sync = cannot_sync
    await dying.seeds.open()
    dying.seeds.start()
    await until(lambda: dying.stats["seeds/streamed"] == 20, "all are added")
    # It leaves the group, and must not commit what Redis may still lose.
    await dying.seeds.close()
    assert committed(kafka, topic) == 0
    async with running(Crawl(frontier, kafka, topic)) as crawl:
        await at_end(crawl)
    assert (crawl.stats["seeds/streamed"], crawl.stats["seeds/known"]) == (0, 20)
    assert await crawl.waiting() == 20


async def test_two_processes_share_the_partitions_and_one_takes_over(
    frontier: Frontier, kafka: KafkaBroker, topic: str
) -> None:
    one, two = (Crawl(frontier, kafka, topic) for _ in range(2))
    async with running(one):
        async with running(two):
            await until(
                lambda: {len(each.member._assigned) for each in (one, two)} == {PARTITIONS // 2},
                "each has half of the partitions",
            )
            send(kafka, topic, *urls(40))
            await at_end(one)
            assert [each.stats["seeds/streamed"] for each in (one, two)] == [20, 20]
        send(kafka, topic, *urls(40, start=40))
        await at_end(one)
    assert await one.waiting() == 80


async def test_a_topic_that_cannot_be_asked_is_not_at_its_end(topic_prefix: str) -> None:
    with KafkaBroker() as broker:
        topics = [f"{topic_prefix}{name}" for name in ("seeds", "empty")]
        for topic in topics:
            broker.create_topic(topic, 1)
        send(broker, topics[0], b"http://a.test/")
        member = GroupMember(QUICK, broker.servers, topics, "group")
        await member.open()
        broker.fail_topic(topics[0], UNKNOWN_TOPIC)
        with pytest.raises(KafkaAway, match="there is no such topic"):
            await member.is_at_end()
        await member.close()
        # As a check for the end of the crawl that waited for the close.
        with pytest.raises(KafkaAway, match="left the group"):
            await member.is_at_end()


@pytest.mark.parametrize("why", [True, ConnectionError()], ids=["full", "redis away"])
async def test_messages_wait_in_kafka_while_the_frontier_takes_none(
    frontier: Frontier, kafka: KafkaBroker, topic: str, why: bool | Exception
) -> None:
    crawl = Crawl(frontier, kafka, topic)
    async with running(crawl):
        send(kafka, topic, *urls(4))
        await at_end(crawl)
        crawl.full = why
        await until(lambda: crawl.member._is_paused, "partitions are paused")
        send(kafka, topic, *urls(40, start=4))
        assert await crawl.seeds.waiting()
        assert await crawl.waiting() == 4
        crawl.full = False
        await at_end(crawl)
    assert await crawl.waiting() == 44


async def test_a_bad_message_waits_for_its_place_and_is_not_committed_before(
    frontier: Frontier, kafka: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.scheduling.kafka_seeds._AGAIN_S", 0.05)
    send(kafka, topic, b"nonsense")
    crawl = Crawl(frontier, kafka, topic)
    crawl.may_reject = False
    async with running(crawl):
        await until(lambda: crawl.seeds._rejected, "it is read")
        assert await crawl.seeds.waiting()
        crawl.may_reject = True
        await at_end(crawl)
    assert [bad.text for bad in crawl.bad] == ["nonsense"]


async def test_messages_that_cannot_be_read_or_added_do_not_stop_the_others(
    frontier: Frontier, kafka: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = Crawl(frontier, kafka, topic)

    async def add(entries: Sequence[Entry], mode: str) -> Added:
        if any("h3." in entry.url for entry in entries):
            raise ValueError("too large")
        return await frontier.add(entries, mode=mode)

    crawl.seeds._add = add
    parse = crawl.reader.parse

    def fail(raw: bytes, *, now_s: float) -> list[Pushed]:
        if b"h5." in raw:
            raise LookupError("no such codec")
        return parse(raw, now_s=now_s)

    monkeypatch.setattr(crawl.reader, "parse", fail)
    send(kafka, topic, *urls(8))
    async with running(crawl):
        await at_end(crawl)
    assert {bad.reason for bad in crawl.bad} == {"bad_message"}
    assert {bad.last_error for bad in crawl.bad} == {
        "it could not be added: too large",
        "it could not be read: LookupError('no such codec')",
    }
    assert await crawl.waiting() == 6


async def test_the_crawl_goes_on_while_kafka_is_away(
    frontier: Frontier,
    topic_prefix: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("crawler.scheduling.kafka_seeds._AGAIN_S", 0.05)
    topic = f"{topic_prefix}seeds"
    with KafkaBroker() as broker:
        broker.create_topic(topic, PARTITIONS)
        crawl = Crawl(frontier, broker, topic)
        async with running(crawl):
            send(broker, topic, *urls(4))
            await at_end(crawl)
            broker.cut()
            await until(lambda: crawl.seeds.health.away, "it is noticed")
            assert await crawl.seeds.waiting()
            assert "Kafka has not answered" in crawl.seeds.health.trouble
            broker.mend()
            await until(lambda: not crawl.seeds.health.away, "it is back")
            send(broker, topic, *urls(4, start=4))
            await at_end(crawl)
        assert await crawl.waiting() == 8
    lines = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert [line.partition(" (")[0].partition(" after")[0] for line in lines] == [
        "Kafka is away",
        "Kafka is back",
    ]


async def test_a_process_closes_in_time_though_kafka_hangs(
    frontier: Frontier, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.servers.kafka_group._CLOSE_S", 0.5)
    topic = f"{topic_prefix}seeds"
    with KafkaBroker() as broker:
        broker.create_topic(topic, PARTITIONS)
        crawl = Crawl(frontier, broker, topic)
        await crawl.seeds.open()
        crawl.seeds.start()
        send(broker, topic, *urls(4))
        await at_end(crawl)
        broker.pause()
        try:
            async with asyncio.timeout(20):
                await crawl.seeds.close()
        finally:
            broker.resume()


@pytest.mark.parametrize(
    ("servers", "name", "error", "says"),
    [
        (None, "missing", ConfigurationError, "names the topic 'missing', which Kafka at"),
        ("127.0.0.1:1", "any", ServerAway, "refused .*start it, or correct its address in KAFKA_S"),
    ],
)
async def test_a_start_without_topic_or_broker_ends_with_what_to_do(
    kafka: KafkaBroker, servers: str | None, name: str, error: type[Exception], says: str
) -> None:
    settings = KafkaSettings(QUICK.options, timeout_s=0.5)
    member = GroupMember(settings, servers or kafka.servers, [name], "group")
    with pytest.raises(error, match=says):
        await member.open()


async def test_partitions_that_were_given_away_while_they_were_paused_are_read_again(
    frontier: Frontier, kafka: KafkaBroker, topic: str
) -> None:
    one, two = (Crawl(frontier, kafka, topic) for _ in range(2))
    async with running(one):
        await until(lambda: len(one.member._assigned) == PARTITIONS, "it has all partitions")
        one.full = True
        await until(lambda: one.member._is_paused, "partitions are paused")
        async with running(two):
            await until(lambda: len(two.member._assigned) == PARTITIONS // 2, "two has half")
            one.full = False
            await until(lambda: not one.member._is_paused, "the others are read")
        send(kafka, topic, *urls(40))
        await at_end(one)
    assert await one.waiting() == 40
