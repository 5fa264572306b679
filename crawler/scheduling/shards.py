"""Decide which shards a process claims from, in which order, and when again.

By FLEET_STRATEGY a process has shards of its own, and there are the others:

    sticky       each shard prefers one process, and keeps it when others come and go
    hash         shard n prefers process n modulo their number: the most even, but most shards move
                 when the fleet changes
    balanced     all are its own, the fullest first
    round_robin  all are its own, in turn

Whatever the strategy, no URL waits for a certain process. The others' shards are asked when the own
ones leave room, but not as soon as a host is due there: the process that prefers the shard comes
first, unless it is busy or gone.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import xxhash

if TYPE_CHECKING:
    from crawler.frontier import Claim, Sizes

# Other processes may have changed something in a shard.
_LOOK_AGAIN_S = 1.0
# The same for the others' shards, into which this process has put something itself.
_OTHERS_AGAIN_S = 0.1


class ShardTurns:
    """Turns of the shards, as one process asks them."""

    def __init__(self, shards: int) -> None:
        self.own: Sequence[int] = range(shards)
        self.others: Sequence[int] = ()
        # Processes that started together do not all turn to the same shard.
        self._turn = random.randrange(shards)
        # By shard: when to ask it again, by monotonic().
        self._again_s = [0.0] * shards
        # Whether the own shards take turns, or the first one comes first.
        self._rotates = True

    def use(self, strategy: str, own: Sequence[int]) -> None:
        """Set the own shards, in their order."""
        self.own = own
        self.others = [shard for shard in range(len(self._again_s)) if shard not in own]
        self._rotates = strategy != "balanced"

    def turn(self) -> tuple[Sequence[int], Sequence[int]]:
        """Return the own shards and those of others, in the order of this turn."""
        self._turn += 1
        own = _by_turn(self.own, self._turn) if self._rotates else self.own
        return own, _by_turn(self.others, self._turn)

    def wait_s(self, shard: int, now_s: float) -> float:
        """Return the seconds until a shard should be asked again; 0: now."""
        return max(0.0, self._again_s[shard] - now_s)

    def asked(self, shard: int, claim: Claim, *, wanted: int, now_s: float) -> None:
        """Note the answer of a shard that was asked for so many leases."""
        waits_ms = [each for each in (claim.wait_ms, claim.delayed_ms) if each is not None]
        if claim.more or len(claim.leases) >= wanted:
            wait_s = 0.0
        elif shard in self.others:
            wait_s = _LOOK_AGAIN_S
        else:
            wait_s = min([_LOOK_AGAIN_S, *(ms / 1000 for ms in waits_ms)])
        self._again_s[shard] = now_s + wait_s

    def changed(self, now_s: float) -> None:
        """Note that this process has put something into shards, or freed hosts there."""
        for shard in self.own:
            self._again_s[shard] = now_s
        soon_s = now_s + _OTHERS_AGAIN_S
        for shard in self.others:
            self._again_s[shard] = min(self._again_s[shard], soon_s)


def _by_turn(shards: Sequence[int], turn: int) -> list[int]:
    first = turn % len(shards) if shards else 0
    return [*shards[first:], *shards[:first]]


def own_shards(
    strategy: str, shards: int, instance: str, *, live: Sequence[str], sizes: Sequence[Sizes]
) -> list[int]:
    """Return the own shards of an instance by a strategy, in their order.

    `live` are the names of all instances, for sticky and hash; `sizes` is for balanced.
    """
    if strategy == "sticky":
        return preferred(shards, instance, live)
    if strategy == "hash" and instance in live:
        return list(range(sorted(live).index(instance), shards, len(live)))
    if strategy == "balanced":
        # So that all shards end at the same time.
        return sorted(range(shards), key=lambda shard: -sizes[shard].waiting)
    return list(range(shards))


def preferred(shards: int, instance: str, live: Sequence[str]) -> list[int]:
    """Return the shards that prefer an instance to all others.

    Rendezvous hashing: each shard prefers the live instance with the highest hash, so that one
    joining or leaving moves only its share.
    """

    def weight(name: str, shard: int) -> int:
        return xxhash.xxh3_64_intdigest(f"{name}:{shard}".encode())

    return [
        shard
        for shard in range(shards)
        if not live or max(live, key=lambda name: weight(name, shard)) == instance
    ]
