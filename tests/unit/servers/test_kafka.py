"""Addresses and options of Kafka clients."""

import json

import pytest
from confluent_kafka import KafkaError

from crawler.errors import ConfigurationError
from crawler.servers.kafka import Connections, KafkaSettings, KafkaUrl, checked_topic
from crawler.storage.kafka.sink import StreamSettings


@pytest.mark.parametrize(
    ("url", "servers", "topic"),
    [
        ("kafka://a.test:1", "a.test:1", ""),
        ("kafka://a", "a:9092", ""),
        ("kafka://a:1,b,[::1]:3/seed-urls", "a:1,b:9092,[::1]:3", "seed-urls"),
        ("kafka://a/", "a:9092", ""),
    ],
)
def test_a_url_names_servers_and_a_topic(url: str, servers: str, topic: str) -> None:
    assert KafkaUrl.parse(url, what="SINKS") == KafkaUrl(servers, topic)


@pytest.mark.parametrize(
    "url",
    [
        *("kafka://", "kafka:a", "kafka://a:0", "kafka://a:70000", "kafka://a:b", "kafka://a,,b"),
        *("http://a", "kafka://a/two topics", "kafka://a/b/c", "kafka://a/.."),
    ],
)
def test_a_wrong_url_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(ConfigurationError, match="SINKS"):
        KafkaUrl.parse(url, what="SINKS")


def test_the_example_has_a_topic_only_where_one_belongs() -> None:
    with pytest.raises(ConfigurationError, match=r"use kafka://host:9092 or \S+,host2:9092\.$"):
        KafkaUrl.parse("kafka://", what="SINKS")
    with pytest.raises(ConfigurationError, match=r"seeds has .*use kafka://host:9092/topic or"):
        KafkaUrl.parse("kafka://", what="seeds", path="/topic")


def test_a_wrong_prefix_is_named_by_its_own_setting() -> None:
    assert StreamSettings(prefix="a.").topics()["documents"] == "a.crawled-documents"
    with pytest.raises(ConfigurationError, match="KAFKA_TOPIC_PREFIX names the topic 'a bc"):
        StreamSettings(prefix="a b").topics()


def test_connections_are_refused_when_all_brokers_are_down_for_that() -> None:
    def error(name: str, text: str) -> KafkaError:
        return KafkaError(getattr(KafkaError, name), text)

    connections = Connections()
    refused = error("_TRANSPORT", "Connect to a:1 failed: Connection refused")
    connections.failed(refused)
    assert not connections.are_refused
    down = error("_ALL_BROKERS_DOWN", "1/1 brokers are down")
    connections.failed(down)
    assert connections.are_refused
    assert connections.why(down) is refused
    denied = error("TOPIC_AUTHORIZATION_FAILED", "no")
    assert connections.why(denied) is denied
    connections.worked()
    assert not connections.are_refused
    assert connections.why(down) is down


def test_credentials_belong_into_the_options_and_are_not_shown() -> None:
    with pytest.raises(ConfigurationError, match="KAFKA_OPTIONS") as caught:
        KafkaUrl.parse("kafka://me:geheim123@a:9092", what="SINKS")
    assert "geheim123" not in str(caught.value)


def test_a_topic_has_letters_digits_and_three_signs() -> None:
    assert checked_topic("a.B_9-z", what="KAFKA_TOPICS") == "a.B_9-z"
    with pytest.raises(ConfigurationError, match="KAFKA_TOPICS names the topic 'ä'"):
        checked_topic("ä", what="KAFKA_TOPICS")


def test_options_that_the_promises_rest_on_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="acks, which the crawler sets itself"):
        KafkaSettings({"acks": 1})
    with pytest.raises(ConfigurationError, match=r"ssl\.ca, whose value"):
        KafkaSettings({"ssl.ca": ["a"]})


def test_secrets_of_options_are_hidden() -> None:
    settings = KafkaSettings({"sasl.password": "geheim123", "sasl.username": "somebody"})
    assert settings.mask("geheim123 of somebody") == "*** of somebody"
    assert settings.client("a:1")["sasl.password"] == "geheim123"
    of_key = KafkaSettings({"sasl.oauthbearer.assertion.private.key.passphrase": "geheim123"})
    assert of_key.mask("geheim123") == "***"


def test_a_wrong_option_is_named_without_its_secrets() -> None:
    options = {"sasl.passwort": "x", "sasl.password": "geheim123"}
    settings = KafkaSettings(json.loads(json.dumps(options)))
    with pytest.raises(ConfigurationError, match=r"sasl\.passwort.*KAFKA_OPTIONS") as caught:
        settings.make("Producer", settings.client("a:1"), what="SINKS=kafka")
    assert "geheim123" not in str(caught.value)
