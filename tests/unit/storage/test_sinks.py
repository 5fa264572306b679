"""SINKS: names, URLs and class paths, and a line for each mistake."""

from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from crawler import settings as ours
from crawler.errors import ConfigurationError
from crawler.storage.mongo.sink import MongoSink
from crawler.storage.objects import ObjectSink
from crawler.storage.sinks import NamedSink, named_sinks, shown_sinks, uses_mongo
from tests.support.sinks import MemorySink

MEMORY = "tests.support.sinks.MemorySink"


def read(sinks: Any, **others: Any) -> list[NamedSink]:
    return named_sinks(Settings({"SINKS": sinks, **others}))


def test_the_default_is_mongodb() -> None:
    (sink,) = read(ours.SINKS)
    assert (sink.name, sink.target) == ("mongo", "")
    assert sink.load() is MongoSink


@pytest.mark.parametrize("given", [f"mongo {MEMORY}", ["mongo", MEMORY], f'["mongo", "{MEMORY}"]'])
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


def test_an_object_store_is_named_by_its_url() -> None:
    found = read("s3://bucket/prefix cold=s3://other file:///pages gs://bucket az://container")
    assert [(sink.name, sink.target) for sink in found] == [
        ("s3", "s3://bucket/prefix"),
        ("cold", "s3://other"),
        ("file", "file:///pages"),
        ("gs", "gs://bucket"),
        ("az", "az://container"),
    ]
    assert {sink.load() for sink in found} == {ObjectSink}


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
        ("wacr:archive/", r"SINKS has 'wacr:archive/', .* Did you mean warc\?"),
        ("mongo,mongo", "Separate sinks by blanks"),
        ("mongodb://me:secret@host/", r"mongodb://me:\*\*\*@host/.* MONGO_URI"),
        ("mongo none", "use none alone"),
        ("['mongo'", "no list in JSON"),
        ({"mongo": 1}, "neither a text nor a list"),
        ("wrc:me:secret@host/", "'wrc:me:\\*\\*\\*@host/'"),
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


class Picky(MemorySink):
    def __init__(self, target: str) -> None:
        raise ValueError(f"{target} is not wanted")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("class Broken(", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
        ("import no_such_module", "ModuleNotFoundError"),
    ],
)
def test_a_module_that_cannot_be_imported_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, told: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken_sinks.py").write_text(text)
    (sink,) = read("broken_sinks.Files")
    with pytest.raises(ConfigurationError, match=f"broken_sinks.Files.*cannot be loaded .{told}"):
        sink.load()


@pytest.mark.parametrize("path", [f"{__name__}.Picky", "crawler.storage.Sink"])
def test_a_sink_that_cannot_be_made_is_one_clear_line(path: str) -> None:
    (sink,) = read(f"{path}:me:secret@host")
    with pytest.raises(ConfigurationError, match="cannot be made") as raised:
        sink.make("web", Settings(), None)  # type: ignore[arg-type]
    assert "secret" not in str(raised.value)


def test_the_former_name_is_refused_and_the_new_one_told() -> None:
    with pytest.raises(ConfigurationError, match=r"PAGES_STORE is 'none'.*SINKS=none"):
        read("mongo", PAGES_STORE="none")


def test_credentials_are_never_shown() -> None:
    settings = Settings({"SINKS": f"mongo {MEMORY}://me:secret@host/x?token=abcdef"})
    shown = shown_sinks(settings)
    assert "secret" not in shown
    assert "abcdef" not in shown
    assert f"{MEMORY}://me:***@host/x" in shown
