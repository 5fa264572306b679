"""A Kafka broker for tests: librdkafka's mock cluster in a process of its own (demo/kafka.py).

    def test_something(kafka: KafkaBroker) -> None: ...

It is shared by the tests of a worker; `topics` gives prefixes that no other test uses. A test that
stops it, cuts it or lets it fail starts one of its own: `with KafkaBroker() as broker`.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from types import TracebackType
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from demo.process import ROOT
from tests.support.waiting import DEADLINE_S, wait_until

# Numbers of the protocol: kinds of requests, and errors.
PRODUCE, FETCH, METADATA = 0, 1, 3
OFFSET_COMMIT, FIND_COORDINATOR, JOIN_GROUP = 8, 10, 11
INIT_PRODUCER_ID = 22
UNKNOWN_TOPIC, NOT_LEADER, TIMED_OUT = 3, 6, 7
MESSAGE_TOO_LARGE, NOT_ENOUGH_REPLICAS = 10, 19
TOPIC_NOT_ALLOWED, INVALID_RECORD = 29, 87
OUT_OF_ORDER, UNKNOWN_PRODUCER = 45, 59


class KafkaBroker:
    """A context manager. Its methods do what those of demo.kafka.MockCluster do."""

    def __init__(self, brokers: int = 1) -> None:
        self._brokers = brokers
        self._process: subprocess.Popen[str] | None = None
        # As in bootstrap.servers.
        self.servers = ""

    @property
    def url(self) -> str:
        return f"kafka://{self.servers}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "demo", "kafka", "--commands", f"--brokers={self._brokers}"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.servers = json.loads(self._process.stdout.readline())["servers"]

    def kill(self) -> None:
        """End it. All that it has is lost."""
        assert self._process is not None
        self._process.kill()
        self._process.communicate()
        self._process = None

    def pause(self) -> None:
        """Let it answer nothing, as a machine that hangs."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a method of the mock cluster, and wait until it has returned."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, *arguments]) + "\n")
        self._process.stdin.flush()
        assert json.loads(self._process.stdout.readline()) == {"done": name}

    def create_topic(self, name: str, partitions: int) -> None:
        self.call("create_topic", name, partitions)

    def fail_topic(self, name: str, error: int) -> None:
        self.call("fail_topic", name, error)

    def push_errors(self, api: int, *errors: int) -> None:
        self.call("push_errors", api, errors)

    def clear_errors(self, api: int) -> None:
        self.call("clear_errors", api)

    def set_delay(self, delay_ms: int) -> None:
        self.call("set_delay", delay_ms)

    def cut(self) -> None:
        """Close all ports and connections; what the topics have stays."""
        for broker in range(1, self._brokers + 1):
            self.call("set_down", broker)

    def mend(self) -> None:
        for broker in range(1, self._brokers + 1):
            self.call("set_up", broker)

    def send(self, topic: str, *values: str | bytes | None) -> None:
        """Send messages, and return when the broker has them."""
        producer = Producer({"bootstrap.servers": self.servers, "log_level": 0})
        for value in values:
            producer.produce(topic, value)
        assert producer.flush(DEADLINE_S) == 0

    def messages(self, topic: str) -> list[Message]:
        """All messages of a topic, by partition and offset; none if there is no such topic."""
        options = {"bootstrap.servers": self.servers, "group.id": uuid4().hex}
        consumer = Consumer({**options, "enable.partition.eof": False})
        try:
            found = consumer.list_topics(timeout=DEADLINE_S).topics.get(topic)
            wanted: dict[int, int] = {}
            starts: list[TopicPartition] = []
            for number in found.partitions if found is not None else ():
                place = TopicPartition(topic, number)
                low, high = consumer.get_watermark_offsets(place, timeout=DEADLINE_S)
                if high > low:
                    wanted[number] = high
                    starts.append(TopicPartition(topic, number, low))
            consumer.assign(starts)
            messages: list[Message] = []

            def read() -> bool:
                for message in consumer.consume(1000, 0.05):
                    assert message.error() is None, message.error()
                    messages.append(message)
                    number, offset = message.partition(), message.offset()
                    assert number is not None
                    assert offset is not None
                    if offset + 1 >= wanted.get(number, 0):
                        wanted.pop(number, None)
                return not wanted

            wait_until(read, f"all of {topic} is read")
            return sorted(messages, key=lambda each: (each.partition(), each.offset()))
        finally:
            consumer.close()

    def values(self, topic: str) -> list[Any]:
        """The JSON of all messages of a topic."""
        return [json.loads(message.value() or b"null") for message in self.messages(topic)]

    def __enter__(self) -> "KafkaBroker":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """The broker of this worker. Use topics of your own (`topic_prefix`), and let it run."""
    with KafkaBroker() as broker:
        yield broker


@pytest.fixture
def topic_prefix() -> str:
    """The beginning of topics that no other test uses."""
    return f"t{uuid4().hex[:8]}-"
