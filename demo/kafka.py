"""Kafka broker in memory: librdkafka's mock cluster, on a TCP port. Needs confluent-kafka.

It speaks the protocol: idempotent producers, consumer groups, topics that are made on first use.
It is no Kafka: everything is lost when it ends, a partition keeps only its last 5 MB, there are no
limits of message sizes, and topics cannot be configured.
"""

import ctypes
import importlib.util
import json
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

_PRODUCER: Final = 0
# Time that a new consumer group waits for more members; 3 s if it is not set.
_GROUP_DELAY_MS: Final = 100
_ERROR_CHARACTERS: Final = 512


class MockCluster:
    """Mock cluster in this process. Errors and topics are given by the numbers of the protocol."""

    def __init__(self, brokers: int = 1) -> None:
        library = ctypes.CDLL(str(_library()))
        pointer, text = ctypes.c_void_p, ctypes.c_char_p
        self._errors = _function(
            library.rd_kafka_mock_push_request_errors_array,
            *(None, pointer, ctypes.c_int16, ctypes.c_size_t, ctypes.POINTER(ctypes.c_int)),
        )
        self._forget = _function(
            library.rd_kafka_mock_clear_request_errors, None, pointer, ctypes.c_int16
        )
        self._create = _function(
            library.rd_kafka_mock_topic_create,
            *(ctypes.c_int, pointer, text, ctypes.c_int, ctypes.c_int),
        )
        self._set_error = _function(
            library.rd_kafka_mock_topic_set_error, None, pointer, text, ctypes.c_int
        )
        self._set_rtt = _function(
            library.rd_kafka_mock_broker_set_rtt,
            *(ctypes.c_int, pointer, ctypes.c_int32, ctypes.c_int),
        )
        self._down = _function(
            library.rd_kafka_mock_broker_set_down, ctypes.c_int, pointer, ctypes.c_int32
        )
        self._up = _function(
            library.rd_kafka_mock_broker_set_up, ctypes.c_int, pointer, ctypes.c_int32
        )
        new_conf = _function(library.rd_kafka_conf_new, pointer)
        set_conf = _function(
            library.rd_kafka_conf_set,
            *(ctypes.c_int, pointer, text, text, text, ctypes.c_size_t),
        )
        new = _function(library.rd_kafka_new, pointer, ctypes.c_int, pointer, text, ctypes.c_size_t)
        new_cluster = _function(library.rd_kafka_mock_cluster_new, pointer, pointer, ctypes.c_int)
        bootstraps = _function(library.rd_kafka_mock_cluster_bootstraps, text, pointer)
        error = ctypes.create_string_buffer(_ERROR_CHARACTERS)
        conf = new_conf()
        # The client that carries the cluster connects to nothing, and would say so.
        set_conf(conf, b"log_level", b"2", error, _ERROR_CHARACTERS)
        client = new(_PRODUCER, conf, error, _ERROR_CHARACTERS)
        if not client:
            raise RuntimeError(f"The mock broker did not start: {error.value.decode()}")
        self._cluster = new_cluster(client, brokers)
        delay_group = _function(
            library.rd_kafka_mock_group_initial_rebalance_delay_ms, None, pointer, ctypes.c_int32
        )
        delay_group(self._cluster, _GROUP_DELAY_MS)
        # As in bootstrap.servers: host:port of each broker.
        self.servers: str = bootstraps(self._cluster).decode()

    def create_topic(self, name: str, partitions: int) -> None:
        """Make a topic; without this, it is made on first use with four partitions."""
        self._create(self._cluster, name.encode(), partitions, 1)

    def fail_topic(self, name: str, error: int) -> None:
        """Answer with an error wherever a topic is asked for; 0 ends that."""
        self._set_error(self._cluster, name.encode(), error)

    def push_errors(self, api: int, errors: Sequence[int]) -> None:
        """Answer the next requests of a kind (0: produce, 1: fetch …) with these errors."""
        self._errors(self._cluster, api, len(errors), (ctypes.c_int * len(errors))(*errors))

    def clear_errors(self, api: int) -> None:
        """Forget the errors that were not answered yet."""
        self._forget(self._cluster, api)

    def set_delay(self, delay_ms: int) -> None:
        """Answer every request after so many milliseconds."""
        self._set_rtt(self._cluster, -1, delay_ms)

    def set_down(self, broker: int) -> None:
        """Close the port of a broker, and cut its connections."""
        self._down(self._cluster, broker)

    def set_up(self, broker: int) -> None:
        """Open the port of a broker again."""
        self._up(self._cluster, broker)


def _library() -> Path:
    """Return the librdkafka that the wheel of confluent-kafka has."""
    spec = importlib.util.find_spec("confluent_kafka")
    found: list[Path] = []
    if spec is not None and spec.origin is not None:
        # Loaded first, as it brings the libraries that librdkafka needs.
        importlib.import_module("confluent_kafka")
        package = Path(spec.origin).parent
        found = [*package.parent.glob("confluent_kafka.libs/librdkafka*")]
        found += package.glob(".dylibs/librdkafka*")
    if not found:
        raise RuntimeError(
            "The mock broker needs the wheel of confluent-kafka: "
            "pip install -r requirements-kafka.txt"
        )
    return found[0]


def _function(function: Any, result: Any, *arguments: Any) -> Callable[..., Any]:
    function.restype, function.argtypes = result, arguments
    return function  # type: ignore[no-any-return]


def serve(*, brokers: int, commands: TextIO | None = None) -> int:
    """Run a mock cluster until SIGINT or SIGTERM.

    `commands` has one call of MockCluster a line, such as ["create_topic", "a", 1]; each is
    answered by a line, and the cluster ends with the file.
    """
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    try:
        cluster = MockCluster(brokers)
    except RuntimeError as error:
        print(f"demo kafka: {error}", file=sys.stderr)
        return 2
    print(json.dumps({"ready": True, "servers": cluster.servers}), flush=True)
    if commands is None:
        stopped.wait()
        return 0
    threading.Thread(target=_obey, args=(cluster, commands, stopped), daemon=True).start()
    stopped.wait()
    return 0


def _obey(cluster: MockCluster, commands: TextIO, stopped: threading.Event) -> None:
    for line in commands:
        name, *arguments = json.loads(line)
        getattr(cluster, name)(*arguments)
        print(json.dumps({"done": name}), flush=True)
    stopped.set()
