"""`python -m demo crawl` from end to end: crawl, stop, resume, judge, and nothing left to do."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0
WEB = ["--hosts=8", "--pages=12"]

pytestmark = pytest.mark.slow


class Demo:
    """Runs of the demo in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("REDIS_URL", "MONGO_URI", "MAKELEVEL")
        } | {"CRAWL_DIR": str(folder)}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        # In a group of its own, which gets a signal as the foreground of a terminal does.
        return subprocess.Popen(
            [sys.executable, "-m", "demo", "crawl", *WEB, *arguments],
            cwd=ROOT,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        return ended(self.start(*arguments))

    @property
    def summary(self) -> dict[str, Any]:
        text = (self.folder / "demo" / "summary.json").read_text(encoding="utf-8")
        found: dict[str, Any] = json.loads(text)
        return found

    def wait_for_requests(self, count: int, process: subprocess.Popen[str]) -> None:
        log = self.folder / "demo" / "access.log"
        deadline = time.monotonic() + PATIENCE_S
        while not log.exists() or log.read_bytes().count(b"\n") < count:
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline, f"fewer than {count} requests"
            time.sleep(0.05)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    try:
        output, _ = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        pytest.fail(f"The demo did not end:\n{output}")
    return process.returncode, output


@pytest.fixture
def demo(tmp_path: Path) -> Demo:
    return Demo(tmp_path / "crawl")


def test_a_crawl_agrees_with_the_web_and_a_second_run_finds_nothing_left(demo: Demo) -> None:
    code, output = demo.run()
    assert code == 0, output
    assert "agrees with the synthetic web's own account: all " in output
    assert "finished: nothing is left to crawl" in output
    assert "This run" in output
    first = demo.summary
    assert first["finished"]
    assert first["this_run"]["pages"] > 0

    code, output = demo.run()
    assert code == 0, output
    assert "nothing left to crawl: 1 seed is known" in output
    assert "agrees with the synthetic web's own account" in output
    assert demo.summary["nothing_to_do"]
    assert demo.summary["whole_crawl"]["pages"] == first["whole_crawl"]["pages"]

    # Its first word is a path where the environment lies in this folder.
    _, *arguments = first["commands"]["look"].split()
    shown = subprocess.run(
        [sys.executable, "-m", "scrapy", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    assert "http://s0.test/" in shown.stdout


def test_a_stopped_crawl_is_resumed_and_judged_as_one(demo: Demo) -> None:
    process = demo.start()
    demo.wait_for_requests(20, process)
    os.killpg(process.pid, signal.SIGINT)
    code, output = ended(process)
    assert code == 0, output
    assert "stopped by Ctrl-C" in output
    assert "To go on: CRAWL_DIR=" in output
    assert "own account" not in output
    stopped = demo.summary
    assert not stopped["finished"]
    assert stopped["whole_crawl"]["unfinished"] > 0

    code, output = demo.run()
    assert code == 0, output
    assert "agrees with the synthetic web's own account: all " in output
    resumed = demo.summary
    assert resumed["finished"]
    assert resumed["this_run"]["pages"] > 0
    assert resumed["this_run"]["pages"] < resumed["whole_crawl"]["pages"]


def test_a_limited_crawl_is_not_blamed_for_what_it_left_out(demo: Demo) -> None:
    code, output = demo.run("-a", "max_pages=10")
    assert code == 0, output
    assert "Not everything was to be crawled (max_pages)" in output
    assert "agrees with the synthetic web's own account: " in output
    assert demo.summary["reason"] == "max_pages"
