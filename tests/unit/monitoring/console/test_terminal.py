"""The live view shares the terminal with log lines; the log is free of listings."""

import io
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console
from scrapy.settings import Settings
from scrapy.utils import log
from scrapy.utils.test import get_crawler

from crawler.errors import ConfigurationError
from crawler.extensions.progress import Progress
from crawler.monitoring.console.view import Terminal
from crawler.monitoring.logs import hide_listings


@pytest.fixture
def root_handler() -> Iterator[logging.Handler]:
    level = logging.root.level
    log.install_scrapy_root_handler(Settings({"LOG_LEVEL": "INFO"}))
    handler = log.get_scrapy_root_handler()
    assert handler is not None
    yield handler
    log._uninstall_scrapy_root_handler()
    logging.root.setLevel(level)


def test_log_lines_go_above_the_view_and_the_handler_gets_its_stream_back(
    root_handler: logging.StreamHandler[Any],
) -> None:
    screen = io.StringIO()
    before = root_handler.stream
    terminal = Terminal(Console(file=screen, force_terminal=True, width=60, height=20))
    terminal.start()
    terminal.show("the view")
    logging.getLogger("test").warning("a line")
    terminal.stop()
    terminal.stop()
    assert root_handler.stream is before
    text = screen.getvalue()
    assert "a line" in text
    # Drawn, moved down by the line, and taken away at the end.
    assert text.count("the view") >= 2
    assert text.index("a line") < text.rindex("the view")


def test_a_log_that_the_view_leaves_alone_goes_on_after_it(
    root_handler: logging.StreamHandler[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As for a view that is forced upon what is no terminal.
    monkeypatch.setattr("sys.stderr", root_handler.stream)
    terminal = Terminal(Console(file=io.StringIO()))
    before = root_handler.stream
    terminal.start()
    terminal.stop()
    assert root_handler.stream is before


@pytest.mark.parametrize(
    ("level", "listed"), [("INFO", False), ("DEBUG", True), ("WARNING", False)]
)
def test_listings_are_for_debugging(
    level: str, listed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    hide_listings(level)
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("scrapy.middleware").info("Enabled %ss:\n%s", "extension", "[]")
        logging.getLogger("scrapy.crawler").info("Received %s, shutting down", "SIGINT")
    hide_listings("DEBUG")
    assert ("Enabled" in caplog.text) is listed
    assert "Received" in caplog.text


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"PROGRESS": "loud"}, "PROGRESS is 'loud'; use one of auto, live, plain, off."),
        ({"PROGRESS": "plain", "PROGRESS_INTERVAL": 0}, "PROGRESS_INTERVAL is 0; give seconds"),
    ],
)
def test_a_wrong_setting_is_told(settings: dict[str, object], text: str) -> None:
    crawler = get_crawler(settings_dict={"PROGRESS_INTERVAL": 5, **settings})
    with pytest.raises(ConfigurationError) as error:
        Progress.from_crawler(crawler)
    assert text in str(error.value)
