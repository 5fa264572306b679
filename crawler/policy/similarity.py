"""SimHash of a text: 64 bits that differ little between texts that differ little. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import xxhash

BITS = 64
SHINGLE = 3
_WORD = re.compile(r"\w+")
# What is no part of a word, made blank.
_ASCII_WORDS = bytes(
    code if chr(code).isalnum() or chr(code) == "_" or code > 127 else 32 for code in range(256)
)
# Words remembered, about 150 bytes each; longer ones hardly come again.
_WORDS_KEPT = 50_000
_WORD_BYTES = 40
# Hashes counted at a time: it bounds the memory, 64 bytes each, and 16 bits can count them.
_CHUNK = 16_384
# Odd constants that mix the hashes of neighbouring words, so that their order counts.
_MIX_1 = np.uint64(0x9E3779B97F4A7C15)
_MIX_2 = np.uint64(0xC2B2AE3D27D4EB4F)


class _WordHashes(dict[bytes, bytes]):
    """Hashes of words met before; forgets all when there are too many."""

    def __missing__(self, word: bytes) -> bytes:
        hashed = xxhash.xxh3_64_digest(word)
        if len(word) <= _WORD_BYTES:
            if len(self) >= _WORDS_KEPT:
                self.clear()
            self[word] = hashed
        return hashed


_WORD_HASHES = _WordHashes()


def words_of(text: str) -> list[bytes]:
    """The words that a text is compared by: letters, digits and underscores, in small letters."""
    lower = text.lower()
    if lower.isascii():
        # The same words in a quarter of the time.
        return lower.encode().translate(_ASCII_WORDS).split()
    return [word.encode("utf-8", "replace") for word in _WORD.findall(lower)]


def simhash(words: Sequence[bytes]) -> int:
    """SimHash over runs of three words. Needs at least three; callers guard short texts."""
    hashes = np.frombuffer(b"".join(map(_WORD_HASHES.__getitem__, words)), "<u8")
    with np.errstate(over="ignore"):
        shingles = hashes[:-2] * _MIX_1 ^ hashes[1:-1] * _MIX_2 ^ hashes[2:]
        shingles ^= shingles >> np.uint64(32)
        shingles *= _MIX_1
        shingles ^= shingles >> np.uint64(29)
    # Each counts once. Like numpy's unique(), in a tenth of the time.
    shingles.sort()
    return majority(shingles[np.append(True, shingles[1:] != shingles[:-1])])


def majority(hashes: np.ndarray) -> int:
    """Each bit as most of the hashes have it."""
    ones = np.zeros(BITS, dtype=np.int64)
    octets = hashes.astype("<u8", copy=False).view(np.uint8).reshape(-1, BITS // 8)
    for start in range(0, len(octets), _CHUNK):
        bits = np.unpackbits(octets[start : start + _CHUNK], axis=1, bitorder="little")
        ones += np.add.reduce(bits, axis=0, dtype=np.uint16)
    packed = np.packbits(ones * 2 > len(hashes), bitorder="little")
    return int.from_bytes(packed.tobytes(), "little")


def distance(a: int, b: int) -> int:
    """In how many bits two hashes differ."""
    return (a ^ b).bit_count()
