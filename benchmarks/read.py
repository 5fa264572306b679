"""How long does it take to read a page, and which part of it takes how long?

Real articles, if they are here (benchmarks/articles.py), pages generated in their likeness, the
26 KB page of the crawl benchmark, and pages made to be slow. Parts that cannot be measured alone
are differences: `links` and `blocks` to a reader that does not want them; `text` is what remains,
with the metadata. Each page counts with the median of its rounds. The best round, which other load
disturbs least, is printed beside it.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import mean, median
from time import process_time

from selectolax.lexbor import LexborHTMLParser

from benchmarks.articles import article_pages
from benchmarks.command import run
from benchmarks.crawl import markup, pages
from benchmarks.figures import Figure, Skipped, at_most
from crawler.extensions.fastpath import keep_memory
from crawler.parsing.encoding import as_utf8
from crawler.parsing.html import HtmlReader
from crawler.parsing.limits import bounded
from crawler.parsing.reader import DocumentReader

_URL = "http://www.words.example/library/page"
# Without an encoding, as of many real servers: it has to be found in the page.
_TYPE = "text/html"
_SIZE = pages.Size(seeds=8_000, hosts=1_000)
_MAX_LINKS = 6000
_ROUNDS = 9
_HOSTILE_BYTES = 300_000


def _reader(*, max_links: int = _MAX_LINKS, blocks: bool = True) -> DocumentReader:
    return DocumentReader(HtmlReader(max_links=max_links, blocks=blocks), max_links=max_links)


def _ways() -> dict[str, Callable[[bytes], object]]:
    """What is timed; all but the first are parts of it, or the first without a part."""
    everything, unlinked, unblocked = _reader(), _reader(max_links=0), _reader(blocks=False)
    return {
        "read": lambda body: everything.read(body, _URL, content_type=_TYPE),
        "decode": lambda body: as_utf8(body, _TYPE, _URL),
        "guard": bounded,
        "parse": lambda body: LexborHTMLParser(body, options=1),
        "no links": lambda body: unlinked.read(body, _URL, content_type=_TYPE),
        "no blocks": lambda body: unblocked.read(body, _URL, content_type=_TYPE),
    }


# By way and page: the seconds of each round.
Rounds = Mapping[str, Sequence[Sequence[float]]]


def rounds_of(bodies: Sequence[bytes], rounds: int = _ROUNDS) -> Rounds:
    """Read all pages in rounds, in all ways."""
    # As in a crawl.
    keep_memory()
    gc.collect()
    ways = _ways()
    spent: dict[str, list[list[float]]] = {way: [[] for _ in bodies] for way in ways}
    for _ in range(rounds):
        for number, body in enumerate(bodies):
            for way, work in ways.items():
                started = process_time()
                work(body)
                spent[way][number].append(process_time() - started)
    return spent


def parts_us(
    rounds: Rounds, judge: Callable[[Sequence[float]], float] = median
) -> dict[str, float]:
    """Microseconds a page: of reading, and of each part of it."""
    spent = {way: mean(map(judge, pages)) * 1e6 for way, pages in rounds.items()}
    found = {part: spent[part] for part in ("read", "decode", "guard", "parse")}
    found["links"] = spent["read"] - spent["no links"]
    found["blocks"] = spent["read"] - spent["no blocks"]
    found["text"] = 2 * found["read"] - sum(found.values())
    return found


def _figures(name: str, bodies: Sequence[bytes], quick: bool, most_ms: float) -> Iterator[Figure]:
    rounds = rounds_of(bodies, 3 if quick else _ROUNDS)
    found, best_us = parts_us(rounds), parts_us(rounds, min)["read"]
    target = at_most(most_ms)
    yield Figure(f"read.{name}_ms_per_page", found.pop("read") / 1000, "ms", target=target)
    yield Figure(f"read.{name}_best_ms_per_page", best_us / 1000, "ms")
    for part, spent in found.items():
        yield Figure(f"read.{name}_{part}_us", spent, "µs")


def measure_real(quick: bool) -> Iterator[Figure | Skipped]:
    """All articles."""
    bodies = article_pages()
    if bodies:
        yield from _figures("real", bodies, quick, 1.2)
    else:
        yield Skipped("read.real_ms_per_page", "there are no articles; CORPUS names their folder")


def measure_web(quick: bool) -> Iterator[Figure]:
    """Pages in the likeness of real ones."""
    bodies = [
        pages.marked_up(number, markup.web_shape(number), _SIZE, 80, "http")
        for number in range(20 if quick else 90)
    ]
    yield from _figures("web", bodies, quick, 1.2)


def measure_usual(quick: bool) -> Iterator[Figure]:
    """The page of 26 KB."""
    bodies = [pages.marked_up(number, markup.USUAL, _SIZE, 80, "http") for number in range(20)]
    yield from _figures("usual", bodies, quick, 0.4)


def _numbered(text: str, size: int) -> str:
    return "".join(text.format(number) for number in range(size // len(text)))


# Ways to make a parser slow, each with a size in bytes.
HOSTILE: dict[str, Callable[[int], str]] = {
    "nested": lambda size: "<div>" * (size // 5),
    "end_tags": lambda size: "<span>" * 4000 + "</x>" * (size // 4),
    "formatting": lambda size: _numbered("<p><b x={}><table><td></b></table>t", size),
    "attributes": lambda size: "<a " + _numbered('a{}=">" ', size) + ">",
    "names": lambda size: _numbered("<p a{}>x</p>", size),
    "roots": lambda size: _numbered("<body a{}=1>", size),
    "values": lambda size: "<a x='>" * (size // 7),
}


def hostile_ms(name: str, size: int, rounds: int = 3) -> float:
    """Milliseconds to read a hostile page of this size."""
    reader, body = _reader(), HOSTILE[name](size).encode()
    best = float("inf")
    for _ in range(rounds):
        started = process_time()
        reader.read(body, _URL, content_type=_TYPE)
        best = min(best, process_time() - started)
    return best * 1000


def measure_hostile(quick: bool) -> Iterator[Figure]:
    """Hostile pages, and what ten times the bytes take: with squares it would be 100 times."""
    for name in HOSTILE:
        small = hostile_ms(name, _HOSTILE_BYTES)
        yield Figure(f"read.hostile_{name}_ms", small, "ms", target=at_most(1_000))
        if not quick:
            large = hostile_ms(name, 10 * _HOSTILE_BYTES, 1)
            yield Figure(f"read.hostile_{name}_3mb_ms", large, "ms", target=at_most(3_000))
            yield Figure(f"read.hostile_{name}_growth", large / small, "×", target=at_most(30))


PARTS = {
    "real": measure_real,
    "web": measure_web,
    "usual": measure_usual,
    "hostile": measure_hostile,
}

if __name__ == "__main__":
    sys.exit(run("read", __doc__, PARTS))
