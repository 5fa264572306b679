"""Read and write files with the ranks of pages: one number for each URL, found without loading it.

`scrapy pages rank -o FILE` writes such a file from the links of a crawl, and the setting PAGE_RANKS
names one. Layout, little-endian:

    bytes 0-7     the text PAGERANK
    bytes 8-11    version of the format, 1
    bytes 12-15   zero
    bytes 16-23   number of pages
    bytes 24-31   mean of the ranks, float64
    then          the ids of the pages (fingerprints of their URLs), uint64, ascending
    then          their ranks, float32, in the order of the ids

A file is mapped into memory, so that the processes of a machine share it, and the pages of it that
are not in use need no memory. It is replaced as a whole: a running crawl goes on with the old one.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crawler.errors import ConfigurationError

_MAGIC = b"PAGERANK"
_VERSION = 1
_HEADER = struct.Struct("<8sI4xQd")
_ID, _RANK = np.dtype("<u8"), np.dtype("<f4")
# Ids that are checked for their order when a file is opened.
_SAMPLES = 1000


class PageRanks:
    """Ranks of pages in one file."""

    def __init__(self, ids: NDArray[np.uint64], ranks: NDArray[np.float32], mean: float) -> None:
        """The ids must be ascending."""
        self._ids = ids
        self._ranks = ranks
        self._mean = mean

    def __len__(self) -> int:
        return len(self._ids)

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Map a file into memory, or raise ConfigurationError."""
        path = Path(path)
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                count, mean = _read_header(path, file.read(_HEADER.size), size)
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise ConfigurationError(
                f"The file of page ranks {path} cannot be read: {error.strerror}."
            ) from error
        # Read it ahead, so that lookups seldom wait for the disk.
        data.madvise(mmap.MADV_WILLNEED)
        ids = np.frombuffer(data, _ID, count, _HEADER.size)
        ranks = np.frombuffer(data, _RANK, count, _HEADER.size + count * _ID.itemsize)
        some = ids[:: max(1, count // _SAMPLES)]
        if not np.all(some[1:] > some[:-1]):
            raise _damaged(path, "its ids are not in order")
        return cls(ids, ranks, mean)

    def of(self, ids: Sequence[int]) -> list[float]:
        """Return the ranks of pages as multiples of the mean; 0 for a page that has none."""
        wanted = np.array(ids, _ID)
        places = np.minimum(np.searchsorted(self._ids, wanted), len(self._ids) - 1)
        found = np.where(self._ids[places] == wanted, self._ranks[places], 0)
        shares: list[float] = (found / self._mean).tolist()
        return shares


def write_page_ranks(path: str | Path, ids: ArrayLike, ranks: ArrayLike) -> None:
    """Write a file of ranks, one for each id, in any order and unit; replace an old one at once.

    Wrong values are a ValueError that says what is wrong. Needs 20 bytes a page while it runs, and
    12 if the ids are ascending.
    """
    path = Path(path)
    sorted_ids, sorted_ranks = np.asarray(ids, _ID), np.asarray(ranks, _RANK)
    if sorted_ids.ndim != 1 or sorted_ids.shape != sorted_ranks.shape:
        raise ValueError(f"{sorted_ids.size} ids and {sorted_ranks.size} ranks; give one for each")
    if not sorted_ids.size:
        raise ValueError("there are no ranks to write")
    if not np.all(sorted_ids[1:] > sorted_ids[:-1]):
        order = np.argsort(sorted_ids)
        sorted_ids, sorted_ranks = sorted_ids[order], sorted_ranks[order]
        if not np.all(sorted_ids[1:] > sorted_ids[:-1]):
            raise ValueError("an id comes twice")
    mean = float(np.mean(sorted_ranks, dtype=np.float64))
    if not np.all(sorted_ranks >= 0) or not 0 < mean < float("inf"):
        raise ValueError("a rank is negative or no number, or all are 0")
    written = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with written.open("wb") as file:
            file.write(_HEADER.pack(_MAGIC, _VERSION, len(sorted_ids), mean))
            sorted_ids.tofile(file)
            sorted_ranks.tofile(file)
            file.flush()
            os.fsync(file.fileno())
        written.replace(path)
    finally:
        with suppress(FileNotFoundError):
            written.unlink()


def _read_header(path: Path, header: bytes, size: int) -> tuple[int, float]:
    """Return the number of pages and the mean of their ranks."""
    if len(header) < _HEADER.size or not header.startswith(_MAGIC):
        raise _damaged(path, "it does not begin like one")
    _, version, count, mean = _HEADER.unpack(header)
    if version != _VERSION:
        raise _damaged(path, f"it has version {version}, and this program reads {_VERSION}")
    wanted = _HEADER.size + count * (_ID.itemsize + _RANK.itemsize)
    if not count or size != wanted:
        raise _damaged(path, f"it has {size} bytes, and its {count} pages need {wanted}")
    if not 0 < mean < float("inf"):
        raise _damaged(path, f"the mean of its ranks is {mean}")
    return count, mean


def _damaged(path: Path, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"{path} is no file of page ranks: {why}. Write one with scrapy pages rank -o FILE."
    )
