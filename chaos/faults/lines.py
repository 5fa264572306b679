"""Lines to servers are cut, slow, closed one way, or end in the middle of replies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from chaos.faults import Cost, Fault
from chaos.faults.servers import AWAY
from chaos.proxy import TO_CLIENT, TO_SERVER

if TYPE_CHECKING:
    from chaos.storm import Storm

_SERVERS = ("redis", "mongo", "postgresql", "s3")
_AWAY_S = (0.1, 3.0)


def cut(name: str, storm: Storm, chance: Random) -> str:
    """Reset some connections, or all."""
    count = storm.proxies[name].cut(chance.choice((0.3, 1.0)), chance)
    return f"{name}: {count} connections"


def close(name: str, storm: Storm, chance: Random) -> str:
    """Reset all connections, and refuse new ones."""
    proxy = storm.proxies[name]
    proxy.refuse()
    try:
        storm.rest(chance.uniform(*_AWAY_S))
    finally:
        proxy.accept()
    return name


def delay(name: str, storm: Storm, chance: Random) -> str:
    """Let everything take longer."""
    proxy = storm.proxies[name]
    proxy.latency_s = chance.uniform(0.05, 1.0)
    try:
        storm.rest(chance.uniform(*_AWAY_S))
    finally:
        proxy.latency_s = 0.0
    return name


def hold(way: str, name: str, storm: Storm, chance: Random) -> str:
    """Let nothing through one way; then it arrives late, or the connections are reset."""
    proxy = storm.proxies[name]
    proxy.hold(way)
    try:
        storm.rest(chance.uniform(*_AWAY_S))
        if chance.random() < 0.5:
            proxy.cut()
    finally:
        proxy.let_go()
    return name


def silence(name: str, storm: Storm, chance: Random) -> str:
    """Let connections stay open for ever, and forward nothing more on them."""
    storm.proxies[name].silence()
    return name


def reset_replies(name: str, storm: Storm, chance: Random) -> str:
    """Let some replies end in their middle."""
    proxy = storm.proxies[name]
    proxy.reset_replies(chance.randint(1, 6), chance)
    try:
        storm.rest(chance.uniform(*_AWAY_S))
    finally:
        proxy.reset_replies(0)
    return name


def _kinds(what: str, work: Callable[..., str]) -> list[Fault]:
    return [
        Fault(
            *(f"line to {name} {what}", f"line to {name}", partial(work, name)),
            cost=Cost(exits=AWAY),
            is_of=name,
            weight=0.7,
        )
        for name in _SERVERS
    ]


FAULTS = (
    *_kinds("cut", cut),
    *_kinds("closed", close),
    *_kinds("slow", delay),
    *_kinds("holds requests", partial(hold, TO_SERVER)),
    *_kinds("holds replies", partial(hold, TO_CLIENT)),
    *_kinds("silent", silence),
    *_kinds("resets replies", reset_replies),
)
