"""Decide what becomes of a process that ended: it is done, starts again, or is given up. Pure."""

from __future__ import annotations

from dataclasses import dataclass

# Exit code of a mistake in arguments or settings: the next try would make it again.
USAGE_ERROR = 2
# A process that ran for so long before it crashed has been well: its crashes are forgotten.
WELL_S = 60.0
_WAIT_MIN_S, _WAIT_MAX_S = 1.0, 60.0
CRASHES_MAX = 8


@dataclass(frozen=True, slots=True)
class Ended:
    """Its work is done."""


@dataclass(frozen=True, slots=True)
class Again:
    """It crashed, and starts again after a while."""

    wait_s: float
    # How often it crashed in a row, this time included.
    crashes: int


@dataclass(frozen=True, slots=True)
class GivenUp:
    """It would fail again."""

    reason: str


def after_exit(code: int, *, ran_s: float, crashes: int) -> Ended | Again | GivenUp:
    """What to do after a process ended with this code (a signal: negative).

    `crashes` is how often it had crashed in a row before.
    """
    if code == 0:
        return Ended()
    if code == USAGE_ERROR:
        return GivenUp("its arguments or settings are wrong")
    crashes = 1 if ran_s >= WELL_S else crashes + 1
    if crashes > CRASHES_MAX:
        return GivenUp(f"it crashed {crashes} times in a row")
    return Again(min(_WAIT_MIN_S * 2 ** (crashes - 1), _WAIT_MAX_S), crashes)
