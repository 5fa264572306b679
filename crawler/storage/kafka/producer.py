"""Messages on their way to Kafka, and their delivery reports.

librdkafka sends in threads of its own; another thread of ours takes its reports and passes them to
the event loop. A message that nobody acknowledged within the time limit is given up by the library,
and only then sent again by us: no more than what was given to `send` is ever on its way.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from crawler.errors import SinkAway
from crawler.servers.kafka import Connections, KafkaSettings, kafka_library, topic_metadata
from crawler.storage.kafka.messages import Message, partition_of
from crawler.util.tasks import in_daemon_thread

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

# Errors of single messages, by the names of the protocol. All others pass, or people correct them.
TOO_LARGE = frozenset({"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"})
_REFUSED = TOO_LARGE | {
    *("INVALID_MSG_SIZE", "INVALID_RECORD", "INVALID_TIMESTAMP", "POLICY_VIOLATION")
}
# A topic that is being made on first use has no leader at first.
_BEING_MADE = frozenset({"LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC"})
_MADE_WITHIN_S = 5.0
_ASK_AGAIN_S = 0.2
# Partitions may be added to a topic.
_PARTITIONS_KEPT_S = 300.0
# Between two looks at whether the thread is to end.
_POLL_S = 0.1
# What the brokers count in a message beside its value: key, time, lengths.
_OVERHEAD_BYTES = 2000
# More than any batch of ours, as a last limit.
_QUEUE_KB = 262_144


class Producer:
    """Idempotent producer that knows the topics of each kind of message."""

    def __init__(
        self,
        servers: str,
        topics: Mapping[str, str],
        settings: KafkaSettings,
        *,
        max_bytes: int,
        what: str,
    ) -> None:
        """`topics` has the topic of each kind; `what` is the setting that names the servers."""
        self.servers = servers
        self._topics = topics
        self._settings = settings
        self._what = what
        timeout_ms = round(settings.timeout_s * 1000)
        self._options = {
            "compression.type": "lz4",
            "queue.buffering.max.kbytes": _QUEUE_KB,
            **settings.client(servers),
            "acks": "all",
            "enable.idempotence": True,
            "message.timeout.ms": timeout_ms,
            "message.max.bytes": max_bytes + _OVERHEAD_BYTES,
            # It is asked for each write; we ask for the numbers of partitions ourselves.
            "topic.metadata.propagation.max.ms": min(30_000, timeout_ms),
        }
        self._client: _Client | None = None
        # By topic: the number of its partitions, and until when that is believed.
        self._partitions: dict[str, tuple[int, float]] = {}

    @property
    def timeout_s(self) -> float:
        """Seconds after which `send` has surely ended."""
        return self._settings.timeout_s + 5.0

    async def open(self) -> None:
        """Find all topics, or let the brokers make them; CrawlerError if that fails."""
        for topic in self._topics.values():
            error = await self._find(topic)
            if error is not None:
                raise self._settings.error(error, self.servers, topic, what="SINKS")

    async def close(self) -> None:
        """End the client. What it has not sent is given up."""
        client, self._client = self._client, None
        if client is not None:
            client.stop()
            await asyncio.to_thread(client.join)

    async def send(self, messages: Sequence[Message]) -> dict[int, Exception]:
        """Send messages; return when all are acknowledged, with the errors of those refused.

        SinkAway if a broker does not take some: then all may be sent again.
        """
        for topic in {self._topics[message.kind] for message in messages}:
            await self._keep_partitions(topic)
        client = self._running()
        batch = _Batch(len(messages))
        try:
            for index, message in enumerate(messages):
                topic = self._topics[message.kind]
                chosen = partition_of(message.domain or message.key, self._partitions[topic][0])
                client.produce(batch, index, topic, message, chosen)
            await batch.done
        except BufferError as error:
            self._drop(client)
            raise SinkAway("too many messages wait for the brokers") from error
        except asyncio.CancelledError:
            # The caller gave up: what is still queued must not be sent beside the next attempt.
            self._drop(client)
            raise
        return self._checked(client, batch)

    def _checked(self, client: _Client, batch: _Batch) -> dict[int, Exception]:
        if batch.is_lost:
            self._drop(client)
            why = self._settings.explain(batch.fatal) if batch.fatal else "the producer ended"
            raise SinkAway(why)
        refused: dict[int, Exception] = {}
        for index, error in batch.errors.items():
            if error.fatal() or error.name() == "_FATAL":
                # This producer can send nothing more.
                self._drop(client)
            if error.name() not in _REFUSED:
                if error.name() in _BEING_MADE or error.name() == "_UNKNOWN_PARTITION":
                    self._partitions.clear()
                raise SinkAway(self._settings.explain(client.connections.why(error)))
            refused[index] = kafka_library(self._what).KafkaException(error)
        return refused

    async def brokers(self) -> dict[str, int]:
        """Return the number of partitions of each topic, as the brokers have it now."""
        for topic in self._topics.values():
            await self._find(topic)
        return {topic: count for topic, (count, _) in self._partitions.items()}

    # -------------------------------------------------------------------------------------------

    async def _keep_partitions(self, topic: str) -> None:
        """Make sure that the number of partitions of a topic is known, and not old."""
        known = self._partitions.get(topic)
        if known is not None and monotonic() < known[1]:
            return
        error = await self._find(topic)
        if error is None:
            return
        if known is None:
            raise SinkAway(self._settings.explain(error))
        self._partitions[topic] = known[0], monotonic() + _PARTITIONS_KEPT_S

    async def _find(self, topic: str) -> KafkaError | None:
        """Ask for the partitions of a topic; return the error if they are not known."""
        until_s = monotonic() + _MADE_WITHIN_S
        while True:
            client = self._running()
            error = await in_daemon_thread(
                partial(self._ask, client.kafka, client.connections, topic)
            )
            if error is None or error.name() not in _BEING_MADE or monotonic() > until_s:
                break
            await asyncio.sleep(_ASK_AGAIN_S)
        return error and client.connections.why(error)

    def _ask(self, kafka: Any, connections: Connections, topic: str) -> KafkaError | None:
        library = kafka_library(self._what)
        try:
            found = topic_metadata(kafka, topic, self._settings.timeout_s, connections)
        except library.KafkaException as error:
            return error.args[0]  # type: ignore[no-any-return]
        if found.error is not None:
            return found.error  # type: ignore[no-any-return]
        until_s = monotonic() + _PARTITIONS_KEPT_S
        self._partitions[topic] = len(found.partitions), until_s
        return None

    def _running(self) -> _Client:
        if self._client is None or self._client.is_stopped:
            self._client = _Client(self._settings, self._options, self._what)
        return self._client

    def _drop(self, client: _Client) -> None:
        client.stop()
        if self._client is client:
            self._client = None


class _Batch:
    """Messages that were sent together. `done` is set when each has its report."""

    def __init__(self, size: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._left = size
        self.errors: dict[int, KafkaError] = {}
        # Set if the client ended before all reports came, and why, as far as that is known.
        self.is_lost = False
        self.fatal: KafkaError | None = None
        self.done: asyncio.Future[None] = self._loop.create_future()
        if not size:
            self.done.set_result(None)

    def report(self, index: int, error: KafkaError | None) -> bool:
        """Note the report of a message, and return whether it was the last."""
        if error is not None:
            self.errors[index] = error
        self._left -= 1
        if not self._left:
            self._finish_soon()
        return not self._left

    def lose(self, why: KafkaError | None) -> None:
        """Note that no more reports come."""
        self.is_lost, self.fatal = True, why
        self._finish_soon()

    def _finish_soon(self) -> None:
        # From any thread.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


class _Client:
    """Client of the library, with the thread that takes its reports, and ends it.

    The end of a client takes a tenth of a second, which the event loop must not wait for.
    """

    def __init__(self, settings: KafkaSettings, options: Mapping[str, Any], what: str) -> None:
        self.connections = Connections()
        # None when the thread has ended.
        self.kafka: Any = settings.make(
            "Producer", {**options, "error_cb": self.connections.failed}, what=what
        )
        self._exception = kafka_library(what).KafkaException
        # Guards the batches, which both threads change.
        self._lock = threading.Lock()
        self._batches: set[_Batch] = set()
        # Whether no more reports come.
        self._has_ended = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka", daemon=True)
        self._thread.start()

    def produce(
        self, batch: _Batch, index: int, topic: str, message: Message, partition: int
    ) -> None:
        """Queue a message; its report comes to the batch. BufferError if the queue is full."""

        def report(error: KafkaError | None, _message: object = None) -> None:
            if error is None:
                self.connections.worked()
            with self._lock:
                if batch.report(index, error):
                    self._batches.discard(batch)

        with self._lock:
            if self._has_ended:
                batch.lose(self.connections.cause)
                return
            self._batches.add(batch)
            kafka = self.kafka
        try:
            kafka.produce(
                topic,
                value=message.value,
                key=message.key.encode(),
                partition=partition,
                on_delivery=report,
            )
        except self._exception as error:
            # Refused at once, as for its size.
            report(error.args[0])

    def stop(self) -> None:
        """Send nothing more. What is queued is given up."""
        with self._lock:
            if not self._has_ended:
                self.kafka.purge(in_queue=True, in_flight=True, blocking=False)
        self._stopped.set()

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join()

    def _run(self) -> None:
        fatal: KafkaError | None = None
        try:
            while not self._stopped.is_set():
                self.kafka.poll(_POLL_S)
            # The reports of what was given up: without them its memory is not freed.
            self.kafka.flush(_POLL_S)
        except self._exception as error:
            # The producer can send nothing more.
            fatal = error.args[0]
            self._stopped.set()
        with self._lock:
            self._has_ended = True
            left, self._batches = self._batches, set()
            kafka, self.kafka = self.kafka, None
        for batch in left:
            batch.lose(fatal or self.connections.cause)
        del kafka

    @property
    def is_stopped(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._stopped.is_set()
