"""Remember recently seen fingerprints, so that most links never reach Redis. Bounded."""

from __future__ import annotations

from collections.abc import Sequence


class Known:
    """A set that forgets its older half when it is full."""

    def __init__(self, size: int) -> None:
        self._half = max(1, size // 2)
        self._young: set[int] = set()
        self._old: set[int] = set()

    def __contains__(self, fingerprint: int) -> bool:
        return fingerprint in self._young or fingerprint in self._old

    def among(self, fingerprints: Sequence[int]) -> set[int]:
        """Those of many that are remembered: one look for all links of a page."""
        return self._young.intersection(fingerprints) | self._old.intersection(fingerprints)

    def add(self, fingerprint: int) -> None:
        """Remember one that Redis has acknowledged."""
        if len(self._young) >= self._half:
            self._old, self._young = self._young, set()
        self._young.add(fingerprint)

    def update(self, fingerprints: Sequence[int]) -> None:
        """Remember many."""
        if len(self._young) + len(fingerprints) <= self._half:
            self._young.update(fingerprints)
            return
        for fingerprint in fingerprints:
            self.add(fingerprint)

    def clear(self) -> None:
        """Forget all, for when Redis may have forgotten some."""
        self._young, self._old = set(), set()
