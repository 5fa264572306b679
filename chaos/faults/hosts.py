"""Hosts that turn hostile in mid-crawl, and later answer as before."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from chaos.faults import Cost, Fault
from demo.control import Turn

if TYPE_CHECKING:
    from chaos.storm import Storm

_LONGEST_S: Final = 8.0
_HOSTS_MOST: Final = 4
# A page without an end is given up at once, so it is lost by what its host did.
_WAYS: Final = tuple(way.value for way in Turn if way is not Turn.ENDLESS)


def _prepare(storm: Storm) -> None:
    # A silent host must not hold a fetch for as long as a real one may; and whoever is hostile long
    # enough would lose its pages.
    for name, value in {"DOWNLOAD_TIMEOUT": 10, "RETRY_TIMES": 60, "RETRY_MAX": 5}.items():
        storm.settings[name] = value


def turn_hostile(storm: Storm, chance: Random) -> str:
    """Let some hosts reset, be silent, send byte by byte, send garbage or fail."""
    hosts = range(storm.web.options.hosts)
    count = chance.randint(1, min(_HOSTS_MOST, len(hosts)))
    ways = {f"s{number}.test": chance.choice(_WAYS) for number in chance.sample(hosts, count)}
    try:
        for host, way in ways.items():
            storm.web.turn(host, way)
        storm.rest(chance.uniform(1.0, _LONGEST_S))
    finally:
        for host in ways:
            storm.web.turn(host, "")
    return " ".join(f"{host} {way}" for host, way in ways.items())


FAULTS = (Fault("hosts turn hostile", "hosts", turn_hostile, Cost(), prepare=_prepare),)
