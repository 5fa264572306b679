"""Where seeds come from: the URLs of topics, and every mistake in them."""

import asyncio

import pytest
from scrapy.settings import BaseSettings

from crawler import config
from crawler import settings as ours
from crawler.errors import ConfigurationError
from crawler.servers.kafka_group import GroupMember, Received


def member(url: str) -> GroupMember:
    values = {name: getattr(ours, name) for name in dir(ours) if name.isupper()}
    settings = BaseSettings({**values, "KAFKA_SEEDS": url})
    return GroupMember.from_settings(settings, config.value(settings, "KAFKA_SEEDS"), "web")


@pytest.mark.parametrize(
    ("url", "servers", "topics"),
    [
        ("kafka://host/seeds", "host:9092", ["seeds"]),
        ("kafka://a:1,b:2/seeds,more", "a:1,b:2", ["seeds", "more"]),
        ("kafka://[::1]:9093/seeds", "[::1]:9093", ["seeds"]),
    ],
)
def test_a_url_names_brokers_and_topics(url: str, servers: str, topics: list[str]) -> None:
    found = member(url)
    assert (found.servers, found.topics, found.group) == (servers, topics, "crawler-web")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("host:9092/seeds", "KAFKA_SEEDS is 'host:9092/seeds'; use kafka://host:9092/topic"),
        ("kafka://host", "use kafka://host:9092/topic"),
        ("kafka://host/", "use kafka://host:9092/topic"),
        ("kafka://host/,", "names no topic; use kafka://host:9092/topic"),
        ("kafka://host/a/b", "names the topic 'a/b'; use letters"),
        ("kafka://host/sch\u00f6n", "names the topic 'sch\u00f6n'; use letters"),
        ("kafka://host:99999/seeds", "KAFKA_SEEDS has"),
        ("kafka://user:secret@host/seeds", "give user and password in KAFKA_OPTIONS"),
    ],
)
def test_a_mistake_is_named_without_its_password(url: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as raised:
        member(url)
    assert "secret" not in str(raised.value)


def test_the_end_of_a_partition_is_the_offset_of_its_next_message() -> None:
    assert Received("t", 0, 7, b"x").next == 8
    assert Received("t", 0, 8, None, is_end=True).next == 8


def test_only_messages_of_partitions_that_it_has_are_committed() -> None:
    one = member("kafka://host/seeds")
    one._assigned = {("seeds", 0)}
    one.done([Received("seeds", 0, 4, b"x"), Received("seeds", 1, 9, b"x")])
    assert one._uncommitted() == {("seeds", 0): 5}


def test_topics_of_an_argument_are_named_by_it() -> None:
    settings = BaseSettings({name: getattr(ours, name) for name in dir(ours) if name.isupper()})
    with pytest.raises(ConfigurationError, match=r"^seeds is 'kafka://host' and names no topic"):
        GroupMember.from_settings(settings, "kafka://host", "web", what="seeds")


def test_a_group_that_takes_long_is_named_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Silent:
        def poll(self, _timeout_s: float) -> None:
            return None

    caplog.set_level("INFO")
    one = member("kafka://host/seeds")
    monkeypatch.setattr(one, "_consumer", Silent())
    one._poll(1, 0.0)
    assert not caplog.text
    one._log_at_s = 0.0
    one._poll(1, 0.0)
    one._poll(1, 0.0)
    assert caplog.text.count("Waiting for the consumer group crawler-web to give out") == 1


async def test_a_cluster_that_is_away_is_left_soon(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("crawler.servers.kafka_group._CLOSE_AWAY_S", 0.01)
    monkeypatch.setattr("crawler.servers.kafka_group._CLOSE_S", 3600.0)
    caplog.set_level("INFO")
    one = member("kafka://host/seeds")
    # Another call of the client has no answer.
    with one._calling:
        async with asyncio.timeout(30):
            await one.close(is_away=True)
    assert "the group finds out" in caplog.text
