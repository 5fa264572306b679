"""SINKS: names, URLs and class paths, and a line for each mistake."""

from typing import Any

import pytest
from scrapy.settings import Settings

from crawler import settings as ours
from crawler.errors import ConfigurationError
from crawler.storage.mongo.sink import MongoSink
from crawler.storage.sinks import NamedSink, named_sinks, shown_sinks, uses_mongo
from tests.support.sinks import MemorySink

MEMORY = "tests.support.sinks.MemorySink"


def read(sinks: Any, **others: Any) -> list[NamedSink]:
    return named_sinks(Settings({"SINKS": sinks, **others}))


def test_the_default_is_mongodb() -> None:
    (sink,) = read(ours.SINKS)
    assert (sink.name, sink.target) == ("mongo", "")
    assert sink.load() is MongoSink


@pytest.mark.parametrize("given", [f"mongo {MEMORY}", ["mongo", MEMORY]])
def test_several_sinks_are_a_text_or_a_list(given: Any) -> None:
    assert [sink.name for sink in read(given)] == ["mongo", "MemorySink"]


@pytest.mark.parametrize(
    ("word", "target"),
    [
        (MEMORY, ""),
        (f"{MEMORY}:folder/pages", "folder/pages"),
        (f"{MEMORY}://host:9092/topic", f"{MEMORY}://host:9092/topic"),
    ],
)
def test_what_follows_the_name_is_the_target(word: str, target: str) -> None:
    (sink,) = read(word)
    assert (sink.target, sink.load()) == (target, MemorySink)


def test_two_sinks_of_one_kind_need_names_of_their_own() -> None:
    with pytest.raises(ConfigurationError, match=r"two sinks with the name MemorySink.*first="):
        read(f"{MEMORY}:a {MEMORY}:b")
    found = read(f"a={MEMORY}:x?y=z {MEMORY}:b m=mongo")
    assert [(sink.name, sink.target) for sink in found] == [
        ("a", "x?y=z"),
        ("MemorySink", "b"),
        ("m", ""),
    ]
    assert uses_mongo(Settings({"SINKS": "m=mongo"}))


def test_none_is_no_sink() -> None:
    assert read("none") == []
    assert not uses_mongo(Settings({"SINKS": "none"}))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("mogno", r"SINKS has 'mogno', which is no sink\. Did you mean mongo\?"),
        ("warc:archive/", r"SINKS has 'warc:archive/', .* There are mongo, none"),
        ("mongo,mongo", "Separate sinks by blanks"),
        ("mongodb://me:secret@host/", r"mongodb://me:\*\*\*@host/.* MONGO_URI"),
        ("mongo none", "use none alone"),
        ("", "SINKS is empty"),
        ([], "SINKS is empty"),
    ],
)
def test_a_sink_that_nobody_knows_is_one_clear_line(given: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told) as raised:
        read(given)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("no.such.module.Sink", "cannot be loaded"),
        ("tests.support.sinks.Nothing", "cannot be loaded"),
        ("tests.support.sinks.page", "is no subclass of crawler.storage.Sink"),
        ("crawler.items.Page", "is no subclass of crawler.storage.Sink"),
    ],
)
def test_a_class_that_is_no_sink_is_one_clear_line(path: str, told: str) -> None:
    (sink,) = read(path)
    with pytest.raises(ConfigurationError, match=f"SINKS names {path}.*{told}"):
        sink.load()


def test_the_former_name_is_refused_and_the_new_one_told() -> None:
    with pytest.raises(ConfigurationError, match=r"PAGES_STORE is 'none'.*SINKS=none"):
        read("mongo", PAGES_STORE="none")


def test_credentials_are_never_shown() -> None:
    settings = Settings({"SINKS": f"mongo {MEMORY}://me:secret@host/x?token=abcdef"})
    shown = shown_sinks(settings)
    assert "secret" not in shown
    assert "abcdef" not in shown
    assert f"{MEMORY}://me:***@host/x" in shown
