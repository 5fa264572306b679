"""Address and options of Kafka clients, and what their errors mean.

KAFKA_OPTIONS are options of librdkafka, for TLS and SASL. Those that the crawler's promises rest on
cannot be changed. Texts of the library may have secrets of these options: `KafkaSettings.mask`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

from crawler import config
from crawler.errors import ConfigurationError, CrawlerError, ServerAway
from crawler.util.extras import optional
from crawler.util.secrets import Mask

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

_PORT = 9092
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
# Options that the crawler sets itself.
_OWN = frozenset(
    "bootstrap.servers metadata.broker.list acks request.required.acks enable.idempotence "
    "message.timeout.ms delivery.timeout.ms message.max.bytes partitioner transactional.id "
    "enable.gapless.guarantee delivery.report.only.error group.id enable.auto.commit "
    "enable.auto.offset.store auto.offset.reset max.poll.interval.ms".split()
)
_SECRET = re.compile(r"password|passphrase|secret|jaas|\.pem$|\.token", re.IGNORECASE)
# Errors that people must correct; the client reports some of them again and again.
_MISTAKES = {
    "TOPIC_AUTHORIZATION_FAILED": "the user may not use the topic: give it the right to",
    "CLUSTER_AUTHORIZATION_FAILED": "the user may not write idempotently: give it the right to",
    "GROUP_AUTHORIZATION_FAILED": "the user may not use the consumer group: give it the right to",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "the user may not write: give it the right to",
    "SASL_AUTHENTICATION_FAILED": "it does not accept user and password of KAFKA_OPTIONS",
    "_AUTHENTICATION": "it does not accept user and password of KAFKA_OPTIONS",
    "_SSL": "TLS fails; check the options ssl.* in KAFKA_OPTIONS",
    "TOPIC_EXCEPTION": "it does not accept the name of the topic",
    "UNKNOWN_TOPIC_OR_PART": "there is no such topic, and it makes none on first use: create it",
    "_UNKNOWN_TOPIC": "there is no such topic, and it makes none on first use: create it",
}
# Errors that only say that no broker answered.
NO_ANSWER = frozenset(
    {"_MSG_TIMED_OUT", "_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE"}
)
# Time in which a client tries all addresses of its brokers, some of which may refuse connections.
_REFUSED_S = 2.5


@dataclass(frozen=True, slots=True)
class KafkaUrl:
    """Address of a cluster, and the topic that its path names, if any."""

    # As in bootstrap.servers.
    servers: str
    topic: str = ""

    @classmethod
    def parse(cls, url: str, *, what: str, path: str = "") -> Self:
        """Read kafka://host:9092,host2:9092/topic.

        `what` is the setting that has it. `path` follows the hosts in the advice about mistakes.
        """
        advice = (
            f"{what} has %s; use kafka://host:9092{path} or kafka://host:9092,host2:9092{path}."
        )
        scheme, _, rest = url.partition("://")
        if "@" in rest:
            raise ConfigurationError(
                f"{what} has a kafka:// URL with a user; give user and password in KAFKA_OPTIONS, "
                'as {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", '
                '"sasl.username": …, "sasl.password": …}.'
            )
        hosts, _, topic = rest.partition("/")
        found = [_SERVER.fullmatch(host) for host in hosts.split(",")]
        if scheme != "kafka" or not all(found):
            raise ConfigurationError(advice % repr(url))
        ports = [int(each[2] or _PORT) for each in found if each is not None]
        if not all(0 < port < 65536 for port in ports):
            raise ConfigurationError(advice % repr(url))
        names = [each[1] for each in found if each is not None]
        servers = ",".join(f"{name}:{port}" for name, port in zip(names, ports, strict=True))
        return cls(servers, checked_topic(topic, what=what) if topic else "")


def checked_topic(name: str, *, what: str) -> str:
    """Return the name of a topic; ConfigurationError if Kafka would not accept it."""
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise ConfigurationError(
            f"{what} names the topic {name!r}; use letters, digits, dots, underscores and hyphens, "
            "249 at the most."
        )
    return name


@dataclass(frozen=True)
class KafkaSettings:
    """Settings of all Kafka clients of a crawl."""

    options: Mapping[str, Any] = config.setting("KAFKA_OPTIONS")
    timeout_s: float = config.setting("KAFKA_TIMEOUT")

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        return config.fill(cls, settings)

    def __post_init__(self) -> None:
        for name, value in self.options.items():
            if name in _OWN:
                raise ConfigurationError(
                    f"KAFKA_OPTIONS has {name}, which the crawler sets itself; leave it out."
                )
            if not isinstance(value, (str, int, float, bool)):
                raise ConfigurationError(
                    f"KAFKA_OPTIONS has {name}, whose value is no text, number or boolean."
                )

    @cached_property
    def mask(self) -> Mask:
        """Hides the secrets of the options in a text."""
        return Mask(str(value) for name, value in self.options.items() if _SECRET.search(name))

    def client(self, servers: str) -> dict[str, Any]:
        """Return the options of a client, whether it produces or consumes."""
        return {
            "bootstrap.servers": servers,
            "client.id": "crawler",
            # Requests are answered within this time, or their connection is given up.
            "socket.timeout.ms": max(1000, round(self.timeout_s * 1000)),
            "socket.connection.setup.timeout.ms": max(1000, round(self.timeout_s * 500)),
            "socket.keepalive.enable": True,
            "reconnect.backoff.max.ms": 2000,
            "log.connection.close": False,
            **self.options,
        }

    def make(self, kind: str, options: Mapping[str, Any], *, what: str) -> Any:
        """Make a client of confluent-kafka: "Producer" or "Consumer".

        ConfigurationError if an option is wrong.
        """
        library = kafka_library(what)
        try:
            return getattr(library, kind)(dict(options), logger=ClientLog(self.mask))
        except (library.KafkaException, TypeError, ValueError) as error:
            text = error.args[0].str() if isinstance(error, library.KafkaException) else error
            raise ConfigurationError(
                f"{what}: {self.mask(str(text))}; correct KAFKA_OPTIONS."
            ) from error

    def error(self, error: KafkaError, servers: str, topic: str = "", *, what: str) -> CrawlerError:
        """Return the error with which a start ends, with what to do about it.

        `what` is the setting that names the servers.
        """
        if error.name() in NO_ANSWER:
            return ServerAway(
                f"Kafka at {servers} cannot be used: {self.explain(error)}; start it, or correct "
                f"its address in {what}."
            )
        of_topic = f" (topic {topic})" if topic else ""
        text = f"Kafka at {servers} cannot be used{of_topic}: {self.explain(error)}."
        return ConfigurationError(text) if is_mistake(error) else ServerAway(text)

    def explain(self, error: KafkaError) -> str:
        """Describe an error for people, with a remedy where there is one."""
        if error.name() in _MISTAKES:
            return _MISTAKES[error.name()]
        return self.mask(error.str()).rstrip(".")


class Connections:
    """What a client reported about its connections to brokers. `failed` is its error_cb."""

    def __init__(self) -> None:
        # Why a broker is not connected, unless one answered since.
        self.cause: KafkaError | None = None
        self._is_down = False

    def failed(self, error: KafkaError) -> None:
        """Note an error."""
        if error.name() == "_ALL_BROKERS_DOWN":
            self._is_down = True
        else:
            self.cause = error

    def worked(self) -> None:
        """Note an answer of a broker."""
        self.cause, self._is_down = None, False

    @property
    def are_refused(self) -> bool:
        """Whether no broker is connected, since their ports are closed."""
        return self._is_down and self.cause is not None and "refused" in self.cause.str()

    def why(self, error: KafkaError) -> KafkaError:
        """Return why no broker is connected, if an error only says that there was no answer."""
        return self.cause or error if error.name() in NO_ANSWER else error


def topic_metadata(client: Any, topic: str, timeout_s: float, connections: Connections) -> Any:
    """Ask the brokers about a topic; KafkaException without an answer. Blocking.

    If all of them refuse connections, more is not waited for.
    """
    first_s = min(timeout_s, _REFUSED_S)
    try:
        found = client.list_topics(topic, first_s)
    except kafka_library("Kafka").KafkaException:
        # Calls error_cb.
        client.poll(0)
        if connections.are_refused or first_s == timeout_s:
            raise
        found = client.list_topics(topic, timeout_s - first_s)
    connections.worked()
    return found.topics[topic]


def is_mistake(error: KafkaError) -> bool:
    """Return whether people must correct what caused an error."""
    return error.name() in _MISTAKES


def kafka_library(what: str) -> ModuleType:
    """Return the module confluent_kafka; ConfigurationError if it is not installed."""
    return optional("confluent_kafka", extra="kafka", what=what)


class ClientLog:
    """Log of a client. What matters to users is in the errors that the client reports."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask

    def log(self, _level: int, text: str, *values: object) -> None:
        """Log a line of librdkafka."""
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("%s", self._mask(text % values if values else text))
