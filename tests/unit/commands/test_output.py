"""Pages as people see them."""

import pytest

from crawler.commands._verbs import fields, harmless


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x\x1b]0;owned\x07\x1b[2J", "x\ufffd]0;owned\ufffd\ufffd[2J"),
        ("a\x9b31m\x7f\r\x00", "a\ufffd31m\ufffd\ufffd\ufffd"),
        ("lines\nand\ttabs, ü 字 🙂", "lines\nand\ttabs, ü 字 🙂"),
    ],
)
def test_no_text_steers_the_terminal(text: str, shown: str) -> None:
    assert harmless(text) == shown
    assert fields({"title": text}) == f"title  {shown}"
    assert "\x9b" not in fields({"list": [text]})
    assert "\x1b" not in fields({"list": [text]})
