"""What do the levels of zlib and zstd cost for a page, and how small do they make it?

Each page is compressed alone, as it is stored. Real pages are taken where they are (see
benchmarks/articles.py), generated ones otherwise. What counts is CPU time: the best of several
rounds in turns, since other programs can only make one slower.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import process_time

import zstandard

from benchmarks import links
from benchmarks.articles import article_pages
from benchmarks.command import run
from benchmarks.figures import Figure
from crawler.storage.mongo.sink import compressor

Convert = Callable[[bytes], bytes]
_ROUNDS, _QUICK_ROUNDS = 7, 2
_GENERATED = 100


def codecs() -> dict[str, tuple[Convert, Convert]]:
    """How each compresses and decompresses, by codec and level."""
    found: dict[str, tuple[Convert, Convert]] = {
        f"zlib_{level}": (partial(zlib.compress, level=level), zlib.decompress)
        for level in (1, 6, 9)
    }
    unpack = zstandard.ZstdDecompressor().decompress
    for level in (1, 3, 9):
        found[f"zstd_{level}"] = (zstandard.ZstdCompressor(level=level).compress, unpack)
    # As a crawl stores bodies in MongoDB: level 3 with smaller tables.
    found["zstd_stored"] = (compressor("zstd"), unpack)
    return found


def measure(quick: bool) -> Iterator[Figure]:
    """CPU time and ratio of each level."""
    real = article_pages()
    pages = real or [links.page(number) for number in range(_GENERATED)]
    yield Figure("compression.pages", len(pages), "real pages" if real else "generated pages")
    yield Figure("compression.kb_per_page", sum(map(len, pages)) / len(pages) / 1000, "KB")
    yield from figures(pages, _QUICK_ROUNDS if quick else _ROUNDS)


def figures(pages: Sequence[bytes], rounds: int) -> Iterator[Figure]:
    """Let all levels compress the same pages."""
    ways = codecs()
    packed = {name: [*map(compress, pages)] for name, (compress, _) in ways.items()}
    best_us: dict[tuple[str, str], float] = {}
    for _ in range(rounds):
        for name, (compress, unpack) in ways.items():
            for work, convert, given in (
                ("us", compress, pages),
                ("unpack_us", unpack, packed[name]),
            ):
                took_us = _cpu_us(convert, given)
                best_us[name, work] = min(took_us, best_us.get((name, work), took_us))
    plain_bytes = sum(map(len, pages))
    for name in ways:
        ratio = plain_bytes / sum(map(len, packed[name]))
        yield Figure(f"compression.{name}.us_per_page", best_us[name, "us"], "µs")
        yield Figure(f"compression.{name}.unpack_us_per_page", best_us[name, "unpack_us"], "µs")
        yield Figure(f"compression.{name}.ratio", ratio, "×")


def _cpu_us(convert: Convert, given: Sequence[bytes]) -> float:
    started_s = process_time()
    for each in given:
        convert(each)
    return (process_time() - started_s) / len(given) * 1e6


if __name__ == "__main__":
    sys.exit(run("benchmarks.measurements.compression", __doc__, {"compression": measure}))
