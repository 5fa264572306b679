"""What content-seen is asked and what it answers."""

from __future__ import annotations

from typing import NamedTuple, Self


class Content(NamedTuple):
    """What a page is recognised by."""

    # SHA-256 of the body.
    digest: bytes
    # None for texts that are too short to be compared.
    simhash: int | None

    @classmethod
    def parse(cls, content_hash: str, simhash: str) -> Self | None:
        """The content of a page from the fields of its record; None if it has none."""
        if not content_hash:
            return None
        return cls(bytes.fromhex(content_hash), int(simhash, 16) if simhash else None)


class Duplicate(NamedTuple):
    """The page that has this content already."""

    of: int
    # Bits that differ; None when the bytes are the same.
    distance: int | None
