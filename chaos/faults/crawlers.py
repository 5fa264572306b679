"""Crawlers are killed, stopped and told to end."""

from __future__ import annotations

import signal
from random import Random
from typing import TYPE_CHECKING

from chaos.faults import Cost, Fault
from crawler.errors import ExitCode

if TYPE_CHECKING:
    from chaos.storm import Storm

# Seconds beyond the time after which a silent process counts as dead.
_BEYOND_S = (0.5, 4.0)
# Time for a process that was asked to stop: the docs say 10 s without Redis, and a fetch.
_STOP_S = 40.0


def kill(storm: Storm, chance: Random) -> str:
    """End one as a crash does."""
    crawler = storm.choose(chance)
    crawler.kill()
    return crawler.name


def freeze_short(storm: Storm, chance: Random) -> str:
    """Stop one for less time than its leases have."""
    return _freeze(storm, chance, chance.uniform(0.1, storm.lease_ttl_s / 2))


def freeze_long(storm: Storm, chance: Random) -> str:
    """Stop one until others have its leases."""
    return _freeze(storm, chance, storm.lease_ttl_s + chance.uniform(*_BEYOND_S))


def _freeze(storm: Storm, chance: Random, seconds: float) -> str:
    crawler = storm.choose(chance)
    crawler.send(signal.SIGSTOP)
    try:
        storm.rest(seconds)
    finally:
        crawler.send(signal.SIGCONT)
    return crawler.name


def terminate(storm: Storm, chance: Random) -> str:
    """Ask one to stop, and wait until it has."""
    crawler = storm.choose(chance)
    crawler.send(chance.choice((signal.SIGTERM, signal.SIGINT)))
    if not crawler.wait(_STOP_S):
        crawler.kill()
        raise TimeoutError(f"{crawler.name} did not stop within {_STOP_S:g} s")
    return crawler.name


def terminate_twice(storm: Storm, chance: Random) -> str:
    """Tell one to stop at once."""
    crawler = storm.choose(chance)
    crawler.send(signal.SIGTERM)
    storm.rest(chance.uniform(0.0, 0.5))
    crawler.send(signal.SIGTERM)
    if not crawler.wait(_STOP_S):
        crawler.kill()
        raise TimeoutError(f"{crawler.name} did not stop within {_STOP_S:g} s")
    return crawler.name


# Whoever is told to stop before its crawl began, or twice.
_STOPPED = frozenset({int(ExitCode.INTERRUPTED)})

FAULTS = (
    Fault("crawler killed", "crawlers", kill, Cost(repeats=True), weight=2),
    Fault("crawler stopped", "crawlers", freeze_short),
    Fault("crawler stopped beyond its lease", "crawlers", freeze_long, Cost(repeats=True)),
    Fault(
        "crawler told to end",
        "crawlers",
        terminate,
        Cost(repeats_while_away=True, exits=_STOPPED),
        weight=2,
    ),
    Fault("crawler told twice", "crawlers", terminate_twice, Cost(repeats=True, exits=_STOPPED)),
)
