"""How much of an article is found, how much else is taken for it, and what does it cost?

Real articles, if they are here (benchmarks/articles.py), beside trafilatura and resiliparse in the
same run. The measure is that of the article extraction benchmark by Scrapinghub: runs of four words
that a text has in common with the true one, precision and recall of each page, and F1 of their
means. Our time is that of reading a page with its main text less that of reading it without;
theirs is for the page as text, with their own parsing. The other figures of time are CPU too.
"""

from __future__ import annotations

import gc
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import mean, median
from time import process_time
from typing import NamedTuple

from benchmarks.articles import Article, articles
from benchmarks.command import run
from benchmarks.figures import Figure, Skipped, at_least, at_most
from crawler.extensions.fastpath import keep_memory
from crawler.parsing.encoding import as_utf8
from crawler.parsing.html import HtmlReader
from crawler.parsing.reader import DocumentReader

_MAX_LINKS = 6000
_ROUNDS, _QUICK_ROUNDS = 7, 3
_WORD = re.compile(r"\w+")
_RUN = 4

Extract = Callable[[Article], str]


class Score(NamedTuple):
    """How near the texts of pages are to the true ones."""

    f1: float
    precision: float
    recall: float


def score_of(texts: Sequence[str], truths: Sequence[str]) -> Score:
    """Compare texts with the true ones."""
    parts = [_precision_and_recall(*pair) for pair in zip(texts, truths, strict=True)]
    precision, recall = (mean(part[which] for part in parts) for which in (0, 1))
    both = precision + recall
    return Score(2 * precision * recall / both if both else 0, precision, recall)


def _precision_and_recall(text: str, truth: str) -> tuple[float, float]:
    found, wanted = _runs(text), _runs(truth)
    shared = (found & wanted).total()
    if not shared:
        return 0, 0
    return shared / found.total(), shared / wanted.total()


def _runs(text: str) -> Counter[tuple[str, ...]]:
    words = _WORD.findall(text)
    return Counter(tuple(words[at : at + _RUN]) for at in range(max(1, len(words) - _RUN + 1)))


def _reader(**options: bool) -> DocumentReader:
    return DocumentReader(HtmlReader(max_links=_MAX_LINKS, **options), max_links=_MAX_LINKS)


def _ours(reader: DocumentReader, article: Article) -> str:
    return reader.read(article.html, article.url, content_type="text/html").main_text


def _trafilatura(article: Article, *, fast: bool) -> str:
    # Imported when used: it takes a second.
    import trafilatura  # noqa: PLC0415

    return trafilatura.extract(_text(article), url=article.url, fast=fast) or ""


def _resiliparse(article: Article) -> str:
    from resiliparse.extract.html2text import extract_plain_text  # noqa: PLC0415

    return str(extract_plain_text(_text(article), main_content=True, alt_texts=False))


def _text(article: Article) -> str:
    return as_utf8(article.html, "text/html", article.url)[0].decode("utf-8", "replace")


PEERS: dict[str, Extract] = {
    "trafilatura": partial(_trafilatura, fast=False),
    "trafilatura_fast": partial(_trafilatura, fast=True),
    "resiliparse": _resiliparse,
}


def _ms(ways: dict[str, Extract], pages: Sequence[Article], rounds: int) -> dict[str, float]:
    """Return the milliseconds a page of each way, by the medians of rounds in turns."""
    # As in a crawl.
    keep_memory()
    gc.collect()
    spent: dict[str, list[list[float]]] = {way: [[] for _ in pages] for way in ways}
    for _ in range(rounds):
        for number, page in enumerate(pages):
            for way, extract in ways.items():
                started = process_time()
                extract(page)
                spent[way][number].append(process_time() - started)
    return {way: mean(map(median, times)) * 1000 for way, times in spent.items()}


def measure_real(quick: bool) -> Iterator[Figure | Skipped]:
    """All articles."""
    pages = articles()
    if not pages:
        yield Skipped("main_text.f1", "there are no articles; CORPUS names their folder")
        return
    truths = [page.text for page in pages]
    ours = partial(_ours, _reader(main_text=True))
    scores = {
        name: score_of([extract(page) for page in pages], truths)
        for name, extract in {"": ours, **PEERS}.items()
    }
    found, best = scores.pop(""), scores["trafilatura"]
    target = at_least(0.92)
    yield Figure(
        "main_text.f1", found.f1, "", peer="trafilatura", ratio=found.f1 / best.f1, target=target
    )
    yield Figure("main_text.precision", found.precision, "")
    yield Figure("main_text.recall", found.recall, "")
    for name, score in scores.items():
        for kind, value in score._asdict().items():
            yield Figure(f"main_text.{name}_{kind}", value, "")
    rounds = _QUICK_ROUNDS if quick else _ROUNDS
    ways: dict[str, Extract] = {
        "without": partial(_ours, _reader()),
        "text": ours,
        "markdown": partial(_ours, _reader(main_text=True, markdown=True)),
    }
    spent = _ms(ways, pages, rounds)
    theirs = _ms(PEERS, pages, 1 if quick else _QUICK_ROUNDS)
    cpu_ms = spent["text"] - spent["without"]
    yield Figure(
        "main_text.cpu_ms",
        cpu_ms,
        "ms",
        peer="trafilatura",
        ratio=cpu_ms / theirs["trafilatura"],
        target=at_most(1.0),
    )
    with_markdown_ms = spent["markdown"] - spent["without"]
    yield Figure("main_text.with_markdown_cpu_ms", with_markdown_ms, "ms", target=at_most(1.0))
    yield Figure("main_text.reading_without_cpu_ms", spent["without"], "ms")
    for name, ms in theirs.items():
        yield Figure(f"main_text.{name}_cpu_ms", ms, "ms")


PARTS = {"real": measure_real}

if __name__ == "__main__":
    sys.exit(run("main_text", __doc__, PARTS))
