"""Compute the PageRank of pages from their links, which are kept in files of a folder.

Memory is needed for URLs (some 40 bytes each, those of links that were never fetched included), not
for links: these need 16 bytes each on the disk. Each round reads them once, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

DAMPING = 0.85
# The rounds end when all ranks together change by less than this share, or after so many.
TOLERANCE = 1e-6
ROUNDS = 100
# Links that are worked on at a time, at least.
_CHUNK = 1 << 20

Ids = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Ranking:
    """Ranks of all URLs, as multiples of their mean, by ascending ids."""

    ids: Ids
    ranks: NDArray[np.float64]
    links: int
    rounds: int
    # False if the ranks still changed when the rounds were over.
    is_settled: bool

    def of(self, ids: Sequence[int]) -> list[float | None]:
        """Return the ranks of URLs; None for one that the graph does not have."""
        wanted = np.array(ids, np.uint64)
        places = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
        known = (self.ids[places] == wanted).tolist()
        ranks = self.ranks[places].tolist()
        return [rank if is_known else None for rank, is_known in zip(ranks, known, strict=True)]


class LinkGraph:
    """Links between URLs, given page by page."""

    def __init__(self, folder: Path) -> None:
        """The folder is empty, and the caller deletes it in the end."""
        self._folder = folder
        self._pages: list[int] = []
        self._counts: list[int] = []
        self._targets: list[int] = []
        # Also of pages and counts that are in files by now.
        self.pages = self.links = 0

    def add(self, page: int, targets: Iterable[int]) -> None:
        """Add a page with the URLs that it links to, all by their ids."""
        different = set(targets)
        different.discard(page)
        self._pages.append(page)
        self._counts.append(len(different))
        self._targets.extend(different)
        self.pages += 1
        self.links += len(different)
        if len(self._targets) + len(self._pages) >= _CHUNK:
            self._write()

    def rank(
        self,
        *,
        damping: float = DAMPING,
        rounds: int = ROUNDS,
        report: Callable[[int], None] = lambda _round: None,
    ) -> Ranking:
        """Compute the ranks; `report` is called with the number of each round."""
        self._write()
        pages, counts = self._read("pages", "<u8"), self._read("counts", "<u4")
        ids = _distinct(self._chunks("pages"), self._chunks("targets"))
        sources = np.searchsorted(ids, pages)
        out = np.bincount(sources, counts, minlength=len(ids))
        ends = np.cumsum(counts, dtype=np.int64)
        places = self._places_of_targets(ids)
        total = len(ids)
        has_links = out > 0
        ranks = np.full(total, 1 / total)
        done, is_settled = 0, False
        while done < rounds and not is_settled:
            # What pages without links have is shared by all.
            share = np.divide(ranks, out, out=np.zeros(total), where=has_links)
            lost = ranks.sum(where=~has_links)
            found = np.zeros(total)
            for first, last in _cuts(ends, max(_CHUNK, total)):
                given = np.repeat(share[sources[first:last]], counts[first:last])
                start = ends[first - 1] if first else 0
                found += np.bincount(places[start : ends[last - 1]], given, minlength=total)
            found = damping * found + (1 - damping + damping * lost) / total
            is_settled = bool(np.abs(found - ranks).sum() < TOLERANCE)
            ranks, done = found, done + 1
            report(done)
        return Ranking(ids, ranks * total, self.links, done, is_settled)

    def _places_of_targets(self, ids: Ids) -> NDArray[np.int64]:
        """Write where each target is among the ids, and map the file into memory."""
        with (self._folder / "places").open("wb") as file:
            for chunk in self._chunks("targets"):
                np.searchsorted(ids, chunk).astype("<i8").tofile(file)
        return self._read("places", "<i8")

    def _write(self) -> None:
        for name, kind, values in (
            ("pages", "<u8", self._pages),
            ("counts", "<u4", self._counts),
            ("targets", "<u8", self._targets),
        ):
            with (self._folder / name).open("ab") as file:
                np.array(values, kind).tofile(file)
            values.clear()

    def _read(self, name: str, kind: str) -> NDArray[np.int64]:
        path = self._folder / name
        if not path.stat().st_size:
            return np.zeros(0, kind)
        return np.memmap(path, kind, "r")

    def _chunks(self, name: str) -> Iterator[Ids]:
        found = self._read(name, "<u8")
        for at in range(0, len(found), _CHUNK):
            yield np.array(found[at : at + _CHUNK], np.uint64)


def _distinct(*parts: Iterable[Ids]) -> Ids:
    """Return each id once, ascending; in memory there are about twice as many at a time."""
    known, waiting = np.zeros(0, np.uint64), [np.zeros(0, np.uint64)]
    size = 0
    for part in parts:
        for chunk in part:
            waiting.append(np.unique(chunk))
            size += len(waiting[-1])
            if size > len(known):
                known, waiting, size = np.unique(np.concatenate([known, *waiting])), [], 0
    return np.unique(np.concatenate([known, *waiting]))


def _cuts(ends: NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Cut pages into runs that have so many links each, or one page."""
    first, total = 0, len(ends)
    while first < total:
        start = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, start + most, "right")))
        yield first, last
        first = last
