"""The live view shares the terminal with log lines."""

import io
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console
from scrapy.settings import Settings
from scrapy.utils import log

from crawler.errors import ConfigurationError
from crawler.monitoring.console.screen import Screen
from crawler.monitoring.console.view import Snapshot, plain_line
from tests.support.terminal import Terminal
from tests.support.waiting import until
from tests.unit.monitoring.console.snapshots import SNAPSHOT


@pytest.fixture
def root_handler() -> Iterator[logging.Handler]:
    level = logging.root.level
    log.install_scrapy_root_handler(Settings({"LOG_LEVEL": "INFO"}))
    handler = log.get_scrapy_root_handler()
    assert handler is not None
    yield handler
    log._uninstall_scrapy_root_handler()
    logging.root.setLevel(level)


async def snapshot() -> Snapshot:
    return SNAPSHOT


async def test_log_lines_go_above_the_view_and_the_handler_gets_its_stream_back(
    root_handler: logging.StreamHandler[Any],
) -> None:
    file = io.StringIO()
    before = root_handler.stream
    screen = Screen("live", 1.0, console=Console(file=file, force_terminal=True, width=80))
    screen.start(snapshot)
    await until(lambda: "This process" in file.getvalue())
    logging.getLogger("test").warning("a line")
    screen.say("news")
    await screen.stop()
    await screen.stop()
    assert root_handler.stream is before
    text = file.getvalue()
    assert "news" in text
    # Drawn, moved down by the line, and taken away at the end.
    assert text.count("This process") >= 2
    assert text.index("a line") < text.rindex("This process")


class Tty(io.StringIO):
    """File whose text goes to a terminal."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self.terminal = terminal

    def write(self, text: str) -> int:
        self.terminal.feed(text)
        return super().write(text)


@pytest.mark.parametrize("keys", ["^C", "^C^C", "^Z^C^\\"])
async def test_keys_that_the_terminal_echoes_leave_no_border_behind(keys: str) -> None:
    terminal = Terminal(width=80)
    console = Console(file=Tty(terminal), force_terminal=True, width=80, height=50)
    screen = Screen("live", 1.0, console=console)
    screen.start(snapshot)
    await until(lambda: "╰" in terminal.text)
    # As the terminal does by itself, wherever the cursor is.
    terminal.feed(keys)
    screen.say("Stopping")
    assert terminal.text.count("╭") == 1
    terminal.feed(keys)
    await screen.stop()
    assert terminal.text.split() == ["Stopping"]


async def test_a_log_that_the_view_leaves_alone_goes_on_after_it(
    root_handler: logging.StreamHandler[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As for a view that is forced upon what is no terminal.
    monkeypatch.setattr("sys.stderr", root_handler.stream)
    screen = Screen("live", 1.0, console=Console(file=io.StringIO()))
    before = root_handler.stream
    screen.start(snapshot)
    await screen.stop()
    assert root_handler.stream is before


async def test_errors_are_logged_once_and_do_not_end_the_view(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reads: list[int] = []

    async def read() -> Snapshot:
        reads.append(len(reads))
        raise ValueError("odd")

    screen = Screen("plain", 0.001)
    screen.start(read)
    await until(lambda: len(reads) > 3)
    await screen.stop()
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        "The progress could not be shown; trying again each time"
    ]


async def test_plain_lines_go_to_the_log_and_nothing_is_shown_when_off() -> None:
    lines: list[str] = []
    screens = [Screen(mode, 0.001, log=lines.append) for mode in ("off", "plain")]
    for screen in screens:
        screen.start(snapshot)
    await until(lambda: lines)
    for screen in screens:
        await screen.stop()
    assert set(lines) == {plain_line(SNAPSHOT)}
    assert screens[0]._task is None


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"PROGRESS": "loud"}, "PROGRESS is 'loud'; use one of auto, live, plain, off."),
        ({"PROGRESS": "plain", "PROGRESS_INTERVAL": 0}, "PROGRESS_INTERVAL is 0; give seconds"),
    ],
)
def test_a_wrong_setting_is_told(settings: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        Screen.from_settings(Settings({"PROGRESS_INTERVAL": 5, **settings}))
    assert text in str(error.value)
