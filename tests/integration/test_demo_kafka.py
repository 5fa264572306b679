"""The mock broker of `python -m demo kafka`, which the tests of streams use."""

from confluent_kafka import KafkaException, Producer

from tests.support.kafka_broker import NOT_ENOUGH_REPLICAS, PRODUCE, TOPIC_NOT_ALLOWED, KafkaBroker
from tests.support.kcat import kcat


def produce(broker: KafkaBroker, topic: str, *values: bytes, **options: str) -> list[str]:
    """Send messages; return the errors of their delivery reports."""
    errors: list[str] = []
    settings = {"bootstrap.servers": broker.servers, "enable.idempotence": True}
    producer = Producer({**settings, **{name.replace("_", "."): v for name, v in options.items()}})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(str(error)))
    producer.flush(30)
    return errors


def test_what_a_producer_sends_kcat_reads(kafka: KafkaBroker, topic_prefix: str) -> None:
    topic = f"{topic_prefix}a"
    assert produce(kafka, topic, b"1", b"2", b"3") == ["None"] * 3
    assert sorted(kcat(kafka, topic).split()) == [b"1", b"2", b"3"]
    assert sorted(kafka.values(topic)) == [1, 2, 3]


def test_a_topic_has_as_many_partitions_as_it_was_made_with(
    kafka: KafkaBroker, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}one"
    kafka.create_topic(topic, 1)
    produce(kafka, topic, *(b"%d" % number for number in range(100)))
    assert kafka.values(topic) == [*range(100)]
    assert kafka.messages("unknown") == []


def test_errors_a_pause_and_a_cut_pass() -> None:
    with KafkaBroker() as broker:
        broker.push_errors(PRODUCE, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS)
        assert produce(broker, "a", b"1") == ["None"]
        broker.pause()
        assert "TIMED_OUT" in produce(broker, "a", b"2", message_timeout_ms="300")[0]
        broker.resume()
        broker.cut()
        assert "TIMED_OUT" in produce(broker, "a", b"3", message_timeout_ms="300")[0]
        broker.mend()
        assert produce(broker, "a", b"4") == ["None"]
        assert {1, 4} <= set(broker.values("a"))


def test_a_topic_that_is_refused_says_so() -> None:
    with KafkaBroker() as broker:
        broker.fail_topic("a", TOPIC_NOT_ALLOWED)
        assert (
            "TOPIC_AUTHORIZATION_FAILED" in produce(broker, "a", b"1", message_timeout_ms="5000")[0]
        )
        producer = Producer({"bootstrap.servers": broker.servers})
        try:
            error = producer.list_topics("a", 5).topics["a"].error
        except KafkaException as raised:
            error = raised.args[0]
        assert "TOPIC_AUTHORIZATION_FAILED" in str(error)
