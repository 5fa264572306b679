"""Lines for people, or one JSON object each; in both secrets are hidden."""

import json
import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy.settings import Settings

from crawler import settings as ours
from crawler.errors import ConfigurationError
from crawler.monitoring import logs
from crawler.monitoring.logs import MESSAGE_MAX, JsonFormatter, TextFormatter
from crawler.util.secrets import Mask

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


def test_a_line_has_no_break_in_it_whatever_is_logged() -> None:
    odd = "a\x85b\u2028c\u2029d\x1ce \udc80 é"
    line = JsonFormatter(Mask()).format(record("%s", odd))
    assert len(line.splitlines()) == 1
    assert json.loads(line)["message"] == odd


def test_arguments_that_do_not_fit_are_shown() -> None:
    found = json.loads(JsonFormatter(Mask()).format(record("%d pages", "many")))
    assert found["message"] == "%d pages ('many',)"


def json_settings(**more: Any) -> Settings:
    return Settings({"LOG_JSON": True, "LOG_LEVEL": "INFO", **more})


def test_what_is_printed_beside_the_log_has_its_form() -> None:
    assert logs.line("a mistake") == "a mistake"
    logs.install(json_settings(ADMIN_TOKEN="a-very-long-token"))
    text = "not with a-very-long-token"
    found = json.loads(logs.line(text, level=logging.ERROR, figures={"pages": 1}))
    assert (found["level"], found["message"]) == ("ERROR", "not with ***")
    assert found["figures"] == {"pages": 1}
    assert logs.parse_message(json.dumps(found)) == "not with ***"
    for other in ("a line", "7", "[1]", "{}"):
        assert logs.parse_message(other) == other


def test_uncaught_errors_and_warnings_are_lines_of_json(tmp_path: Path) -> None:
    before = sys.excepthook, sys.unraisablehook, threading.excepthook
    logs.install(json_settings(LOG_FILE=str(tmp_path / "a.log")))
    try:
        raise ValueError("on purpose")
    except ValueError as error:
        sys.excepthook(ValueError, error, error.__traceback__)
        hook = SimpleNamespace(exc_type=ValueError, exc_value=error, exc_traceback=None)
        threading.excepthook(hook)  # type: ignore[arg-type]
        ignored = SimpleNamespace(**vars(hook), err_msg=None, object=len)
        sys.unraisablehook(ignored)  # type: ignore[arg-type]
    logs.uninstall()
    lines = [json.loads(line) for line in (tmp_path / "a.log").read_text().splitlines()]
    assert [line["level"] for line in lines] == ["CRITICAL", "ERROR", "ERROR"]
    assert all("ValueError: on purpose" in line["error"] for line in lines)
    assert (sys.excepthook, sys.unraisablehook, threading.excepthook) == before


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
                "SINKS": ["mongo", "my_project.sinks.X://me:of-the-sink@host/"],
            }
        )
        logs.install(settings)
        logger.info("it is a-very-long-token at redis://:pa55word@localhost/0")
        logger.warning("b'Authorization': [b'Bearer a-very-long-token'] and pa55word")
        logger.warning("no of-the-sink at my_project.sinks.X://me:of-the-sink@host/")
        logger.debug("for debugging")
        logs.uninstall()
        text = file.read_text()
        assert "a-very-long-token" not in text
        assert "pa55word" not in text
        assert "of-the-sink" not in text
        assert len(text.splitlines()) == 3
        if is_json:
            levels = [json.loads(line)["level"] for line in text.splitlines()]
            assert levels == ["INFO", "WARNING", "WARNING"]
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


@pytest.mark.parametrize(
    ("level", "listed"), [("INFO", False), ("DEBUG", True), ("WARNING", False)]
)
def test_listings_are_for_debugging(tmp_path: Path, level: str, listed: bool) -> None:
    log = tmp_path / "a.log"
    logs.install(Settings({"LOG_FILE": str(log), "LOG_LEVEL": level}))
    logs.hide_listings()
    logging.getLogger("scrapy.middleware").info("Enabled %ss:\n%s", "extension", "[]")
    logging.getLogger("scrapy.crawler").info("Received %s, shutting down", "SIGINT")
    text = log.read_text(encoding="utf-8")
    assert ("Enabled" in text) is listed
    assert ("Received" in text) is (level != "WARNING")
