"""Browsers are processes that pages may break: it costs the page, and nothing is left behind."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from crawler.rendering.browsers import BrowserProcess, Browsers, find_browser
from crawler.rendering.messages import Part, RenderFailed
from crawler.rendering.processes import Process, below, process_of
from tests.integration.rendering.conftest import Make, are_gone
from tests.support.rendering import Site, render
from tests.support.waiting import until, wait_until

pytestmark = pytest.mark.asyncio(loop_scope="module")

IsVictim = Callable[[str], bool]

FETCH = "<script>fetch('/a')</script>"
ENDLESS = "<script>setTimeout(() => { for (;;); }, 0)</script>"


async def reason_of(
    browsers: Browsers, document: str, site: Site | None = None, **job: float
) -> str:
    with pytest.raises(RenderFailed) as failed:
        await render(browsers, document, site, **job)
    return failed.value.reason


def only(browsers: Browsers) -> BrowserProcess:
    (process,) = browsers.processes
    return process


def tree(pid: int) -> list[Process]:
    """A browser process and all that it started."""
    own = process_of(pid)
    assert own is not None
    return [own, *below(pid)]


def command(process: Process) -> str:
    try:
        return Path(f"/proc/{process.pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def break_browser(
    browsers: Browsers, is_victim: IsVictim, before: list[Process], _part: Part
) -> None:
    """Kill the processes of a browser that have such a command line; note those that there are."""
    before += tree(only(browsers).pid)
    victims = [process for process in before if is_victim(command(process))]
    assert victims
    for process in victims:
        os.kill(process.pid, signal.SIGKILL)


def inside(folder: Path) -> list[Path]:
    return [*folder.iterdir()]


VICTIMS: dict[str, IsVictim] = {
    "tab": lambda command: "--type=renderer" in command,
    "browser": lambda command: "--user-data-dir" in command and "--type=" not in command,
    "driver": lambda command: "run-driver" in command,
    "worker": lambda command: "crawler.rendering.worker" in command,
}


# --- pages that break browsers --------------------------------------------------------------------


async def test_a_browser_that_dies_costs_its_page_and_the_next_gets_another(
    make: Make, stats: Counter[str], temporary: Path
) -> None:
    browsers = make()
    for number, is_victim in enumerate(VICTIMS.values(), start=1):
        before: list[Process] = []
        site = Site()
        site.on_part = partial(break_browser, browsers, is_victim, before)
        assert await reason_of(browsers, FETCH, site) == "crashed"
        assert len(before) > 8
        # Those of Chromium that were ended with it may take a moment on a busy machine.
        await until(lambda those=before: are_gone(those), "its processes are gone")
        assert not inside(temporary)
        assert stats["render/browsers_started"] == number
    assert b"<p>after" in (await render(browsers, "<p>after")).html


async def test_a_page_that_never_answers_is_given_up(make: Make) -> None:
    browsers = make()
    assert await reason_of(browsers, ENDLESS, deadline_s=1) == "timeout"
    assert not browsers.processes


async def test_a_browser_process_that_hangs_is_given_up(make: Make) -> None:
    browsers = make()
    before: list[Process] = []

    def stop(_part: Part) -> None:
        before.extend(tree(only(browsers).pid))
        os.kill(before[0].pid, signal.SIGSTOP)

    site = Site()
    site.on_part = stop
    assert await reason_of(browsers, FETCH, site, deadline_s=0.5) == "timeout"
    assert len(before) > 8
    assert are_gone(before)


async def test_a_page_that_takes_too_much_memory_is_given_up(make: Make) -> None:
    browsers = make(memory_bytes=600_000_000)
    script = "a = []; setInterval(() => a.push(new Uint8Array(5e7).fill(1)), 50); fetch('/a')"
    site = Site()
    site.on_part = lambda _part: asyncio.Event().wait()
    assert await reason_of(browsers, f"<script>{script}</script>", site) == "memory"
    assert not browsers.processes


async def test_a_browser_that_keeps_too_much_memory_is_ended(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No look while a page is rendered.
    monkeypatch.setattr("crawler.rendering.browsers._LOOK_S", 1000)
    browsers = make(memory_bytes=1)
    await render(browsers, "<p>")
    assert not browsers.processes


async def test_a_part_that_raises_is_left_out(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_part: Part) -> None:
        raise KeyError("bug")

    site = Site()
    site.on_part = fail
    assert b"<p>kept" in (await render(make(), f"<p>kept{FETCH}", site)).html
    assert "http://page.test/a is left out" in caplog.text
    assert "KeyError: 'bug'" in caplog.text


# --- how many there are ---------------------------------------------------------------------------


async def test_a_browser_is_replaced_after_some_pages(make: Make, stats: Counter[str]) -> None:
    browsers = make(pages=2)
    for number in (1, 1, 2):
        await render(browsers, "<p>")
        assert stats["render/browsers_started"] == number


async def test_pages_wait_for_a_browser(make: Make, stats: Counter[str]) -> None:
    browsers = make(waiting=3)
    go_on = asyncio.Event()
    site = Site()
    site.on_part = lambda _part: go_on.wait()
    pages = [asyncio.create_task(render(browsers, FETCH, site)) for _ in range(4)]
    await until(lambda: len(site.asked) == 1)
    assert (browsers.waiting, browsers.is_full) == (3, True)
    pages.pop().cancel()
    await until(lambda: browsers.waiting == 2)
    assert not browsers.is_full
    go_on.set()
    await asyncio.gather(*pages)
    assert (browsers.waiting, stats["render/browsers_started"]) == (0, 1)


async def test_a_browser_without_pages_ends(make: Make, temporary: Path) -> None:
    browsers = make(idle_s=0.1)
    await render(browsers, "<p>")
    await until(lambda: not browsers.processes)
    assert not inside(temporary)


async def test_a_cancelled_page_ends_its_browser(make: Make) -> None:
    browsers = make()
    site = Site()
    site.on_part = lambda _part: asyncio.Event().wait()
    page = asyncio.create_task(render(browsers, FETCH, site))
    await until(lambda: site.asked)
    before = tree(only(browsers).pid)
    page.cancel()
    with pytest.raises(asyncio.CancelledError):
        await page
    assert are_gone(before)
    assert not browsers.processes


async def test_closing_ends_all_browsers_and_starts_none(
    make: Make, stats: Counter[str], temporary: Path
) -> None:
    browsers = make(count=2)
    site = Site()
    site.on_part = lambda _part: asyncio.Event().wait()
    pages = [asyncio.create_task(reason_of(browsers, FETCH, site)) for _ in range(3)]
    await until(lambda: len(site.asked) == 2)
    before = [each for process in browsers.processes for each in tree(process.pid)]
    assert len(before) > 10
    await browsers.close()
    assert are_gone(before)
    assert await asyncio.gather(*pages) == ["crashed"] * 3
    assert stats["render/browsers_started"] == 2
    assert not inside(temporary)


async def test_closing_while_a_browser_starts_ends_it(make: Make, temporary: Path) -> None:
    browsers = make()
    page = asyncio.create_task(reason_of(browsers, "<p>"))
    await until(lambda: browsers.processes)
    before = tree(only(browsers).pid)
    await browsers.close()
    assert await page in ("crashed", "start")
    assert are_gone(before)
    assert not inside(temporary)


# --- a crawl that dies ----------------------------------------------------------------------------

CRAWL = """
import asyncio, shutil, sys, threading
from crawler.rendering.browsers import Browsers
from tests.support.rendering import Site, limits, render

async def main():
    browsers = Browsers(limits(), count=lambda _stat: None)
    site = Site()
    def hangs(*_args, **_kwargs):
        print("ending", flush=True)
        threading.Event().wait()
    async def waits(_part):
        print(*(process.pid for process in browsers.processes), flush=True)
        if "ending" in sys.argv:
            shutil.rmtree = hangs
            await browsers.close()
        await asyncio.Event().wait()
    site.on_part = waits
    await render(browsers, "<script>fetch('/a')</script>", site)

asyncio.run(main())
"""


@pytest.fixture
def crawl(
    request: pytest.FixtureRequest, chromium: str, temporary: Path
) -> Iterator[subprocess.Popen[str]]:
    """Process of a crawl that has a browser with a page."""
    root = Path(__file__).resolve().parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root), "TMPDIR": str(temporary)}
    crawl = subprocess.Popen(
        [sys.executable, "-c", CRAWL, getattr(request, "param", "")],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    yield crawl
    crawl.kill()
    crawl.communicate()


@pytest.mark.parametrize("is_hanging", [False, True])
async def test_a_browser_ends_with_its_crawl(
    crawl: subprocess.Popen[str], temporary: Path, is_hanging: bool
) -> None:
    assert crawl.stdout is not None
    pid = int(crawl.stdout.readline())
    before = tree(pid)
    assert len(before) > 5
    if is_hanging:
        # Nobody but the browser process itself ends the browser.
        (driver,) = (process for process in before if VICTIMS["driver"](command(process)))
        os.kill(driver.pid, signal.SIGSTOP)
    crawl.kill()
    wait_until(lambda: are_gone(before))
    wait_until(lambda: not inside(temporary))


@pytest.mark.parametrize("crawl", ["ending"], indirect=True)
async def test_a_browser_ends_with_a_crawl_that_was_about_to_end_it(
    crawl: subprocess.Popen[str], temporary: Path
) -> None:
    assert crawl.stdout is not None
    own = process_of(int(crawl.stdout.readline()))
    assert own is not None
    assert crawl.stdout.readline() == "ending\n"
    assert not below(own.pid)
    assert inside(temporary)
    crawl.kill()
    wait_until(lambda: are_gone([own]))
    wait_until(lambda: not inside(temporary))


async def test_signals_for_the_crawl_do_not_end_a_browser_process(make: Make) -> None:
    browsers = make()

    def signalled(_part: Part) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(only(browsers).pid, number)

    site = Site()
    site.on_part = signalled
    assert b"<p>kept" in (await render(browsers, f"<p>kept{FETCH}", site)).html


# --- browsers that do not start -------------------------------------------------------------------


async def test_a_program_that_is_no_browser_is_told(
    make: Make, caplog: pytest.LogCaptureFixture, temporary: Path
) -> None:
    browsers = make(config={"program": "/bin/false"})
    assert await reason_of(browsers, "<p>") == "start"
    assert "The browser /bin/false does not start" in caplog.text
    assert not inside(temporary)


async def test_a_program_that_is_not_there_is_told(make: Make) -> None:
    browsers = make(config={"program": "/no/such/browser"})
    with pytest.raises(RenderFailed, match="/no/such/browser"):
        await render(browsers, "<p>")


async def test_a_browser_that_takes_too_long_to_start_is_given_up(
    make: Make, tmp_path: Path
) -> None:
    program = tmp_path / "slow"
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o755)
    browsers = make(config={"program": str(program), "start_s": 0.5})
    assert await reason_of(browsers, "<p>") == "start"
    assert not browsers.processes


async def test_a_browser_is_found_by_its_path_or_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_browser(None) is None
    for name in ("chrome", "google-chrome", "chromium"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
        assert find_browser(None) == str(tmp_path / name)
    assert find_browser("/bin/sh") == "/bin/sh"
    assert find_browser("/no/such/browser") is None
