"""Crawl between two topics: seeds come from a mock broker, and pages go to it.

The broker is in memory: it, the synthetic web and the crawl's own servers end with the command.
"""

import json
import subprocess
import sys
import tempfile
import textwrap
from importlib import import_module
from typing import Any, Final

from demo.crawl import SETTINGS
from demo.kafka import MockCluster
from demo.process import ROOT, DemoServer
from demo.web import Web, WebOptions

_SEEDS: Final = "seed-urls"
_TOPICS: Final = ("crawled-documents", "crawl-errors", "discovered-urls", "crawl-completed")
# Columns in which a message is printed, and characters and elements of a value in it.
_WIDTH: Final = 120
_TEXT_MAX: Final = 80
_LIST_MAX: Final = 2
_ANSWER_S: Final = 10.0


def run(options: WebOptions) -> int:
    """Crawl the synthetic web from topic to topic; return the exit code."""
    try:
        servers = MockCluster(1).servers
    except RuntimeError as error:
        print(f"demo streams: {error}", file=sys.stderr)
        return 2
    kafka: Any = import_module("confluent_kafka")
    producer = kafka.Producer({"bootstrap.servers": servers})
    seeds = Web(options).seeds
    for url in seeds:
        producer.produce(_SEEDS, url)
    producer.flush(_ANSWER_S)
    print(f"Seeds in the topic {_SEEDS} of kafka://{servers}: {len(seeds)}", flush=True)
    with DemoServer(options) as web, tempfile.TemporaryDirectory(prefix="streams-") as folder:
        settings = SETTINGS | {
            "CRAWL": "streams",
            "CRAWL_DIR": folder,
            "DNS_OVERRIDES": json.dumps(web.overrides),
            "SINKS": f"kafka://{servers}",
            "KAFKA_DISCOVERED": True,
            # Its summary would name commands for a frontier that ends with this one.
            "PROGRESS": "off",
        }
        command = [sys.executable, "-m", "scrapy", "crawl", "web", "-a", "scope=any"]
        command += ["-a", f"seeds=kafka://{servers}/{_SEEDS}"]
        for name, value in settings.items():
            command += ["-s", f"{name}={value}"]
        if code := subprocess.run(command, cwd=ROOT, check=False).returncode:
            return code
    for topic in _TOPICS:
        _show(kafka, servers, topic)
    return 0


def _show(kafka: Any, servers: str, topic: str) -> None:
    """Print how many messages a topic has, and the first of them."""
    consumer = kafka.Consumer({"bootstrap.servers": servers, "group.id": "demo"})
    try:
        number, first = 0, None
        for partition in consumer.list_topics(topic, _ANSWER_S).topics[topic].partitions:
            place = kafka.TopicPartition(topic, partition)
            low, high = consumer.get_watermark_offsets(place, _ANSWER_S)
            # All that there were, though a partition keeps only its last 5 MB.
            number += high
            if first is None and high > low:
                first = kafka.TopicPartition(topic, partition, low)
        print(f"\nMessages in {topic}: {number:,}")
        if first is not None:
            consumer.assign([first])
            message = consumer.poll(_ANSWER_S)
            if message is not None and message.error() is None:
                print(shown(json.loads(message.value())))
    finally:
        consumer.close()


def shown(message: Any) -> str:
    """Return all fields of a message in lines; long texts and lists are cut."""
    text = json.dumps(_cut(message), ensure_ascii=False)
    return textwrap.fill(
        text, _WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
    )


def _cut(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _cut(each) for name, each in value.items()}
    if isinstance(value, list):
        more = ["…"] if len(value) > _LIST_MAX else []
        return [*map(_cut, value[:_LIST_MAX]), *more]
    if isinstance(value, str) and len(value) > _TEXT_MAX:
        return f"{value[:_TEXT_MAX]}…"
    return value
