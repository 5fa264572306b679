"""Run the synthetic web in a process of its own."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from demo.web import WebOptions

_STOP_S: Final = 10.0
ROOT: Final = Path(__file__).resolve().parent.parent


class DemoServer:
    """A context manager: the web is served inside the block, and stopped by SIGTERM on leaving.

    `arguments` are further arguments of `python -m demo serve`.
    """

    def __init__(
        self,
        options: WebOptions,
        log_path: str | Path | None = None,
        port: int = 0,
        arguments: tuple[str, ...] = (),
    ) -> None:
        self.options = options
        self.port = port
        # What the server said when it listened.
        self.ready: dict[str, Any] = {}
        self._command = [sys.executable, "-m", "demo", "serve", f"--port={port}"]
        self._command += [f"--hosts={options.hosts}", f"--pages={options.pages}"]
        self._command += [f"--seed={options.seed}", f"--zoo={options.zoo}", *arguments]
        self._command.append("--commands")
        if log_path is not None:
            self._command.append(f"--log={Path(log_path).resolve()}")
        self._process: subprocess.Popen[str] | None = None
        # Commands come from several threads.
        self._telling = threading.Lock()

    @property
    def address(self) -> str:
        """Where the web is served, as host:port."""
        return f"127.0.0.1:{self.port}"

    @property
    def overrides(self) -> dict[str, str]:
        """The DNS_OVERRIDES that lead a crawler here."""
        return self.ready.get("overrides") or {".test": self.address}

    def start(self) -> None:
        """Start the process and wait until it listens."""
        # A session of its own: Ctrl-C is meant for the crawler, which has fetches to end.
        self._process = subprocess.Popen(
            self._command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        ready = self._process.stdout.readline()
        if not ready:
            self.stop()
            raise RuntimeError("The demo server did not start; its own message says why.")
        self.ready = json.loads(ready)
        self.port = int(self.ready["port"])

    def turn(self, host: str, how: str) -> None:
        """Let a host turn hostile (demo/control.py has the ways), or with "" answer again."""
        self._tell("turn", host, how)

    def listen(self, address: str, port: int) -> None:
        """Let the same web be served at another address too."""
        self._tell("listen", address, port)

    def _tell(self, *command: str | int) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._telling:
            print(json.dumps(command), file=self._process.stdin, flush=True)
            error = json.loads(self._process.stdout.readline())["error"]
        if error:
            raise ValueError(f"The demo server does not {command[0]}: {error}")

    def stop(self) -> None:
        """Stop the process by SIGTERM; its access log is complete afterwards."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None

    def __enter__(self) -> "DemoServer":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
