"""MinHash: sketches by which the similarity of two texts is estimated. Pure.

The similarity of two texts is that of their sets of shingles (Jaccard): how many they share, of all
that either has. A sketch chooses `BINS` shingles at random, the same ones of equal sets, and has

- one bit of each: of texts without anything in common half are equal, so the share of equal bits
  tells the similarity. At a similarity of 0.9 the standard error is 0.02, at 0.7 it is 0.03.
- `BANDS` numbers, each made of three whole shingles: texts that have one in common may be similar.

Each shingle falls into one bin by its hash, and the least hash in a bin wins (one permutation
hashing). With few shingles most bins would stay empty, so shingles fall again, with another hash,
until each bin had several; what fell earlier wins (fast similarity sketching, Dahlgaard et al.).
That takes a time that grows with the shingles and the bins, not with their product.

A sketch may have a label after it, of the page's host and title: pages of one host with different
titles are two pages, though most of their text may be the same, as in a shop that tells everywhere
how it delivers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xxhash import xxh32_digest

from crawler.dedup.content import mix

BINS = 512
# Five bands of three: one at least is equal in 99.9% of texts with a similarity of 0.9, and in 97%
# at 0.8; in 0.5% at 0.1.
BANDS, _ROWS = 5, 3
BAND_BYTES = 4
BITS_AT = BANDS * BAND_BYTES
SKETCH_BYTES = BITS_AT + BINS // 8
# Bytes of the host in a label, then of the title.
_HOST_BYTES = 4
LABEL_BYTES = 2 * _HOST_BYTES
# Shingles that fall into a bin on average, at least: fewer than one bin in 100 stays empty.
_FALLS = 5
_BIN = np.uint64(BINS - 1)
# A value has the number of its fall, and the hash without the bits of its bin.
_VALUE_BITS = 50
_VALUE_AT = np.uint64(64 - _VALUE_BITS)
_EMPTY = np.uint64(2**64 - 1)
_STEP = np.uint64(0x9E37_79B9_7F4A_7C15)
_MIX = np.uint64(0xD6E8_FEB8_6659_FD93)


def sketches(parts: Sequence[np.ndarray]) -> list[bytes]:
    """Return the sketch of each array of hashes; it has some, and each once."""
    if not parts:
        return []
    sizes = np.array([len(part) for part in parts])
    falls = -(-_FALLS * BINS // sizes)
    page = np.arange(len(parts)).repeat(sizes)
    hashes = np.concatenate(parts)
    least = np.full(len(parts) * BINS, _EMPTY)
    # 0, 1, 2 and 3, 4 to 7 …: in as many steps as that doubles, also for a text of few shingles.
    first, count = 0, 1
    while first < falls.max():
        left = (falls > first)[page]
        if not left.all():
            hashes, page = hashes[left], page[left]
        numbers = np.arange(first, first + count, dtype=np.uint64)[:, np.newaxis]
        fallen = hashes + numbers * _STEP
        mix(fallen)
        bins = page * BINS + (fallen & _BIN).astype(np.int64)
        values = (fallen >> _VALUE_AT) | (numbers << np.uint64(_VALUE_BITS))
        np.minimum.at(least, bins.ravel(), values.ravel())
        first, count = first + count, first + count
    return _packed(least.reshape(-1, BINS))


def _packed(least: np.ndarray) -> list[bytes]:
    rows = least[:, : BANDS * _ROWS].reshape(-1, BANDS, _ROWS)
    bands = rows[:, :, 0] * _MIX
    for row in range(1, _ROWS):
        bands = (bands ^ rows[:, :, row]) * _MIX
    mix(bands)
    short = (bands >> np.uint64(32)).astype("<u4").view(np.uint8)
    bits = np.packbits((least & np.uint64(1)).astype(np.uint8), axis=1)
    return [row.tobytes() for row in np.concatenate((short, bits), axis=1)]


def bands_of(sketch: bytes) -> list[int]:
    """Return the numbers of a sketch that similar texts may share."""
    found: list[int] = np.frombuffer(sketch, "<u4", BANDS).tolist()
    return found


def similarity(one: bytes, other: bytes) -> float:
    """Estimate the similarity of two texts by their sketches."""
    bits = int.from_bytes(one[BITS_AT:SKETCH_BYTES]) ^ int.from_bytes(other[BITS_AT:SKETCH_BYTES])
    return max(0.0, 1 - 2 * bits.bit_count() / BINS)


def label_of(host: str, title: str) -> bytes:
    """Return the label of a page, to be put after its sketch."""
    return xxh32_digest(host.encode()) + xxh32_digest(title.encode(errors="replace"))


def are_of_two_titles(one: bytes, other: bytes) -> bool:
    """Whether two sketches are of pages of one host with different titles."""
    label, another = one[SKETCH_BYTES:], other[SKETCH_BYTES:]
    return label != another and label[:_HOST_BYTES] == another[:_HOST_BYTES]
