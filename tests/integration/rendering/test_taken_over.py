"""A browser process that a page has taken over says what it likes: it costs this page."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from crawler.rendering.messages import MAX_HTML_BYTES, MAX_MESSAGE_BYTES, Rendered, RenderFailed
from tests.integration.rendering.conftest import Make
from tests.support.rendering import URL, Site, render

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Takes the place of a browser process; says what it is told to when it has a page.
WORKER = """
import sys
from crawler.reading.messages import SIZE, packed

def say(message):
    sys.stdout.buffer.write(packed(message))
    sys.stdout.buffer.flush()

part = {"part": 1, "url": "http://page.test/a", "method": "GET", "kind": "fetch", "headers": {},
        "body": b""}
page = {"url": "http://page.test/", "html": b"<p>", "redirect": "", "routes": [], "settled": True,
        "console_errors": 0, "left_out": {}, "screenshot": b""}
def message():
    sys.stdin.buffer.read(SIZE.unpack(sys.stdin.buffer.read(SIZE.size))[0])

say("ready")
message()
%s
sys.stdin.buffer.read()
"""
Take = Callable[[str], None]


@pytest.fixture
def take(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Take:
    """Have browser processes run this code when they have a page."""

    def take(code: str) -> None:
        worker, program = tmp_path / "worker.py", tmp_path / "python"
        worker.write_text(WORKER % code)
        program.write_text(f"#!/bin/sh\nexec {sys.executable} {worker}\n")
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))

    return take


@pytest.mark.parametrize(
    "code",
    [
        f"sys.stdout.buffer.write(SIZE.pack({MAX_MESSAGE_BYTES} + 1)); sys.stdout.buffer.flush()",
        "sys.stdout.buffer.write(SIZE.pack(1) + b'\\xc1'); sys.stdout.buffer.flush()",
        "say([1, 2])",
        "say('ready')",
        "say({'part': 1})",
        "say(part | {'url': 'file:///etc/passwd'})",
        "[say(part | {'part': number}) for number in range(7)]",
        "say({'rendered': {}, 'last': False})",
        f"say({{'rendered': page | {{'html': bytes({MAX_HTML_BYTES} + 1)}}, 'last': False}})",
        "say({'failed': 'because', 'text': ''})",
        "sys.exit()",
    ],
)
async def test_what_is_no_message_ends_the_process(make: Make, take: Take, code: str) -> None:
    take(code)
    browsers = make()
    site = Site()
    site.on_part = lambda _part: asyncio.Event().wait()
    with pytest.raises(RenderFailed) as failed:
        await render(browsers, "", site)
    assert failed.value.reason == "crashed"
    assert not browsers.processes


async def test_a_process_that_asks_for_ever_is_ended(make: Make, take: Take) -> None:
    take("""
while True:
    say(part)
    message()
""")
    site = Site()
    with pytest.raises(RenderFailed, match="more parts"):
        await render(make(), "", site)
    assert len(site.asked) == 1000


async def test_a_process_says_nothing_for_other_sites(make: Make, take: Take) -> None:
    take("say({'rendered': page | {'url': 'https://bank.test/'}, 'last': True})")
    assert await render(make(), "") == Rendered(url=URL, html=b"<p>")


async def test_a_process_that_says_nothing_is_ended(
    make: Make, take: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.rendering.browsers._LATE_S", 0.1)
    take("")
    browsers = make()
    with pytest.raises(RenderFailed) as failed:
        await render(browsers, "", deadline_s=0.1)
    assert failed.value.reason == "timeout"
    assert not browsers.processes
