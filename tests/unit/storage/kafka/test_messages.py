"""Messages for Kafka: their fields by the schemas, their sizes, their partitions."""

import json
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from crawler.frontier import Entry
from crawler.storage.kafka.messages import (
    Message,
    completed_message,
    discovered_message,
    page_message,
    partition_of,
    rejection_message,
    smaller,
)
from crawler.storage.sink import Discovered, RejectedMessage
from tests.support.sinks import page

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
KINDS = {"documents": "document", "errors": "error"}
STREAMS = Path(__file__).parents[4] / "docs" / "streams.md"


def schema_of(name: str) -> dict[str, Any]:
    text = files("crawler.storage.kafka").joinpath("schemas", f"{name}.json").read_text()
    schema: dict[str, Any] = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    # No field that the schema does not know.
    return {**schema, "additionalProperties": False}


def checked(message: Message) -> dict[str, Any]:
    """The JSON of a message, by its schema."""
    value: dict[str, Any] = json.loads(message.value)
    schema = schema_of(KINDS.get(message.kind, message.kind))
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    jsonschema.Draft202012Validator(schema, format_checker=checker).validate(value)
    return value


def of_page(
    number: int = 1, *, with_body: bool = True, max_bytes: int = 1_000_000, **fields: Any
) -> Message:
    found = page(number, **fields)
    return page_message(found, with_body=with_body, max_bytes=max_bytes, places={})


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"body": b"\xff\x00", "charset": "utf-8"},
        {"title": "\ud800 half a pair", "extra": {"nan": float("nan"), "at": NOW}},
        {"stored": False, "reason": "noindex"},
        {"status": 304, "stored": False, "flags": ["not_modified"], "next_crawl": NOW},
        {"rendered": True, "extra": {"rendering": {"ms": 1200}, "screenshot": "/a.webp"}},
        {"discovered_at": NOW, "duplicate_of": "0" * 16, "duplicate_distance": 2},
    ],
)
def test_a_document_is_as_its_schema_says(fields: dict[str, Any]) -> None:
    message = of_page(**fields)
    value = checked(message)
    assert (message.kind, message.key, message.domain) == ("documents", value["url_hash"], "a.test")
    assert value["schema"] == "document/1"


def test_a_document_has_its_body_only_if_asked() -> None:
    assert checked(of_page(text="words"))["body"] == "body"
    assert not {"body", "text"} & checked(of_page(with_body=False)).keys()
    found = checked(of_page(body=b"\xff", charset="utf-8"))
    assert found["body_base64"] == "/w=="


def test_a_document_has_the_main_text_that_its_page_has() -> None:
    found = checked(of_page(main_text="main", markdown="**main**"))
    assert (found["main_text"], found["markdown"]) == ("main", "**main**")
    assert not {"main_text", "markdown"} & checked(of_page()).keys()
    large = page_message(
        page(1, markdown="x" * 300_000), with_body=True, max_bytes=200_000, places={}
    )
    assert checked(large)["omitted"] == ["body", "text", "markdown"]
    small = smaller(of_page(markdown="**main**"))
    assert small is not None
    assert checked(small)["omitted"] == ["body", "text", "markdown"]


def test_a_body_that_does_not_fit_is_left_out_and_its_place_told() -> None:
    large = page(1, body=b"x" * 300_000)
    large.places = {"warc": {"file": "a.warc.gz", "offset": 7}}
    message = page_message(
        large, with_body=True, max_bytes=100_000, places={"mongo": {"crawl": "web"}}
    )
    value = checked(message)
    assert "body" not in value
    assert value["omitted"] == ["body", "text"]
    assert value["places"] == {
        "warc": {"file": "a.warc.gz", "offset": 7},
        "mongo": {"crawl": "web"},
    }


def test_a_body_that_grows_in_json_is_left_out() -> None:
    value = checked(of_page(body=b"\x01" * 90_000, max_bytes=100_000))
    assert "body" in value["omitted"]


def test_fields_without_bounds_are_left_out_until_the_message_fits() -> None:
    links = [f"http://a.test/{'x' * 1000}{number}" for number in range(1000)]
    value = checked(of_page(links=links, max_bytes=100_000))
    assert value["omitted"] == ["body", "links"]
    assert value["links_count"] == 1000
    huge = of_page(links=links, extra={"a": "x" * 500_000}, max_bytes=100_000)
    assert checked(huge)["omitted"] == ["body", "links", "extra"]
    assert huge.size_bytes <= 100_000


def test_a_message_that_a_broker_refuses_goes_without_its_body() -> None:
    small = smaller(of_page(text="words"))
    assert small is not None
    assert checked(small)["omitted"] == ["body", "text"]
    assert smaller(small) is None
    assert smaller(of_page(status=404, stored=False)) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"status": 404, "reason": "status_404", "error_count": 1},
        {"status": 0, "reason": "timeout", "error_count": 3, "last_error": "timeout"},
        {"status": 0, "reason": "robots", "robots_allowed": False},
    ],
)
def test_a_url_without_a_page_is_an_error(fields: dict[str, Any]) -> None:
    message = of_page(stored=False, depth=3, parent="00" * 8, **fields)
    value = checked(message)
    assert (message.kind, message.key) == ("errors", "a.test")
    assert value["attempts"] == fields.get("error_count", 0)
    assert (value["reason"], value["status"], value["depth"]) == (
        *(fields["reason"], fields["status"], 3),
    )


def test_a_rejected_input_is_an_error_with_its_text() -> None:
    rejected = RejectedMessage("no_url", "???", "seeds", 0, 7, "the JSON has no url")
    message = rejection_message("web", rejected, at=NOW)
    value = checked(message)
    assert (message.kind, value["url"], value["text"]) == ("errors", None, "???")
    assert (value["reason"], value["last_error"]) == ("no_url", "the JSON has no url")


def test_a_discovered_url_tells_where_it_was_found() -> None:
    entry = Entry(7, "http://www.a.test/b", queue=2, depth=3, parent=5, discovered_s=1_767_323_045)
    message = discovered_message(Discovered(entry, 71, "http://a.test/"), "web")
    value = checked(message)
    assert (message.kind, message.key) == ("discovered", "a.test")
    assert value["score"] == 71
    assert value["parent"] == "0000000000000005"
    assert value["discovered_at"] == NOW.isoformat()


def test_the_end_of_a_crawl_has_its_summary() -> None:
    message = completed_message("web", {"pages": 3}, NOW)
    assert (message.key, checked(message)["summary"]) == ("web", {"pages": 3})


# As Kafka's own tests have them.
@pytest.mark.parametrize(
    ("text", "hash_"),
    [("21", -973932308), ("foobar", -790332482), ("a-little-bit-long-string", -985981536)],
)
def test_partitions_are_those_of_the_java_client(text: str, hash_: int) -> None:
    for count in (1, 4, 7):
        assert partition_of(text, count) == (hash_ & 0x7FFFFFFF) % count


@pytest.mark.parametrize("name", ["document", "error", "discovered", "completed"])
def test_the_documentation_describes_every_field(name: str) -> None:
    text = STREAMS.read_text(encoding="utf-8")
    for field in schema_of(name)["properties"]:
        assert f"`{field}`" in text, field
