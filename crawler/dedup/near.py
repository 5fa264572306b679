"""What an index of near-duplicates is asked and told, whatever the method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, Self

from crawler.dedup.buckets import Record


class Content(NamedTuple):
    """Hashes by which the content of a page is recognised."""

    # SHA-256 of the body.
    digest: bytes
    # None if the text is too short to be compared.
    simhash: int | None
    # With its label, only if pages are compared by MinHash; None if the text is too short.
    sketch: bytes | None = None

    @classmethod
    def parse(cls, content_hash: str, simhash: str, sketch: bytes | None = None) -> Self | None:
        """Read the hashes from the fields of a page; None if it has none."""
        if not content_hash:
            return None
        return cls(bytes.fromhex(content_hash), int(simhash, 16) if simhash else None, sketch)


class Duplicate(NamedTuple):
    """Earlier page that has the same content: the same bytes, or nearly the same text."""

    original: int
    # Number of SimHash bits that differ, or the similarity by MinHash; None for the same bytes.
    distance: int | None = None
    similarity: float | None = None


class Question(NamedTuple):
    """A page, and the content for which an original is looked for."""

    url_id: int
    content: Content


class Change(NamedTuple):
    """A page that is durable: its content now, and the one that it had before if that is known."""

    url_id: int
    before: Content | None
    now: Content | None


class NearTables(Protocol):
    """Tables of one method: which buckets a text is in, and which of their records are like it."""

    # Bits of a hash that select one of a table's buckets.
    bits: int

    def names(self, content: Content) -> list[str]:
        """Name the buckets to look in; none if the text is too short to be compared."""

    async def nearest(
        self, questions: Sequence[Question], buckets: Mapping[str, bytes]
    ) -> list[Duplicate | None]:
        """Find the original of each page, given all buckets that `names` names.

        A page that has a record of its own with a text like this is no duplicate.
        """

    async def remove_old(self, changes: Sequence[Change]) -> None:
        """Remove the records that these pages had, and have no more."""

    def records(self, url_id: int, content: Content) -> list[Record]:
        """Make the records of a page, with what is to be done with them."""

    async def forget(self, url_id: int) -> bool:
        """Remove all records of a page; returns whether there were any."""
