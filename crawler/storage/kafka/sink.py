"""Sink that sends messages to Kafka: SINKS="kafka://host:9092".

A page is durable when a broker has acknowledged its message, with all replicas in sync (acks=all).
The producer is idempotent, so a message that the library repeats is there once. A batch that is
written again after an error may be there twice: consumers get each message at least once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from crawler import config
from crawler.errors import ConfigurationError
from crawler.items import Page
from crawler.servers.kafka import KafkaSettings, KafkaUrl, checked_topic, kafka_library
from crawler.storage.kafka import messages
from crawler.storage.kafka.messages import Message
from crawler.storage.kafka.producer import TOO_LARGE, Producer
from crawler.storage.sink import (
    Discovered,
    RejectedMessage,
    Results,
    Sink,
    SinkContext,
    SinkReport,
)
from crawler.storage.sinks import uses_mongo
from crawler.util.format import plural

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """Settings of the messages."""

    prefix: str = config.setting("KAFKA_TOPIC_PREFIX")
    names: Mapping[str, str] = config.setting("KAFKA_TOPICS")
    discovered: bool = config.setting("KAFKA_DISCOVERED")
    body: bool = config.setting("KAFKA_BODY")
    max_bytes: int = config.setting("KAFKA_MAX_MESSAGE_BYTES")
    partition_by: str = config.setting("KAFKA_PARTITION_BY")

    def topics(self) -> dict[str, str]:
        """Return the topic of each kind of message; those not named have their default names."""
        known = StreamSettings().names
        if unknown := self.names.keys() - known.keys():
            raise ConfigurationError(
                f"KAFKA_TOPICS has {', '.join(sorted(unknown))}; there are {', '.join(known)}."
            )
        named = {**known, **self.names}
        if not self.discovered:
            del named["discovered"]
        for name in named.values():
            checked_topic(name, what="KAFKA_TOPICS")
        return {
            kind: checked_topic(f"{self.prefix}{name}", what="KAFKA_TOPIC_PREFIX")
            for kind, name in named.items()
        }


class KafkaSink(Sink):
    """Sink of messages: a page, an error, a new URL, and the end of the crawl."""

    wants_rejected = True
    wants_end = True
    # JSON of a page of 24 KB with its body takes 0.2 ms.
    inline_bytes = 60_000

    def __init__(
        self, producer: Producer, crawl: str, settings: StreamSettings, *, in_mongo: bool
    ) -> None:
        """`in_mongo`: bodies are in MongoDB, too."""
        super().__init__(f"kafka://{producer.servers}")
        self.wants_discovered = settings.discovered
        self._producer = producer
        self._crawl = crawl
        self._settings = settings
        self._in_mongo = in_mongo

    @classmethod
    def from_context(cls, context: SinkContext) -> Self:
        # Before anything is opened.
        kafka_library("SINKS=kafka")
        url = KafkaUrl.parse(context.target, what="SINKS")
        if url.topic:
            raise ConfigurationError(
                f"SINKS has {context.target}; leave /{url.topic} out, and name topics by "
                "KAFKA_TOPIC_PREFIX and KAFKA_TOPICS."
            )
        settings = config.fill(StreamSettings, context.settings)
        producer = Producer(
            *(url.servers, settings.topics(), KafkaSettings.from_settings(context.settings)),
            max_bytes=settings.max_bytes,
            what="SINKS=kafka",
        )
        return cls(producer, context.crawl, settings, in_mongo=uses_mongo(context.settings))

    @property
    def timeout_s(self) -> float:
        # A batch whose messages are too large together is sent one by one.
        return 3 * self._producer.timeout_s

    async def open(self) -> None:
        await self._producer.open()

    async def close(self) -> None:
        await self._producer.close()

    def prepare(self, page: Page) -> Message:
        places: dict[str, Any] = {}
        if self._in_mongo and page.stored:
            places["mongo"] = {"crawl": page.crawl, "page_id": page.duplicate_of or page.url_hash}
        message = messages.page_message(
            page,
            with_body=self._settings.body,
            max_bytes=self._settings.max_bytes,
            places=places,
        )
        return message if self._settings.partition_by == "domain" else message.by_key()

    async def write(self, batch: Sequence[Message]) -> Results:
        refused = await self._producer.send(batch)
        for index, error in list(refused.items()):
            if error.args[0].name() in TOO_LARGE:
                # The broker counts all messages of a request together.
                if (still := await self._send_alone(batch[index])) is None:
                    del refused[index]
                else:
                    refused[index] = still
        return refused

    async def _send_alone(self, message: Message) -> Exception | None:
        """Send a message that was too large with others, if need be without its body."""
        error = (await self._producer.send([message])).get(0)
        if error is None or (small := messages.smaller(message)) is None:
            return error
        return (await self._producer.send([small])).get(0)

    async def discover(self, urls: Sequence[Discovered]) -> None:
        sent = [messages.discovered_message(found, self._crawl) for found in urls]
        for index, error in (await self._producer.send(sent)).items():
            # Its page must not fail for a URL that is in the frontier all the same.
            logger.error("Kafka did not take %s: %s", urls[index].entry.url, error)

    async def reject(self, rejected: Sequence[RejectedMessage]) -> None:
        now = datetime.now(UTC)
        sent = [messages.rejection_message(self._crawl, each, at=now) for each in rejected]
        for index, error in (await self._producer.send(sent)).items():
            logger.error("Kafka did not take the report of %s: %s", rejected[index], error)

    async def crawl_ended(self, summary: Mapping[str, Any]) -> None:
        message = messages.completed_message(self._crawl, summary, datetime.now(UTC))
        for error in (await self._producer.send([message])).values():
            raise error

    async def check(self) -> SinkReport:
        await self.open()
        try:
            partitions = await self._producer.brokers()
        finally:
            await self.close()
        counts = ", ".join(f"{topic} {count}" for topic, count in partitions.items())
        text = f"{self.target} has {plural(len(partitions), 'topic')} (partitions: {counts})"
        single = [topic for topic, count in partitions.items() if count == 1]
        warnings = {}
        if single:
            warnings[f"{', '.join(single)}: one partition, so one consumer gets everything"] = (
                "add partitions if consumers shall share the work"
            )
        return SinkReport(text, warnings)
