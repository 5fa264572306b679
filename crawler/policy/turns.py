"""Order in which weighted queues take turns. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache


def turns(weights: Sequence[int]) -> str:
    """One round of smooth weighted round-robin, a digit (from 1) a turn.

    Each queue gets its weight's share of the round, spread as evenly as it can be: the queue with
    the most credit takes the turn and pays the sum of all weights for it.
    """
    return _turns(tuple(weights))


@lru_cache(maxsize=16)
def _turns(weights: tuple[int, ...]) -> str:
    if not weights or len(weights) > 9 or any(weight < 0 for weight in weights) or not sum(weights):
        raise ValueError(f"weights {list(weights)}: give 1 to 9 numbers of 0 or more, not all 0")
    total = sum(weights)
    credit = [0] * len(weights)
    order = []
    for _ in range(total):
        credit = [have + weight for have, weight in zip(credit, weights, strict=True)]
        best = max(range(len(weights)), key=lambda queue: (credit[queue], -queue))
        credit[best] -= total
        order.append(str(best + 1))
    return "".join(order)
