"""kcat, an independent reader of Kafka's topics."""

import shutil
import subprocess

import pytest

from tests.support.kafka_broker import KafkaBroker


def kcat(broker: KafkaBroker, topic: str, *more: str) -> bytes:
    """Return what kcat prints of a topic, from its beginning to its end."""
    if shutil.which("kcat") is None:
        pytest.skip("no kcat on PATH; Debian has it in the package kcat")
    command = ["kcat", "-C", "-e", "-q", "-b", broker.servers, "-o", "beginning", "-t", topic]
    return subprocess.check_output([*command, *more])
