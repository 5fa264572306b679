"""Decide what becomes of a process that ended: it is done, starts again, or is given up. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from crawler.policy.exit_codes import ExitCode

# A process that ran for so long before it ended has been well: what was before is forgotten.
WELL_S = 60.0
_WAIT_MIN_S, _WAIT_MAX_S = 1.0, 60.0
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
class Again:
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
) -> Ended | Again | GivenUp:
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
        return Again(min(max(_WAIT_MIN_S, away_s), _WAIT_MAX_S), crashes)
    crashes = 1 if ran_s >= WELL_S else crashes + 1
    if crashes > CRASHES_MAX:
        return GivenUp(f"it crashed {crashes} times in a row", ExitCode.FAILED)
    return Again(min(_WAIT_MIN_S * 2 ** (crashes - 1), _WAIT_MAX_S), crashes)
