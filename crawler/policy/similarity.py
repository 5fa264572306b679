"""SimHash of a text: 64 bits that differ little between texts that differ little. Pure."""

from __future__ import annotations

import re

import numpy as np
import xxhash

BITS = 64
SHINGLE = 3
_WORD = re.compile(r"\w+")
_SHIFTS = np.arange(BITS, dtype=np.uint64)
# Hashes counted at a time, which bounds the memory: 64 bytes each.
_CHUNK = 16_384
# Odd constants that mix the hashes of neighbouring words, so that their order counts.
_MIX_1 = np.uint64(0x9E3779B97F4A7C15)
_MIX_2 = np.uint64(0xC2B2AE3D27D4EB4F)


def words_of(text: str) -> list[str]:
    """The words that a text is compared by."""
    return _WORD.findall(text.lower())


def simhash(words: list[str]) -> int:
    """SimHash over runs of three words. Needs at least three; callers guard short texts."""
    hashes = np.fromiter(
        (xxhash.xxh3_64_intdigest(word.encode()) for word in words), np.uint64, len(words)
    )
    with np.errstate(over="ignore"):
        shingles = hashes[:-2] * _MIX_1 ^ hashes[1:-1] * _MIX_2 ^ hashes[2:]
        shingles ^= shingles >> np.uint64(32)
        shingles *= _MIX_1
        shingles ^= shingles >> np.uint64(29)
    return majority(np.unique(shingles))


def majority(hashes: np.ndarray) -> int:
    """Each bit as most of the hashes have it."""
    ones = np.zeros(BITS, dtype=np.int64)
    octets = hashes.astype("<u8").view(np.uint8).reshape(-1, BITS // 8)
    for start in range(0, len(octets), _CHUNK):
        bits = np.unpackbits(octets[start : start + _CHUNK], axis=1, bitorder="little")
        ones += bits.sum(axis=0, dtype=np.int64)
    return int(np.bitwise_or.reduce((ones * 2 > len(hashes)).astype(np.uint64) << _SHIFTS))


def distance(a: int, b: int) -> int:
    """In how many bits two hashes differ."""
    return (a ^ b).bit_count()
