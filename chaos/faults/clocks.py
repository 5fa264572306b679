"""Wall clocks that leap: of a crawler, or of Redis' machine; after a while they leap back."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Final

from chaos.faults import Cost, Fault
from tests.support.leaping_clock import LeapingClock, missing

if TYPE_CHECKING:
    from chaos.storm import Storm

_OWN: Final = "clocks"
_LONGEST_S: Final = 8.0
_MINUTE_S: Final = 60
_HOUR_S: Final = 60 * _MINUTE_S
_LEAPS_S: Final = (-_HOUR_S, _HOUR_S, -2 * _MINUTE_S, _MINUTE_S, 26 * _HOUR_S, -26 * _HOUR_S)


def _clock(storm: Storm) -> LeapingClock:
    if _OWN not in storm.own:
        folder = storm.folder / "clocks"
        folder.mkdir()
        storm.own[_OWN] = LeapingClock(folder)
    clock: LeapingClock = storm.own[_OWN]
    return clock


def _prepare_redis(storm: Storm) -> None:
    storm.redis.environment = _clock(storm).environment


def _prepare_crawlers(storm: Storm) -> None:
    storm.environment.update(_clock(storm).variables)


def leap_redis(storm: Storm, chance: Random) -> str:
    """Let the clock of Redis leap."""
    leap_s, rest_s = chance.choice(_LEAPS_S), chance.uniform(0.5, _LONGEST_S)
    _leap(storm, storm.redis.pid, leap_s, rest_s)
    return f"redis: {leap_s} s"


def leap_crawler(storm: Storm, chance: Random) -> str:
    """Let the clock of a crawler leap."""
    crawler = storm.choose(chance)
    leap_s, rest_s = chance.choice(_LEAPS_S), chance.uniform(0.5, _LONGEST_S)
    _leap(storm, crawler.pid, leap_s, rest_s)
    return crawler.name


def _leap(storm: Storm, pid: int, leap_s: int, rest_s: float) -> None:
    clock = _clock(storm)
    # Just started: its clock begins a moment later.
    with suppress(FileNotFoundError):
        clock.leap_to(leap_s, pid)
        try:
            storm.rest(rest_s)
        finally:
            clock.leap_to(0, pid)


FAULTS = (
    Fault(
        *("clock of redis leaps", "clock of redis", leap_redis),
        cost=Cost(),
        prepare=_prepare_redis,
        missing=missing,
    ),
    Fault(
        *("clock of a crawler leaps", "clocks of crawlers", leap_crawler),
        cost=Cost(),
        prepare=_prepare_crawlers,
        missing=missing,
    ),
)
