"""Documents keep what they say on their way from a worker; what is no answer is refused."""

from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.parsing.document import Document, DocumentLimits, Link, Unreadable
from crawler.reading.messages import (
    MAX_ANSWER_BYTES,
    SIZE,
    Failed,
    Garbage,
    Job,
    answer_in,
    bounded,
    document_of,
    packed_answer,
)

FULL = Document(
    media_type="application/pdf",
    charset="utf-8",
    title="T",
    description="D",
    language="en",
    author="A",
    published_at=datetime(2024, 1, 31, tzinfo=UTC),
    updated_at=datetime(2024, 2, 1, 12, tzinfo=timezone(timedelta(hours=2))),
    headings=["# One"],
    noindex=True,
    text="text",
    main_text="main",
    markdown="**main**",
    blocks=["main"],
    article=["main"],
    links=["http://h.test/a"],
    anchors=[Link("http://h.test/a", "nofollow", "A")],
    written={"http://h.test/a": "/a"},
    languages={"de": "http://h.test/de"},
)


def sent(answer: Document | Unreadable | Failed, **options: bool) -> Any:
    message = packed_answer(answer, **options)
    assert SIZE.unpack(message[: SIZE.size])[0] == len(message) - SIZE.size
    return answer_in(message[SIZE.size :])


@pytest.mark.parametrize("document", [FULL, Document(), Document(blocks=[]), Document(article=[])])
def test_a_document_arrives_as_it_was_sent(document: Document) -> None:
    assert sent(document) == (document, False)
    assert sent(document, is_last=True) == (document, True)


def test_every_field_of_a_document_can_be_sent() -> None:
    for each in fields(Document):
        document_of({each.name: getattr(Document(), each.name)})


def test_a_time_without_a_zone_is_taken_for_utc() -> None:
    naive = datetime(2024, 1, 31)  # noqa: DTZ001 - of a user's reader
    assert sent(Document(published_at=naive))[0].published_at == naive.replace(tzinfo=UTC)


def test_half_of_a_character_is_replaced() -> None:
    assert sent(Document(title="a\ud800b"))[0].title == "a?b"


def test_a_reason_and_an_error_arrive() -> None:
    unread, is_last = sent(Unreadable("encrypted"), is_last=True)
    assert (unread.reason, is_last) == ("encrypted", True)
    assert sent(Failed("KeyError: 'x'")) == (Failed("KeyError: 'x'"), False)


def test_a_reason_of_several_words_is_an_error_of_its_reader() -> None:
    assert sent(Unreadable("Not this time!"))[0] == Failed(
        "Unreadable('Not this time!'): give one word as the reason"
    )


def test_a_document_that_is_too_large_to_send_is_unreadable() -> None:
    unread, is_last = sent(Document(text="x" * (MAX_ANSWER_BYTES + 1)))
    assert (unread.reason, is_last) == ("too_large", True)


@pytest.mark.parametrize(
    "message",
    [
        None,
        [],
        {},
        {"document": {}},
        {"document": [], "last": False},
        {"document": {"title": 1}, "last": False},
        {"document": {"links": ["a", 1]}, "last": False},
        {"document": {"anchors": [{"rel": "x"}]}, "last": False},
        {"document": {"written": {"a": 1}}, "last": False},
        {"document": {"published_at": "today"}, "last": False},
        {"document": {"unknown": 1}, "last": False},
        {"unread": "<script>", "last": False},
        {"unread": "x" * 41, "last": False},
        {"unread": "damaged", "last": "no"},
        {"failed": b"x", "last": False},
        "ready",
    ],
)
def test_what_is_no_answer_is_garbage(message: object) -> None:
    with pytest.raises(Garbage):
        answer_in(msgpack.packb(message))


@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_garbage(data: bytes) -> None:
    with suppress(Garbage):
        answer_in(data)


def test_lists_within_lists_without_end_are_garbage() -> None:
    with pytest.raises(Garbage):
        answer_in(b"\x91" * 1_000_000)


@pytest.mark.parametrize(
    ("record", "error"),
    [
        ({"titel": "T"}, "'titel' is no field of a document; it has media_type, charset, title"),
        ({"title": b"T"}, "title is b'T', not of the type str"),
        ({"links": "http://h.test/"}, r"links is 'http://h.test/', not of the type list\[str\]"),
    ],
)
def test_a_wrong_field_is_named(record: dict[str, Any], error: str) -> None:
    with pytest.raises(TypeError, match=error):
        document_of(record)


def test_what_sinks_store_of_a_document_is_bounded() -> None:
    long, many = "x" * 10**6, [f"{number}" for number in range(10**4)]
    found = bounded(
        Document(
            title=long,
            author=long,
            description=long,
            language=long,
            headings=[long, *many],
            rights=[long, *many],
            feeds=many,
            languages=dict.fromkeys(many, "http://h.test/"),
            anchors=[Link("http://h.test/")] * 10**4,
        ),
        DocumentLimits(),
    )
    assert len(packed_answer(found)) < 400_000
    assert bounded(FULL, DocumentLimits()) == FULL


def test_a_job_is_understood_as_it_was_meant() -> None:
    job = Job(2.5, 10**8, 19, DocumentLimits(max_pages=3), {"a/b": "project.readers.read"})
    assert Job.from_argument(job.to_argument()) == job
