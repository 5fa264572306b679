"""Start `scrapy` commands without the second that its imports take.

A process that has imported Scrapy and this project forks itself for each command. Each one is a
process with its own environment, folder, output, signals and exit code, as if started from a
shell. The demo, `scrapy fleet` and scrapyd still start theirs in full.

process = WarmProcess(["crawl", "web"], cwd=ROOT, env=os.environ, stdout=log, stderr=log)
assert process.wait(60) == 0
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import random
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO

_ROOT = Path(__file__).resolve().parents[2]
_MESSAGE_BYTES = 200_000
# Watches signals as soon as it is imported.
_COMMANDS = "crawler.commands"


class WarmProcess:
    """A `scrapy` command in a process of its own; it has the methods of subprocess.Popen."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdout: IO[bytes] | IO[str],
        stderr: IO[bytes] | IO[str],
    ) -> None:
        self.args = ["scrapy", *arguments]
        self.returncode: int | None = None
        # Messages that are told one after the other are heard one by one.
        self._minder, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        message = json.dumps([self.args, str(cwd), dict(env)]).encode()
        with theirs, Path(os.devnull).open() as stdin:
            files = [theirs, stdin, stdout, stderr]
            socket.send_fds(_parent(), [message], [file.fileno() for file in files])
        self.pid = int(self._hear(None))

    def _hear(self, timeout_s: float | None) -> str:
        self._minder.settimeout(timeout_s)
        told = self._minder.recv(32).decode()
        assert told, "the process that forks commands has died"
        return told

    def poll(self) -> int | None:
        """Return its exit code if it has ended."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ends, and return its exit code, or minus the signal that ended it."""
        if self.returncode is None:
            try:
                self.returncode = int(self._hear(timeout))
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
            # Until now the process id could not be given to another process.
            self._minder.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as kill -9 does."""
        self.send_signal(signal.SIGKILL)


@cache
def _parent() -> socket.socket:
    """Start the process that forks commands; it ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.warm_starts", str(theirs.fileno())],
            cwd=_ROOT,
            env={**os.environ, "PYTHONWARNINGS": "default", "PYTHONFAULTHANDLER": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )

    def end() -> None:
        ours.close()
        process.wait(60)

    atexit.register(end)
    return ours


def _import_all() -> None:
    importlib.import_module("scrapy.cmdline")
    for path in sorted((_ROOT / "crawler").rglob("*.py")):
        name = ".".join(path.relative_to(_ROOT).with_suffix("").parts).removesuffix(".__init__")
        if not name.startswith(_COMMANDS):
            importlib.import_module(name)
    # Scrapy chooses the reactor by its settings.
    assert not {_COMMANDS, "twisted.internet.reactor"} & set(sys.modules)
    gc.collect()
    gc.freeze()


def _fork_commands(tests: socket.socket) -> list[str]:
    """Fork for each message. Returns in the forked processes only, with their arguments."""
    while True:
        message, files, _, _ = socket.recv_fds(tests, _MESSAGE_BYTES, 4)
        if not message:
            os._exit(0)
        if os.fork() == 0:
            tests.close()
            arguments, cwd, env = json.loads(message)
            _be_minded(socket.socket(fileno=files[0]))
            for number, file in enumerate(files[1:]):
                os.dup2(file, number)
                os.close(file)
            os.chdir(cwd)
            os.environ.clear()
            os.environ.update(env)
            # Some defaults are in the environment.
            importlib.reload(sys.modules["crawler.settings"])
            sys.path[0] = cwd
            # Otherwise all of them would draw the same numbers.
            random.seed()
            return list(arguments)
        for file in files:
            os.close(file)


def _be_minded(test: socket.socket) -> None:
    """Fork once more: the child goes on, and its parent tells the test how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        test.close()
        return
    test.sendall(str(pid).encode())
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
    test.sendall(str(code).encode())
    # The process id is free when the test has heard it.
    test.recv(1)
    os._exit(0)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as _tests:
        _import_all()
        # Those who mind a process are reaped by the kernel.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        sys.argv = _fork_commands(_tests)
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
