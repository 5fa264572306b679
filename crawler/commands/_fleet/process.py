"""One process of a fleet: its command line and log file, and whether it is started again.

A process that crashes is started again after a delay, and given up after too many crashes.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from crawler.errors import ExitCode
from crawler.monitoring import logs
from crawler.util.backoff import Backoff

NOT_STARTED, RUNNING, RESTARTING = "not started", "running", "restarting"
ENDED, GIVEN_UP = "ended", "given up"
_END_S = 10.0
_TAIL_LINES = 5
_TAIL_BYTES = 4096


class FleetProcess:
    """A process that is started again when it crashes. Time is an argument, monotonic seconds.

    It is given up when its servers are away for longer than `give_up_s`; 0 for never.
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
        # Of a process that was given up.
        self.exit_code = ExitCode.DONE
        self._give_up_s = give_up_s
        # When it first ended because a server was away.
        self._away_since_s: float | None = None
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._started_s = 0.0
        self._crashes = 0
        self._start_at_s = 0.0
        self._stopping = False

    @property
    def pid(self) -> int | None:
        """Process id, while it runs."""
        return self._process.pid if self._process is not None else None

    @property
    def over(self) -> bool:
        """Whether it neither runs nor will start again."""
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
                # Ctrl-C of the terminal is for the fleet, which passes it on once.
                start_new_session=True,
            )
        self.state, self.why = RUNNING, ""

    def check(self, now_s: float) -> bool:
        """Read its state, and start it again when it is time; return whether anything changed."""
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
        """Wait until it has ended, and kill it if it does not. Blocking."""
        if self._process is None:
            return
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def tail(self) -> str:
        """Return the last lines of its log; of lines in JSON the messages."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ""
        return "\n".join(map(logs.parse_message, text.rstrip().splitlines()[-_TAIL_LINES:]))

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
            case None:
                self.state, self._crashes = ENDED, 0
                self.why = how if code else ""
            case Restart(wait_s, crashes):
                self.state, self._crashes = RESTARTING, crashes
                self._start_at_s = now_s + wait_s
                what = f"{how}: a server is away" if code == ExitCode.SERVER_AWAY else how
                self.why = f"{what}, starts again in {wait_s:.0f} s"
            case GivenUp(reason, exit_code):
                self.state, self.why = GIVEN_UP, f"{how}: {reason}"
                self.exit_code = exit_code


# A process that ran for so long was well: its earlier crashes are forgotten.
WELL_S = 60.0
_BACKOFF = Backoff(1.0, 60.0)
CRASHES_MAX = 8
# Codes after which another start would fail the same way.
_FINAL = {
    ExitCode.MISTAKE: "its arguments or settings are wrong",
    ExitCode.DATA_LOST: "Redis lost a part of the crawl",
}


@dataclass(frozen=True, slots=True)
class Restart:
    """Decision to start a process again, after a crash or without its server."""

    wait_s: float
    # Crashes in a row, this one included.
    crashes: int


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Decision not to start a process again, because it would fail again."""

    reason: str
    code: ExitCode


def after_exit(
    code: int, *, ran_s: float, crashes: int, away_s: float = 0.0, give_up_s: float = 0.0
) -> Restart | GivenUp | None:
    """Decide about a process that ended with this code (negative: by a signal); None: it is done.

    `crashes` counts earlier crashes in a row; `away_s` is how long ago it first ended because a
    server was away. After `give_up_s` of that it is given up; 0 for never.
    """
    if code in (ExitCode.DONE, ExitCode.INTERRUPTED):
        return None
    if code in _FINAL:
        return GivenUp(_FINAL[ExitCode(code)], ExitCode(code))
    if code == ExitCode.SERVER_AWAY:
        # This is no crash: processes that run wait for a server, too.
        if 0 < give_up_s <= away_s:
            return GivenUp(f"a server was away for {away_s:.0f} s", ExitCode.SERVER_AWAY)
        # The delay doubles each time: it is as long as the server has been away.
        return Restart(min(max(_BACKOFF.base_s, away_s), _BACKOFF.max_s), crashes)
    crashes = 1 if ran_s >= WELL_S else crashes + 1
    if crashes > CRASHES_MAX:
        return GivenUp(f"it crashed {crashes} times in a row", ExitCode.FAILED)
    return Restart(_BACKOFF.delay_s(crashes), crashes)


_SCRAPY = (sys.executable, "-m", "scrapy")
_FIRST_ONLY = ("seeds", "sitemaps")


def crawl_command(
    spider: str, arguments: Sequence[str], settings: Sequence[str], *, port: int, first: bool
) -> list[str]:
    """Return the command of a crawl process.

    `arguments` and `settings` are those after -a and -s, NAME=VALUE each. Only the first process
    gets the seeds: the others find them in the frontier. The dashboard of the fleet is at `port`;
    the processes serve their metrics at the ports above it.
    """
    given = [each for each in arguments if first or each.partition("=")[0] not in _FIRST_ONLY]
    # The fleet shows the progress of all processes.
    options = [*settings, "PROGRESS=off", f"ADMIN_PORT={port + 1}"]
    return [*_SCRAPY, "crawl", spider, *_flags("-a", given), *_flags("-s", options)]


def admin_command(crawl: str, settings: Sequence[str]) -> list[str]:
    """Return the command of the admin API and the dashboard."""
    return [*_SCRAPY, "admin", f"--crawl={crawl}", *_flags("-s", settings)]


def _flags(flag: str, values: Sequence[str]) -> list[str]:
    return [word for value in values for word in (flag, value)]


def log_folder(crawl_dir: str, crawl: str) -> Path:
    """Return the folder of a crawl's logs; characters that no folder may have are quoted."""
    name = quote(crawl, safe="")
    return Path(crawl_dir, "fleet", name if name.strip(".") else name.replace(".", "%2E"))


def fresh_log(folder: Path, process: str) -> Path:
    """Return the log file of a process; the earlier one is kept as `.1`.

    A process of an earlier fleet that still runs goes on writing to its own file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{process.replace(' ', '-')}.log"
    with suppress(FileNotFoundError):
        log.replace(log.with_suffix(".log.1"))
    return log
