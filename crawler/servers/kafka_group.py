"""Read topics of Kafka as a member of a consumer group. Calls of the client run in threads.

Only offsets of messages that `done` was called for are committed: by `commit`, and when a partition
or the group is left. A process that dies before leaves them to the member that gets its partitions:
messages may come twice, and none is lost. The end of a partition is noted too, so that the group's
offsets tell whether it has read everything, in whichever process.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from crawler import config
from crawler.errors import ConfigurationError, ServerAway
from crawler.servers.kafka import (
    Connections,
    KafkaSettings,
    KafkaUrl,
    checked_topic,
    is_mistake,
    kafka_library,
    topic_metadata,
)
from crawler.util.tasks import in_daemon_thread, within

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message
    from confluent_kafka import TopicPartition as Partition
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

_SETTING = "KAFKA_SEEDS"
# After this time without an answer of the group, the log says what is waited for.
_JOIN_LOG_S = 5.0
# Of a client: its share of messages that were fetched ahead, and the answers that bring them. A
# message may be larger, and is then fetched alone.
_QUEUED_KB, _FETCH_BYTES = 4096, 1_000_000
# A broker accepts no shorter time without a heartbeat (group.min.session.timeout.ms).
_SESSION_MIN_S = 6.0
# For an answer about offsets, and for leaving the group.
_ANSWER_S, _CLOSE_S = 5.0, 5.0
# For the latter, if Kafka is away already: whoever stopped the crawl waits, too.
_CLOSE_AWAY_S = 1.0
_POLL_S = 0.1
_NO_TOPIC = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC"})
# Timestamp of a question for the end of a partition.
_LATEST = -1

T = TypeVar("T")
Place = tuple[str, int]


class KafkaAway(ServerAway):
    """Error of a cluster that does not answer, or does not let this member read."""


class Received(NamedTuple):
    """Message of a topic. `value` is None for a tombstone, and `next` the offset after it."""

    topic: str
    partition: int
    offset: int
    value: bytes | None
    # At the end of a partition nothing is received, and this is the offset of the next message.
    is_end: bool = False

    @property
    def next(self) -> int:
        return self.offset if self.is_end else self.offset + 1


class GroupMember:
    """Member of a consumer group. Its methods are called by one task, except `is_at_end`."""

    def __init__(
        self,
        settings: KafkaSettings,
        servers: str,
        topics: Sequence[str],
        group: str,
        *,
        session_s: float = 30.0,
        what: str = _SETTING,
    ) -> None:
        """A member without a heartbeat for `session_s` is dead, and others get its partitions.

        `what` is the setting or argument that names the topics.
        """
        self.servers = servers
        self.topics = topics
        self.group = group
        self._settings = settings
        self._what = what
        self._options = {
            "group.id": group,
            "session.timeout.ms": round(max(session_s, _SESSION_MIN_S) * 1000),
            "queued.max.messages.kbytes": _QUEUED_KB,
            "fetch.message.max.bytes": _FETCH_BYTES,
            # Members that stay keep their partitions while others come and go.
            "partition.assignment.strategy": "cooperative-sticky",
            **settings.client(servers),
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            # A new group reads what was sent before it.
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "error_cb": self._failed,
            "on_commit": self._committed_by_broker,
        }
        self._consumer: Any = None
        # One call of the client at a time, so that it is not closed during another. A poll ends
        # early if others wait.
        self._calling = Lock()
        self._callers = 0
        # Filled by the thread that polls. A call that is cancelled loses no message so.
        self._received: deque[Received] = deque()
        self._error: KafkaError | None = None
        self._connections = Connections()
        self._guard = Lock()
        # By partition that this member has: the offset up to which all is done, and committed.
        self._done: dict[Place, int] = {}
        self._committed: dict[Place, int] = {}
        self._assigned: set[Place] = set()
        # The partitions that the log names, and when it says that there are none yet.
        self._logged: list[Place] | None = None
        self._log_at_s = math.inf
        self._is_paused = False
        # Whether partitions came since the last poll.
        self._has_new = False

    @classmethod
    def from_settings(
        cls, settings: BaseSettings, url: str, crawl: str, *, what: str = _SETTING
    ) -> Self:
        """Make the member for kafka://host:9092/topic, or several topics with commas."""
        scheme, _, rest = url.partition("://")
        cluster, _, names = rest.partition("/")
        servers = KafkaUrl.parse(f"{scheme}://{cluster}", what=what, path="/topic").servers
        topics = [checked_topic(name, what=what) for name in names.split(",") if name]
        if not topics:
            raise ConfigurationError(
                f"{what} is {url!r} and names no topic; use kafka://host:9092/topic."
            )
        group = config.value(settings, "KAFKA_GROUP") or f"crawler-{crawl}"
        session_s = config.value(settings, "LEASE_TTL")
        kafka = KafkaSettings.from_settings(settings)
        return cls(kafka, servers, topics, group, session_s=session_s, what=what)

    # --- life ------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Join the group; ConfigurationError or ServerAway if that is impossible."""
        await in_daemon_thread(self._open)

    async def check(self) -> dict[str, int]:
        """Return the number of partitions of each topic, without joining the group.

        ConfigurationError or ServerAway if one cannot be read.
        """
        return await in_daemon_thread(self._check)

    async def close(self, *, is_away: bool = False) -> None:
        """Commit what is done and leave the group, in bounded time; less if Kafka is away."""
        limit_s = _CLOSE_AWAY_S if is_away else _CLOSE_S
        with suppress(KafkaAway):
            if not await within(limit_s, self._call(self._close, limit_s=limit_s)):
                logger.info("Kafka did not answer within %.0f s; the group finds out", limit_s)

    def _open(self) -> None:
        consumer = self._settings.make("Consumer", self._options, what=self._what)
        try:
            self._find_topics(consumer)
            consumer.subscribe(
                list(self.topics),
                on_assign=self._got,
                on_revoke=self._gave_back,
                on_lost=self._lost,
            )
        except BaseException:
            consumer.close()
            raise
        self._consumer = consumer
        self._log_at_s = monotonic() + _JOIN_LOG_S

    def _check(self) -> dict[str, int]:
        consumer = self._settings.make("Consumer", self._options, what=self._what)
        try:
            return self._find_topics(consumer)
        finally:
            consumer.close()

    def _find_topics(self, consumer: Any) -> dict[str, int]:
        """Return the number of partitions of each topic; CrawlerError if one cannot be read."""
        kafka = kafka_library(self._what)
        found: dict[str, int] = {}
        for topic in self.topics:
            try:
                about = topic_metadata(consumer, topic, self._timeout_s, self._connections)
            except kafka.KafkaException as error:
                cause = self._connections.why(error.args[0])
                raise self._settings.error(cause, self.servers, what=self._what) from error
            if about.error is not None and about.error.name() in _NO_TOPIC:
                raise ConfigurationError(
                    f"{self._what} names the topic {topic!r}, which Kafka at {self.servers} does "
                    "not have; create it, or correct its name."
                )
            if about.error is not None:
                raise self._settings.error(about.error, self.servers, topic, what=self._what)
            found[topic] = len(about.partitions)
        # Forget errors of brokers or addresses that were tried before one that answered.
        consumer.poll(0)
        self._answered()
        return found

    def _close(self) -> None:
        consumer, self._consumer = self._consumer, None
        self._send_offsets(consumer)
        # Answers come with polls; without any, messages are read again, which is harmless.
        until_s = monotonic() + _CLOSE_S / 2
        while self.has_uncommitted and monotonic() < until_s and self._error is None:
            consumer.poll(_POLL_S)
        consumer.close()

    @property
    def _timeout_s(self) -> float:
        return min(self._settings.timeout_s, 10.0)

    # --- messages --------------------------------------------------------------------------------

    async def read(self, limit: int, wait_s: float) -> list[Received]:
        """Return the next messages; wait for the first one. Raises KafkaAway."""
        if not self._received:
            await self._call(self._poll, limit, wait_s, limit_s=wait_s + _ANSWER_S)
        return [self._received.popleft() for _ in range(min(limit, len(self._received)))]

    async def stay(self, wait_s: float) -> None:
        """Read nothing for so long, and stay in the group. Raises KafkaAway."""
        await self._call(self._poll, 0, wait_s, limit_s=wait_s + _ANSWER_S)

    def done(self, messages: Iterable[Received]) -> None:
        """Note messages that need not be read again."""
        with self._guard:
            for message in messages:
                place = (message.topic, message.partition)
                # Another member has the partition now, and reads them again.
                if place in self._assigned:
                    self._done[place] = message.next

    @property
    def has_uncommitted(self) -> bool:
        """Whether messages are done whose offsets the group does not have."""
        return bool(self._uncommitted())

    async def commit(self) -> None:
        """Send the offsets of all that is done; `stay` and `read` get the answer."""
        await self._call(lambda: self._send_offsets(self._consumer), limit_s=_ANSWER_S)

    async def ping(self) -> None:
        """Return if cluster and group answer again after an error, or raise KafkaAway."""
        self._answered()
        await self.is_at_end()

    def _answered(self) -> None:
        self._error = None
        self._connections.worked()

    async def is_at_end(self) -> bool:
        """Return whether the group has done all messages of the topics. Raises KafkaAway."""
        return await self._call(self._compare_offsets, limit_s=3 * _ANSWER_S)

    def _compare_offsets(self) -> bool:
        kafka, consumer = kafka_library(self._what), self._consumer
        places: list[Place] = []
        for topic in self.topics:
            about = consumer.list_topics(topic, timeout=_ANSWER_S).topics[topic]
            if about.error is not None:
                # Without its partitions, the others would tell the end.
                raise kafka.KafkaException(about.error)
            places += [(topic, number) for number in about.partitions]
        asked = [kafka.TopicPartition(*place, _LATEST) for place in places]
        ends = consumer.offsets_for_times(asked, timeout=_ANSWER_S)
        committed = consumer.committed(
            [kafka.TopicPartition(*place) for place in places], timeout=_ANSWER_S
        )
        offsets = {(each.topic, each.partition): each.offset for each in committed}
        return all(
            end.error is None and end.offset <= max(0, offsets[end.topic, end.partition])
            for end in ends
        )

    # --- in threads ------------------------------------------------------------------------------

    async def _call(self, function: Callable[..., T], *arguments: Any, limit_s: float) -> T:
        def call() -> T:
            with self._calling:
                if self._consumer is None:
                    # It was closed while this call waited.
                    raise KafkaAway("this process has left the group")
                return function(*arguments)

        kafka = kafka_library(self._what)
        self._callers += 1
        try:
            # The thread goes on after this; messages that it receives are kept.
            async with asyncio.timeout(limit_s + _ANSWER_S):
                result = await in_daemon_thread(call)
        except TimeoutError as error:
            raise KafkaAway(f"no answer within {limit_s:g} s") from error
        except kafka.KafkaException as error:
            raise KafkaAway(self._settings.explain(error.args[0])) from error
        finally:
            self._callers -= 1
        if self._error is not None:
            raise KafkaAway(self._settings.explain(self._error))
        return result

    def _poll(self, limit: int, wait_s: float) -> None:
        """Receive up to `limit` messages; 0: only serve what keeps the client in the group."""
        consumer = self._consumer
        is_paused = limit == 0
        if is_paused or self._is_paused or self._has_new:
            # A partition that was paused when it was given away comes back as it was.
            self._has_new = False
            (consumer.pause if is_paused else consumer.resume)(consumer.assignment())
            self._is_paused = is_paused
        if self._logged is None and monotonic() > self._log_at_s:
            self._log_at_s = math.inf
            logger.info("Waiting for the consumer group %s to give out partitions", self.group)
        until_s = monotonic() + wait_s
        while (first := consumer.poll(_POLL_S)) is None:
            if monotonic() >= until_s or self._callers > 1:
                return
        rest = consumer.consume(limit - 1, 0) if limit > 1 else []
        for message in (first, *rest):
            self._receive(message)

    def _receive(self, message: Message) -> None:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        error = message.error()
        is_end = error is not None and error.name() == "_PARTITION_EOF"
        if error is not None and not is_end:
            self._failed(error)
            return
        assert topic is not None
        assert partition is not None
        assert offset is not None
        value = None if is_end else message.value()
        self._received.append(Received(topic, partition, offset, value, is_end))

    def _uncommitted(self) -> dict[Place, int]:
        with self._guard:
            return {
                place: offset
                for place, offset in self._done.items()
                if self._committed.get(place) != offset
            }

    def _send_offsets(self, consumer: Any) -> None:
        kafka = kafka_library(self._what)
        offsets = [kafka.TopicPartition(*place, at) for place, at in self._uncommitted().items()]
        if offsets:
            consumer.commit(offsets=offsets, asynchronous=True)

    def _committed_by_broker(self, error: KafkaError | None, offsets: list[Partition]) -> None:
        if error is not None:
            # They are sent again.
            logger.debug("Offsets were not committed: %s", self._settings.explain(error))
            return
        with self._guard:
            for each in offsets:
                place = (each.topic, each.partition)
                if each.error is None and place in self._assigned:
                    self._committed[place] = each.offset

    def _got(self, _consumer: Any, partitions: list[Partition]) -> None:
        self._has_new = True
        with self._guard:
            self._assigned.update((each.topic, each.partition) for each in partitions)
            places = sorted(self._assigned)
        if self._logged != places:
            self._logged = places
            shown = ", ".join(f"{topic}/{number}" for topic, number in places) or "none"
            logger.info("Partitions of Kafka that this process reads: %s", shown)

    def _gave_back(self, consumer: Any, partitions: list[Partition]) -> None:
        self._send_offsets(consumer)
        self._lost(consumer, partitions)

    def _lost(self, _consumer: Any, partitions: list[Partition]) -> None:
        with self._guard:
            for each in partitions:
                place = (each.topic, each.partition)
                self._assigned.discard(place)
                self._done.pop(place, None)
                self._committed.pop(place, None)

    def _failed(self, error: KafkaError) -> None:
        """Note an error that does not pass by itself at once, as that of one connection does."""
        self._connections.failed(error)
        if error.name() == "_ALL_BROKERS_DOWN" or is_mistake(error):
            self._error = self._connections.why(error)
        else:
            logger.debug("Kafka: %s", self._settings.explain(error))
