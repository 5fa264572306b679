"""SIGINT and SIGTERM before an event loop handles them."""

import subprocess
import sys

import pytest

from crawler.errors import ExitCode

# What is started in the background of a shell ignores SIGINT.
BEGIN = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from crawler import commands; from crawler.util import interrupts
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BEGIN + code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_only_an_interrupt_is_told_without_a_traceback() -> None:
    ended = run("raise KeyboardInterrupt")
    assert (ended.returncode, ended.stderr) == (ExitCode.INTERRUPTED, "stopped by Ctrl-C\n")
    ended = run("raise ValueError('bad')")
    assert ended.returncode == 1
    assert ended.stderr.startswith("Traceback")
    assert ended.stderr.endswith("ValueError: bad\n")


def test_what_waits_for_the_end_is_done_after_an_interrupt() -> None:
    ended = run("import atexit\natexit.register(print, 'cleaned up')\nraise KeyboardInterrupt")
    assert (ended.returncode, ended.stdout) == (ExitCode.INTERRUPTED, "cleaned up\n")


def test_a_console_is_not_ended_by_ctrl_c() -> None:
    ended = run("sys.ps1 = '>>> '\nsys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)")
    assert (ended.returncode, ended.stderr) == (0, "KeyboardInterrupt\n")


def test_an_interrupt_that_was_dropped_is_raised_again() -> None:
    ended = run(
        "try:\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "except KeyboardInterrupt:\n"
        "    print('dropped', flush=True)\n"
        "interrupts.unwind()\n"
        "print('went on')\n"
    )
    assert ended.stdout == "dropped\n"
    assert (ended.returncode, ended.stderr) == (ExitCode.INTERRUPTED, "stopped by Ctrl-C\n")


def test_sigterm_ends_what_is_still_being_loaded() -> None:
    # Whatever is done about exceptions there.
    ended = run(
        "try:\n    signal.raise_signal(signal.SIGTERM)\nexcept BaseException:\n    pass\n"
        "print('went on')"
    )
    assert (ended.returncode, ended.stdout) == (ExitCode.INTERRUPTED, "")
    assert ended.stderr == "stopped by SIGTERM\n"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_command_cleans_up_after_the_first_signal_and_ends_at_the_second(name: str) -> None:
    program = (
        "interrupts.unwind()\n"
        "try:\n"
        f"    signal.raise_signal(signal.{name})\n"
        "except KeyboardInterrupt:\n"
        "    print('cleaning up', flush=True)\n"
        "    {more}\n"
        "    print('clean')\n"
    )
    ended = run(program.format(more="pass"))
    assert (ended.returncode, ended.stdout) == (0, "cleaning up\nclean\n")
    ended = run(program.format(more="signal.raise_signal(signal.SIGTERM)"))
    assert (ended.returncode, ended.stdout) == (ExitCode.INTERRUPTED, "cleaning up\n")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("handler", ["signal.SIG_IGN", "lambda *_: None"])
def test_a_handler_of_others_stays(name: str, handler: str) -> None:
    code = (
        f"import signal\nmine = {handler}\nsignal.signal(signal.{name}, mine)\n"
        f"from crawler import commands; from crawler.util import interrupts\ninterrupts.unwind()\n"
        f"assert signal.getsignal(signal.{name}) is mine"
    )
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)


def test_settings_that_a_script_reads_change_no_handler() -> None:
    code = "import signal, crawler.settings as _\n"
    code += "assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL"
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)
