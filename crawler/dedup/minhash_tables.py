"""Find similar texts by MinHash: a table for each band of a sketch, and one of the sketches.

| table          | bucket selected by   | record                                          |
|----------------|----------------------|-------------------------------------------------|
| `cm0` to `cm4` | first bits of a band | last 24 bits of it, 40 bits of the fingerprint  |
| `cs`           | those 40 bits        | the URL's fingerprint, the sketch and its label |

The sketch of a page is found by its URL, and tells what its other records are. So those of an
earlier content can be removed without being known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from crawler.dedup import minhash
from crawler.dedup.buckets import CUT, PUT, Buckets, Record, bits_for, bucket_name, packed
from crawler.dedup.near import Change, Content, Duplicate, Question

# Similarities that can be asked for: of less similar texts too many have no band in common.
LEAST_SIMILARITY = 0.8
_BAND_BITS = 32
_CHECK_BYTES, _ID_BYTES = 3, 5
_BAND_BYTES = _CHECK_BYTES + _ID_BYTES
_ID_BITS = 8 * _ID_BYTES
_SKETCH_AT = 8
_SKETCH_BYTES = _SKETCH_AT + minhash.SKETCH_BYTES + minhash.LABEL_BYTES
# Sketches are longer than other records, so there are four times as many buckets of them.
_SKETCH_BITS = 2
# Pages of a bucket with the same band, and pages whose sketches are compared.
_OF_BUCKET, _COMPARED = 64, 16


class MinHashTables:
    """Tables of a crawl, each with two to the power of `bits` buckets; of sketches four times."""

    def __init__(
        self, buckets: Buckets, tags: Sequence[str], *, bits: int, similarity: float
    ) -> None:
        self._buckets = buckets
        self._tags = tags
        self.bits = bits
        # Estimates have an error, and of what pages share little is left over or left out by
        # reading. So pages are near up to twice the difference that is asked for.
        self._least = 2 * similarity - 1

    @classmethod
    def made_for(
        cls, buckets: Buckets, tags: Sequence[str], pages: int, similarity: float
    ) -> MinHashTables:
        """Make the tables for a crawl of this many pages."""
        return cls(buckets, tags, bits=bits_for(pages), similarity=similarity)

    def names(self, content: Content) -> list[str]:
        """Name the bucket of each band."""
        return [] if content.sketch is None else list(self._bands(content.sketch))

    async def nearest(
        self, questions: Sequence[Question], buckets: Mapping[str, bytes]
    ) -> list[Duplicate | None]:
        """Find the page whose text is most similar, by the estimate of their sketches."""
        candidates = [self._candidates(content, buckets) for _, content in questions]
        names = {id_: self._sketches(id_) for found in candidates for id_ in found}
        sketches = await self._buckets.read(names.values()) if names else {}
        return [
            self._most_similar(question, {id_: sketches[names[id_]] for id_ in found})
            for question, found in zip(questions, candidates, strict=True)
        ]

    async def remove_old(self, changes: Sequence[Change]) -> None:
        """Remove the records of earlier contents, which are found by the fingerprints of URLs."""
        names = [self._sketches(url_id) for url_id, _, _ in changes]
        buckets = await self._buckets.read(names)
        cuts: list[Record] = []
        for name, (url_id, _, now) in zip(names, changes, strict=True):
            for sketch in _sketches_of(buckets[name], packed(url_id)):
                if now is None or sketch != now.sketch:
                    cuts += self._records(CUT, url_id, sketch)
        if cuts:
            await self._buckets.change(cuts)

    def records(self, url_id: int, content: Content) -> list[Record]:
        """Make the records of a page."""
        return [] if content.sketch is None else self._records(PUT, url_id, content.sketch)

    async def forget(self, url_id: int) -> bool:
        """Remove all records of a page."""
        name = self._sketches(url_id)
        bucket = (await self._buckets.read([name]))[name]
        cuts = [
            record
            for sketch in _sketches_of(bucket, packed(url_id))
            for record in self._records(CUT, url_id, sketch)
        ]
        if cuts:
            await self._buckets.change(cuts)
        return bool(cuts)

    def _candidates(self, content: Content, buckets: Mapping[str, bytes]) -> list[bytes]:
        """List the pages that share a band, those first that share most."""
        assert content.sketch is not None
        shared = Counter[bytes]()
        for name, check in self._bands(content.sketch).items():
            shared.update(_pages_with(buckets[name], check))
        return [id_ for id_, _ in shared.most_common(_COMPARED)]

    def _most_similar(self, question: Question, found: Mapping[bytes, bytes]) -> Duplicate | None:
        """Choose the most similar page; None if the page itself is among them."""
        url_id, content = question
        assert content.sketch is not None
        best: Duplicate | None = None
        for id_, bucket in found.items():
            for at in _places_of(bucket, id_, _SKETCH_BYTES):
                sketch = bucket[at + _SKETCH_AT : at + _SKETCH_BYTES]
                similarity = minhash.similarity(content.sketch, sketch)
                if similarity < self._least:
                    continue
                original = int.from_bytes(bucket[at : at + _SKETCH_AT], "little")
                if original == url_id:
                    return None
                if minhash.are_of_two_titles(content.sketch, sketch):
                    continue
                if best is None or similarity > (best.similarity or 0):
                    best = Duplicate(original, similarity=round(similarity, 3))
        return best

    def _records(self, what: bytes, url_id: int, sketch: bytes) -> list[Record]:
        owner = packed(url_id)
        bands = [
            (name, what + check + owner[:_ID_BYTES]) for name, check in self._bands(sketch).items()
        ]
        return [(self._sketches(url_id), what + owner + sketch), *bands]

    def _bands(self, sketch: bytes) -> dict[str, bytes]:
        """Return the bucket of each band, and what its records begin with."""
        return {
            bucket_name(self._tags, f"m{number}", band >> (_BAND_BITS - self.bits)): (
                (band & (1 << 8 * _CHECK_BYTES) - 1).to_bytes(_CHECK_BYTES, "little")
            )
            for number, band in enumerate(minhash.bands_of(sketch))
        }

    def _sketches(self, url_id: int | bytes) -> str:
        """Name the bucket of a page's sketch, by its fingerprint or the bytes of it in a band."""
        id_ = int.from_bytes(url_id, "little") if isinstance(url_id, bytes) else url_id
        bits = self.bits + _SKETCH_BITS
        return bucket_name(self._tags, "s", (id_ & (1 << _ID_BITS) - 1) >> (_ID_BITS - bits))


def _places_of(bucket: bytes, start: bytes, size: int) -> Iterator[int]:
    """Find the records of this size that begin so."""
    at = bucket.find(start)
    while at >= 0:
        if at % size == 0:
            yield at
        at = bucket.find(start, at + 1)


def _pages_with(bucket: bytes, check: bytes) -> list[bytes]:
    """List the pages with this band, oldest first: the bytes of their fingerprints."""
    found = []
    for at in _places_of(bucket, check, _BAND_BYTES):
        page = bucket[at + _CHECK_BYTES : at + _BAND_BYTES]
        # Zeros are free room.
        if any(page):
            found.append(page)
            if len(found) >= _OF_BUCKET:
                break
    return found


def _sketches_of(bucket: bytes, owner: bytes) -> list[bytes]:
    """List the sketches of a page, of which there is seldom more than one."""
    return [
        bucket[at + _SKETCH_AT : at + _SKETCH_BYTES]
        for at in _places_of(bucket, owner, _SKETCH_BYTES)
    ]
