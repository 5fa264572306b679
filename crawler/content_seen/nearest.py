"""Compare a SimHash with all in some buckets at once. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


def within(
    first: bytes, others: Iterable[bytes], simhash: int, max_distance: int
) -> dict[int, int]:
    """SimHashes within a distance, and how far they are; the nearest first, then the oldest.

    `first` has the records of the first table, each with a fingerprint; the others have none. Zeros
    are no records but room for some.
    """
    hashes = np.frombuffer(first, "<u8")[::2]
    rest = b"".join(others)
    if rest:
        hashes = np.concatenate((hashes, np.frombuffer(rest, "<u8")))
    distances = np.bitwise_count(hashes ^ np.uint64(simhash))
    near = np.flatnonzero(distances <= max_distance)
    if simhash.bit_count() <= max_distance:
        near = near[hashes[near] != 0]
    if not len(near):
        return {}
    near = near[np.argsort(distances[near], kind="stable")]
    return {int(hashes[at]): int(distances[at]) for at in near}
