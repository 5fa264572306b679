"""Servers of a storm: each may be killed, stopped and started again on its data and its port."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections import Counter, deque
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.support import s3_server
from tests.support.cluster import RedisProcess
from tests.support.kafka_broker import KafkaBroker
from tests.support.postgres_server import PrivatePostgres
from tests.support.private_mongo import PrivateMongo
from tests.support.waiting import wait_until

# Partitions of each topic: the mock broker keeps 5 MB of one, and forgets older messages.
PARTITIONS = 8
TOPICS = ("crawled-documents", "crawl-errors", "discovered-urls")
_SAMPLE_S = 0.1
_SAMPLES = 100


class Server(Protocol):
    """Server of the storm's own."""

    # The address that its proxy leads to.
    port: int

    def start(self) -> None:
        """Start it on the data it had, and wait until it answers."""

    def kill(self) -> None:
        """End it as a crash does."""

    def freeze(self) -> None:
        """Let it answer nothing, and keep its connections."""

    def thaw(self) -> None:
        """Let a frozen one go on."""

    def end(self) -> None:
        """Kill it, and delete its data."""


class Redis(RedisProcess):
    """Redis with an append-only file that is synced every second, as docs/operations.md has it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            folder, *("--appendfsync", "everysec"), *("--enable-debug-command", "local")
        )
        # When each size of the append-only file was seen, the newest last.
        self._sizes: deque[tuple[float, Path, int]] = deque(maxlen=_SAMPLES)
        self._ended = threading.Event()
        threading.Thread(target=self._sample, daemon=True).start()

    @property
    def file_of_writes(self) -> Path:
        """The part of the append-only file that grows."""
        parts = self._folder.glob("appendonlydir/*.incr.aof")
        return max(parts, key=lambda part: int(part.name.split(".")[-3]))

    def start(self) -> None:
        super().start()
        with self.client as client:
            # It says who it is while it loads its data, and does nothing else.
            wait_until(lambda: not client.info("persistence")["loading"], "it has its data")

    def _sample(self) -> None:
        while not self._ended.wait(_SAMPLE_S):
            with suppress(OSError, ValueError):
                file = self.file_of_writes
                self._sizes.append((time.monotonic(), file, file.stat().st_size))

    def size_before(self, seconds: float) -> int:
        """Return what size the file had so long ago: all of it is on the disk."""
        file, then_s = self.file_of_writes, time.monotonic() - seconds
        sizes = [size for at, path, size in list(self._sizes) if path == file and at <= then_s]
        if sizes:
            return sizes[-1]
        # A part that was begun since then is no longer than what was written since.
        known = [size for _, path, size in list(self._sizes) if path == file]
        return known[0] if known else 0

    def cut_file(self, size: int) -> None:
        """Forget what was written last, as a machine does that loses its power."""
        with self.file_of_writes.open("rb+") as file:
            file.truncate(size)

    def end(self) -> None:
        self._ended.set()
        self.kill()


class Postgres(PrivatePostgres):
    """PostgreSQL."""

    def end(self) -> None:
        self.kill()
        self.remove()


class Mongo(PrivateMongo):
    """MongoDB, also on a port of loopback."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        super().__init__(port=self.port)

    def end(self) -> None:
        self.kill()
        self._folder.cleanup()


class S3(s3_server.S3Server):
    """S3 server, with an empty bucket at first."""

    @property
    def port(self) -> int:
        return int(self.endpoint.rpartition(":")[2])

    def kill(self) -> None:
        super().kill()
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def end(self) -> None:
        self.kill()


class Kafka(KafkaBroker):
    """Mock broker of Kafka. It has all messages in memory, so it is never killed."""

    def start(self) -> None:
        super().start()
        for topic in TOPICS:
            self.create_topic(topic, PARTITIONS)

    def freeze(self) -> None:
        self.pause()

    def thaw(self) -> None:
        self.resume()

    def end(self) -> None:
        self.kill()


class Messages:
    """Consumer of all topics, from a thread: a partition keeps the last 5 MB only."""

    def __init__(self, servers: str) -> None:
        # By topic: how many messages each URL has; of an error or a document.
        self.urls: dict[str, Counter[str]] = {topic: Counter() for topic in TOPICS}
        # By topic and partition: the next offset.
        self._next: dict[tuple[str, int], int] = {}
        self.missed = 0
        self._ended = threading.Event()
        self._servers = servers
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Messages:
        self._thread.start()
        return self

    def _read(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": f"storm-{uuid4().hex}",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        consumer.assign(
            [
                TopicPartition(topic, number, OFFSET_BEGINNING)
                for topic in TOPICS
                for number in range(PARTITIONS)
            ]
        )
        quiet = 0
        # After the end, until nothing has come for a second.
        while quiet < 10:
            messages = consumer.consume(500, 0.1)
            quiet = 0 if messages or not self._ended.is_set() else quiet + 1
            for message in messages:
                if message.error() is None:
                    self._take(message)
        consumer.close()

    def _take(self, message: Any) -> None:
        place, offset = (message.topic(), message.partition()), message.offset()
        self.missed += max(0, offset - self._next.get(place, 0))
        self._next[place] = offset + 1
        self.urls[message.topic()][json.loads(message.value())["url"]] += 1

    def end(self) -> None:
        """Read what is left; may be called again."""
        self._ended.set()
        self._thread.join(60)

    def __exit__(self, *_: object) -> None:
        self.end()
