"""Ctrl-C while modules are loaded."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("KeyboardInterrupt", "stopped by Ctrl-C\n"),
        ("ValueError('bad')", "ValueError: bad\n"),
    ],
)
def test_only_an_interrupt_is_told_without_a_traceback(error: str, text: str) -> None:
    code = f"import crawler.commands\nraise {error}"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode != 0
    assert run.stderr.endswith(text)
    assert ("Traceback" in run.stderr) == (error != "KeyboardInterrupt")


def test_an_interrupt_that_was_dropped_is_raised_again() -> None:
    code = (
        "import signal\n"
        # What is started in the background of a shell ignores it.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from crawler import commands, interrupts\n"
        "interrupts.check()\n"
        "try:\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "except KeyboardInterrupt:\n"
        "    print('dropped', flush=True)\n"
        "interrupts.check()\n"
        "print('went on')\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.stdout == "dropped\n"
    assert run.stderr == "stopped by Ctrl-C\n"


@pytest.mark.parametrize("handler", ["signal.SIG_IGN", "lambda *_: None"])
def test_a_handler_of_others_stays(handler: str) -> None:
    code = (
        f"import signal\nmine = {handler}\nsignal.signal(signal.SIGINT, mine)\n"
        "import crawler.commands\nassert signal.getsignal(signal.SIGINT) is mine"
    )
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)
