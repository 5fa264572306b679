"""Lines for people, or one JSON object each; in both secrets are hidden."""

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from crawler import logs
from crawler import settings as ours
from crawler.errors import ConfigurationError
from crawler.logs import MESSAGE_MAX, JsonFormatter, TextFormatter
from crawler.masking import Mask

logger = logging.getLogger("crawler.test")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    level = logging.root.level
    yield
    logs.uninstall()
    logging.root.setLevel(level)


def record(message: str, *args: Any, **fields: Any) -> logging.LogRecord:
    found = logging.LogRecord("crawler.a", logging.INFO, "f.py", 1, message, args, None)
    for name, value in fields.items():
        setattr(found, name, value)
    return found


def test_a_line_is_one_json_object() -> None:
    line = JsonFormatter(Mask()).format(record("two\nlines of %s", "text"))
    assert "\n" not in line
    found = json.loads(line)
    assert found["message"] == "two\nlines of text"
    assert (found["level"], found["logger"]) == ("INFO", "crawler.a")
    assert found["at"].endswith("Z")


def test_a_traceback_is_part_of_the_object() -> None:
    try:
        raise ValueError("token=abc")
    except ValueError:
        one = record("it failed", exc_info=sys.exc_info())
    found = json.loads(JsonFormatter(Mask()).format(one))
    assert "ValueError: token=***" in found["error"]


def test_lines_are_bounded() -> None:
    found = json.loads(JsonFormatter(Mask()).format(record("x" * 1_000_000)))
    assert len(found["message"]) < MESSAGE_MAX + 20
    assert found["message"].endswith("(cut)")


def test_figures_stay_numbers() -> None:
    one = record("a line", figures={"pages": 3})
    assert json.loads(JsonFormatter(Mask()).format(one))["figures"] == {"pages": 3}
    assert TextFormatter(Mask(), "%(message)s").format(one) == "a line"


def test_secrets_of_the_settings_are_hidden_in_all_lines(tmp_path: Path) -> None:
    for is_json in (False, True):
        file = tmp_path / f"{is_json}.log"
        settings = Settings({name: getattr(ours, name) for name in dir(ours) if name.isupper()})
        settings.setdict(
            {
                "LOG_FILE": str(file),
                "LOG_JSON": is_json,
                "ADMIN_TOKEN": "a-very-long-token",
                "REDIS_URL": "redis://:pa55word@localhost/0",
            }
        )
        logs.install(settings)
        logger.info("it is a-very-long-token at redis://:pa55word@localhost/0")
        logger.warning("b'Authorization': [b'Bearer a-very-long-token'] and pa55word")
        logger.debug("for debugging")
        logs.uninstall()
        text = file.read_text()
        assert "a-very-long-token" not in text
        assert "pa55word" not in text
        assert len(text.splitlines()) == 2
        if is_json:
            assert [json.loads(line)["level"] for line in text.splitlines()] == ["INFO", "WARNING"]
        else:
            assert "[crawler.test] INFO: it is *** at redis://:***@localhost/0" in text


def test_scrapy_installs_no_handler_beside_ours() -> None:
    settings = Settings({"LOG_ENABLED": False, "LOG_LEVEL": "INFO"})
    handler = logs.install(settings)
    assert settings.getbool("LOG_INSTALL_ROOT_HANDLER") is False
    assert isinstance(handler, logging.NullHandler)
    assert logs.root_handler() is handler
    again = logs.install(settings)
    assert handler not in logging.root.handlers
    assert again in logging.root.handlers


@pytest.mark.parametrize(
    ("name", "value"), [("LOG_LEVEL", "LOUD"), ("LOG_FILE", "/nowhere/to/be/found.log")]
)
def test_a_log_that_cannot_be_is_told_in_one_line(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}.*{value}"):
        logs.install(Settings({name: value}))


def test_a_level_may_be_a_number() -> None:
    settings = Settings({"LOG_LEVEL": "15", "LOG_ENABLED": False})
    assert logs.install(settings).level == 15
