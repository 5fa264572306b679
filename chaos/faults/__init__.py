"""Kinds of faults. A module of this package has some, in a tuple `FAULTS` of `Fault`s.

All modules here are found by themselves (`kinds`). A kind is one function:

    def stop_redis(storm: Storm, chance: Random) -> str:
        storm.redis.freeze()
        try:
            storm.rest(chance.uniform(0.1, 2.0))
        finally:
            storm.redis.thaw()
        return "redis"

    FAULTS = (Fault("redis stopped", "redis", stop_redis, Cost(repeats=True), is_of="redis"),)

`inject` does the fault, waits, and undoes it, in a thread of its own: it may block. When it returns
or raises, nothing of it may be left, so it undoes in a `finally`. What it draws comes from `chance`
alone, which is seeded for each fault: the same seed gives the same faults at the same times. It
waits with `storm.rest(seconds)`, which returns early when the storm has to end; no fault takes
longer than twenty seconds or so. It returns what it was done to: the name of a crawler
(`storm.choose(chance).name`) if it was done to one of them, anything else otherwise. That word goes
to the fault log, and if it is a crawler's name, the cost is allowed to this crawler only.

`place` names what a fault needs for itself. Faults at one place wait for each other; those at
different places overlap freely. Faults with `alone=True` overlap with none at all.

`prepare(storm)` is called once, before any crawler starts, if the kind is in the schedule. It may

- set `storm.settings["NAME"] = value` (as -s) and `storm.environment["NAME"] = "value"` of
  crawlers,
- start what it needs with `storm.stack.enter_context(…)`, to be ended after the audit,
- put another server in the place of one (`storm.redis = …`), before it is started,
- keep what it made in `storm.own["its name"]` for `inject`.

`missing()` says in one line why the kind cannot be used on this machine ("no Chromium on PATH"), or
"". Kinds that miss something are left out of the schedule, and the report says so.

`cost` is what the auditor allows because of one such fault. Never is a page lost, stored twice or a
host burdened more.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chaos.storm import Storm


@dataclass(frozen=True, slots=True)
class Cost:
    """What one fault may cost, beyond time."""

    # Whether pages that were fetched, and not settled, when it happened may be fetched again.
    repeats: bool = False
    # The same, but only if another server was away at that time: who stops then cannot settle.
    repeats_while_away: bool = False
    # Pages settled within so many seconds before it may be fetched again, too.
    lost_s: float = 0.0
    # Codes that crawlers may exit with because of it. 0 is always right, and so is the signal by
    # which a fault ended a crawler itself (`Crawler.kill`).
    exits: frozenset[int] = frozenset()
    # Regular expressions of lines: a traceback or error with such a line is the fault's own.
    says: tuple[str, ...] = ()
    # How long after its end it may still show, in seconds.
    echo_s: float = 10.0


def _nothing() -> str:
    return ""


def _no_preparation(storm: Storm) -> None:
    """Prepare nothing."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Kind of fault; see above."""

    name: str
    place: str
    inject: Callable[[Storm, Random], str]
    cost: Cost = field(default_factory=Cost)
    # How often it is drawn, relative to the others; 0: only if it is asked for by its name.
    weight: float = 1.0
    alone: bool = False
    # The server that the kind needs ("mongo" …); a storm without this sink has none of the kind.
    is_of: str = ""
    prepare: Callable[[Storm], None] = _no_preparation
    missing: Callable[[], str] = _nothing


def kinds() -> dict[str, Fault]:
    """Return all kinds by name, in a fixed order."""
    found: dict[str, Fault] = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda each: each.name):
        for kind in importlib.import_module(f"{__name__}.{module.name}").FAULTS:
            assert kind.name not in found, f"two kinds of faults are named {kind.name!r}"
            found[kind.name] = kind
    return found
