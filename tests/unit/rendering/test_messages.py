"""Messages of browser processes, which pages may have taken over: nothing in them is trusted."""

from typing import Any

import pytest

from crawler.reading.messages import SIZE, Garbage, packed, unpacked
from crawler.rendering.messages import (
    LEFT_OUT,
    MAX_BODY_BYTES,
    MAX_HTML_BYTES,
    MAX_MESSAGE_BYTES,
    MAX_ROUTES,
    MAX_SCREENSHOT_BYTES,
    MAX_URL_CHARS,
    BrowserConfig,
    Part,
    PartAnswer,
    Rendered,
    RenderFailed,
    RenderJob,
    answer_message,
    job_message,
    outcome_in,
    part_in,
)

URL = "http://page.test/a"
LONG = "http://page.test/" + "a" * MAX_URL_CHARS
PART = {"part": 1, "url": URL, "method": "GET", "kind": "script", "headers": {}, "body": b""}
PAGE: dict[str, Any] = {
    "url": URL,
    "html": b"<p>",
    "redirect": "",
    "routes": [],
    "settled": True,
    "console_errors": 0,
    "left_out": {},
    "screenshot": b"",
}


def sent(message: object) -> Any:
    """A message as it arrives."""
    return unpacked(packed(message)[SIZE.size :])


def page_with(**fields: Any) -> Rendered:
    found, is_last = outcome_in(sent({"rendered": PAGE | fields, "last": False}), URL)
    assert isinstance(found, Rendered)
    assert not is_last
    return found


def test_a_job_arrives_as_it_was_sent() -> None:
    job = RenderJob(URL, 200, [("A", "b"), ("A", "c")], b"\xff", scroll=2, screenshot=True)
    found = sent(job_message(job))["job"]
    assert found == {
        "url": URL,
        "status": 200,
        "headers": [["A", "b"], ["A", "c"]],
        "body": b"\xff",
        "scroll": 2,
        "deadline_s": 10.0,
        "screenshot": True,
    }


def test_an_answer_is_a_response_or_a_reason() -> None:
    assert sent(answer_message(3, "robots")) == {"answer": 3, "reason": "robots"}
    answer = PartAnswer(404, [("A", "b")], b"\0")
    expected = {"answer": 3, "status": 404, "headers": [["A", "b"]], "body": b"\0"}
    assert sent(answer_message(3, answer)) == expected


def test_a_configuration_comes_through_a_command_line() -> None:
    config = BrowserConfig("/bin/browser", "agent/1", ("script", "fetch"), sandbox=False)
    assert BrowserConfig.from_argument(config.to_argument()) == config


def test_a_part_is_asked_for() -> None:
    message = sent(PART | {"method": "POST", "headers": {"a": "b"}, "body": b"x"})
    assert part_in(message) == (1, Part(URL, "POST", "script", {"a": "b"}, b"x"))


@pytest.mark.parametrize(
    "field",
    [
        {"part": "1"},
        {"url": "file:///etc/passwd"},
        {"url": LONG},
        {"url": b"http://page.test/"},
        {"method": "A" * 21},
        {"kind": "secret"},
        {"headers": []},
        {"headers": {"a": 1}},
        {"headers": {str(number): "" for number in range(101)}},
        {"headers": {"a": "b" * 40_000}},
        {"body": "text"},
        {"body": bytes(MAX_BODY_BYTES + 1)},
    ],
    ids=repr,
)
def test_a_request_for_a_part_that_is_none_is_garbage(field: dict[str, Any]) -> None:
    with pytest.raises(Garbage):
        part_in(sent(PART | field))


def test_a_page_arrives() -> None:
    fields = {
        "url": "http://page.test/b#c",
        "redirect": "https://other.test/",
        "routes": ["http://page.test/b"],
        "left_out": {"image": 3},
        "screenshot": b"RIFF",
    }
    assert page_with(**fields) == Rendered(html=b"<p>", **fields)


def test_the_longest_page_fits_into_a_message() -> None:
    fields = {
        "html": bytes(MAX_HTML_BYTES),
        "screenshot": bytes(MAX_SCREENSHOT_BYTES),
        "routes": ["http://page.test/" + "ä" * (MAX_URL_CHARS - 20)] * MAX_ROUTES,
        "left_out": dict.fromkeys(LEFT_OUT, 1_000_000),
    }
    assert len(packed({"rendered": PAGE | fields, "last": False})) < MAX_MESSAGE_BYTES
    page_with(**fields)


@pytest.mark.parametrize(
    "shown",
    [
        "http://other.test/",
        "https://page.test/a",
        "http://page.test:81/",
        "http://page.test@other.test/",
        "http://page.test.other.test/",
        "about:blank",
        "http://[",
        "http://page.test:x/",
        LONG,
    ],
)
def test_a_page_cannot_speak_for_another_site(shown: str) -> None:
    assert page_with(url=shown).url == URL


@pytest.mark.parametrize("shown", ["http://page.test/b?c", "http://PAGE.test:80/", URL])
def test_a_page_may_have_any_address_of_its_site(shown: str) -> None:
    assert page_with(url=shown).url == shown


@pytest.mark.parametrize(
    "field",
    [
        {"html": "text"},
        {"html": bytes(MAX_HTML_BYTES + 1)},
        {"screenshot": bytes(MAX_SCREENSHOT_BYTES + 1)},
        {"redirect": "javascript:alert(1)"},
        {"redirect": LONG},
        {"routes": [URL] * (MAX_ROUTES + 1)},
        {"routes": ["file:///"]},
        {"routes": [1]},
        {"settled": 1},
        {"console_errors": -1},
        {"console_errors": 10**9},
        {"left_out": {"my own": 1}},
        {"left_out": {"image": -1}},
        {"left_out": {"image": "many"}},
        {"left_out": {"image": 10**12}},
        {"url": None},
    ],
    ids=lambda field: repr(field)[:40],
)
def test_a_page_with_wrong_fields_is_garbage(field: dict[str, Any]) -> None:
    with pytest.raises(Garbage):
        page_with(**field)


@pytest.mark.parametrize("field", [*PAGE])
def test_a_page_without_a_field_is_garbage(field: str) -> None:
    page = {name: value for name, value in PAGE.items() if name != field}
    with pytest.raises(Garbage):
        outcome_in({"rendered": page, "last": False}, URL)


@pytest.mark.parametrize("reason", RenderFailed.REASONS)
def test_a_failure_has_one_of_the_reasons_and_is_the_last_word(reason: str) -> None:
    found, is_last = outcome_in({"failed": reason, "text": "a" * 5000}, URL)
    assert isinstance(found, RenderFailed)
    assert (found.reason, str(found), is_last) == (reason, "a" * 1000, True)


@pytest.mark.parametrize(
    "message",
    [{}, {"failed": "other", "text": ""}, {"failed": "crashed"}, {"rendered": [], "last": True}],
    ids=repr,
)
def test_a_message_that_is_no_outcome_is_garbage(message: dict[str, Any]) -> None:
    with pytest.raises(Garbage):
        outcome_in(message, URL)
