"""One process of a fleet: started, watched, started again when it crashed."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from crawler import logs
from crawler.policy.exit_codes import ExitCode
from crawler.policy.restarts import WELL_S, Again, Ended, GivenUp, after_exit

NOT_STARTED, RUNNING, RESTARTING = "not started", "running", "restarting"
ENDED, GIVEN_UP = "ended", "given up"
_END_S = 10.0
_TAIL_LINES = 5
_TAIL_BYTES = 4096


class Member:
    """One process. Time is an argument, in monotonic seconds.

    If its servers are away for longer than `give_up_s`, it is given up; 0: never.
    """

    def __init__(
        self, name: str, command: Sequence[str], log: Path, *, give_up_s: float = 0.0
    ) -> None:
        self.name = name
        self.log = log
        self.state = NOT_STARTED
        self.restarts = 0
        # Why it is not running, for people.
        self.why = ""
        # That of a process that was given up.
        self.exit_code = ExitCode.DONE
        self._give_up_s = give_up_s
        # Since when it has no server, as far as its ends tell.
        self._away_since_s: float | None = None
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._started_s = 0.0
        self._crashes = 0
        self._start_at_s = 0.0
        self._stopping = False

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        return self._process.pid if self._process is not None else None

    @property
    def over(self) -> bool:
        """Nothing more comes of it."""
        return self.state in (NOT_STARTED, ENDED, GIVEN_UP)

    def start(self, now_s: float) -> None:
        """Start the process; its output goes to the log."""
        self._started_s = now_s
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # The terminal's Ctrl-C is for the fleet, which passes it on once.
                start_new_session=True,
            )
        self.state, self.why = RUNNING, ""

    def look(self, now_s: float) -> bool:
        """Find out how it is, and start it again when it is time; says whether that is news."""
        if self._process is not None:
            code = self._process.poll()
            if code is not None:
                self._process = None
                self._ended(code, now_s)
                return True
        elif self.state == RESTARTING and (self._stopping or now_s >= self._start_at_s):
            if self._stopping:
                self.state = ENDED
            else:
                self.restarts += 1
                self.start(now_s)
            return True
        return False

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ask it to end; it is not started again.

        Not by SIGINT: a process that is still importing its modules may lose it.
        """
        self._stopping = True
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def wait(self, timeout_s: float = _END_S) -> None:
        """Until it has ended; one that does not is killed. Blocking."""
        if self._process is None:
            return
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def tail(self) -> str:
        """The last lines of its log; of those in JSON the messages."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ""
        return "\n".join(map(logs.message_of, text.rstrip().splitlines()[-_TAIL_LINES:]))

    def _ended(self, code: int, now_s: float) -> None:
        how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"
        if self._stopping:
            self.state, self.why = ENDED, how
            return
        ran_s = now_s - self._started_s
        if code != ExitCode.SERVER_AWAY:
            self._away_since_s = None
        elif self._away_since_s is None or ran_s >= WELL_S:
            self._away_since_s = now_s
        away_s = now_s - self._away_since_s if self._away_since_s is not None else 0.0
        match after_exit(
            code, ran_s=ran_s, crashes=self._crashes, away_s=away_s, give_up_s=self._give_up_s
        ):
            case Ended():
                self.state, self._crashes = ENDED, 0
                self.why = how if code else ""
            case Again(wait_s, crashes):
                self.state, self._crashes = RESTARTING, crashes
                self._start_at_s = now_s + wait_s
                what = f"{how}: a server is away" if code == ExitCode.SERVER_AWAY else how
                self.why = f"{what}, starts again in {wait_s:.0f} s"
            case GivenUp(reason, exit_code):
                self.state, self.why = GIVEN_UP, f"{how}: {reason}"
                self.exit_code = exit_code
