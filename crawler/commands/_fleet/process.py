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
            case Restart(wait_s, crashes):
                self.state, self._crashes = RESTARTING, crashes
                self._start_at_s = now_s + wait_s
                what = f"{how}: a server is away" if code == ExitCode.SERVER_AWAY else how
                self.why = f"{what}, starts again in {wait_s:.0f} s"
            case GivenUp(reason, exit_code):
                self.state, self.why = GIVEN_UP, f"{how}: {reason}"
                self.exit_code = exit_code


# A process that ran for so long before it ended has been well: what was before is forgotten.
WELL_S = 60.0
_BACKOFF = Backoff(1.0, 60.0)
CRASHES_MAX = 8
# Codes after which another start is of no use.
_FINAL = {
    ExitCode.MISTAKE: "its arguments or settings are wrong",
    ExitCode.DATA_LOST: "Redis lost a part of the crawl",
}


@dataclass(frozen=True, slots=True)
class Ended:
    """Its work is done, or somebody stopped it."""


@dataclass(frozen=True, slots=True)
class Restart:
    """It crashed or had no server, and starts again after a while."""

    wait_s: float
    # How often it crashed in a row, this time included.
    crashes: int


@dataclass(frozen=True, slots=True)
class GivenUp:
    """It would fail again."""

    reason: str
    code: ExitCode


def after_exit(
    code: int, *, ran_s: float, crashes: int, away_s: float = 0.0, give_up_s: float = 0.0
) -> Ended | Restart | GivenUp:
    """What to do after a process ended with this code (a signal: negative).

    `crashes` is how often it had crashed in a row before, `away_s` how long ago it first ended for
    want of a server. After `give_up_s` of that it is given up; 0: never.
    """
    if code in (ExitCode.DONE, ExitCode.INTERRUPTED):
        return Ended()
    if code in _FINAL:
        return GivenUp(_FINAL[ExitCode(code)], ExitCode(code))
    if code == ExitCode.SERVER_AWAY:
        # No crash, however often: processes that run wait for a server, too.
        if 0 < give_up_s <= away_s:
            return GivenUp(f"a server was away for {away_s:.0f} s", ExitCode.SERVER_AWAY)
        # As long again as it has been away: twice as long each time.
        return Restart(min(max(_BACKOFF.base_s, away_s), _BACKOFF.max_s), crashes)
    crashes = 1 if ran_s >= WELL_S else crashes + 1
    if crashes > CRASHES_MAX:
        return GivenUp(f"it crashed {crashes} times in a row", ExitCode.FAILED)
    return Restart(_BACKOFF.delay_s(crashes), crashes)


_SCRAPY = (sys.executable, "-m", "scrapy")


@dataclass(frozen=True, slots=True)
class FleetCommands:
    """`arguments` and `settings` as given after -a and -s, NAME=VALUE each.

    The fleet's dashboard is at `admin_port`; the processes serve their metrics at the next ones.
    """

    spider: str
    arguments: Sequence[str]
    settings: Sequence[str]
    admin_port: int

    def crawler(self, *, first: bool) -> list[str]:
        """A crawl process. Seeds are the first one's: the others find them in the frontier."""
        arguments = [
            argument
            for argument in self.arguments
            if first or argument.partition("=")[0] not in ("seeds", "sitemaps")
        ]
        return [
            *_SCRAPY,
            "crawl",
            self.spider,
            *_flags("-a", arguments),
            # One view for all of them.
            *_flags("-s", [*self.settings, "PROGRESS=off", f"ADMIN_PORT={self.admin_port + 1}"]),
        ]

    def admin(self, crawl: str) -> list[str]:
        """The admin API and the dashboard."""
        return [*_SCRAPY, "admin", f"--crawl={crawl}", *_flags("-s", self.settings)]


def _flags(flag: str, values: Sequence[str]) -> list[str]:
    return [word for value in values for word in (flag, value)]


def folder_of(crawl_dir: str, crawl: str) -> Path:
    """The folder of a crawl's logs; its name may have characters that a folder's cannot have."""
    name = quote(crawl, safe="")
    return Path(crawl_dir, "fleet", name if name.strip(".") else name.replace(".", "%2E"))


def fresh_log(folder: Path, process: str) -> Path:
    """A file for what a process will write; what was written before is kept once, as `.1`.

    A process of an earlier fleet that still runs goes on writing there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{process.replace(' ', '-')}.log"
    with suppress(FileNotFoundError):
        log.replace(log.with_suffix(".log.1"))
    return log
