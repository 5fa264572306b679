"""Are pages with the same article found, and others told apart? On pages of the synthetic web.

Each article has versions on several hosts, each in the frame of its host: in elements made for
frames, in plain ones, and among three times as many words of notices. The truth is known by
construction: two pages are the same if at most one word in a thousand of their articles differs,
and different if one in twenty does, or if they are different articles, in the same frame or not.
The pages come in any order, and what a host's pages share is learnt on the way, as in a crawl.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np

from benchmarks.figures import Figure, at_least
from crawler.dedup.content import Boilerplate, distance, simhashes
from crawler.parsing.html import HtmlReader
from crawler.parsing.reader import DocumentReader
from demo.html import special_page
from demo.node import Node
from demo.words import PARAGRAPH_WORDS

_DISTANCE = 3
_MIN_WORDS = 50
_SIZES = (3, 6, 12, 25, 40, 60)
_FRAMES = ("semantic:{host}:4", "plain:{host}:4", "plain:{host}:30")
_PAGES_A_HOST = 200
# Words of which one is another: of the same article, and of one that is different.
_SAME, _LITTLE, _DIFFERENT = 1_000, 200, 20
_VERSIONS = (0, 0, _SAME, _LITTLE, _DIFFERENT)


class Seen(NamedTuple):
    """A page that was read: where it came from, and what it is compared by."""

    article: int
    changed: int
    host: str
    simhash: int | None


def measure(quick: bool) -> Iterator[Figure]:
    """Precision and recall over all judged pairs."""
    articles = 1_000 if quick else 4_000
    pages = list(_read(_nodes(articles)))
    same, different, little = _pairs(pages)
    found = sum(map(_are_near, same))
    wrong = sum(map(_are_near, different))
    judged = len(same) + len(different)
    yield Figure("content.precision", found / (found + wrong), "", target=at_least(0.99))
    yield Figure("content.recall", found / len(same), "", target=at_least(0.95))
    yield Figure("content.pairs", judged, "pairs", target=at_least(20_000))
    # Not part of the truth: SimHash at three bits finds every other of them.
    yield Figure("content.recall_1_in_200", sum(map(_are_near, little)) / len(little), "")


def _nodes(articles: int) -> list[tuple[int, int, Node]]:
    """Pages in the order they are fetched, with the article and how much of it is changed."""
    chance = random.Random(1)
    hosts = max(6, articles * len(_VERSIONS) // _PAGES_A_HOST)
    nodes = []
    for article in range(articles):
        paragraphs = _SIZES[article % len(_SIZES)]
        places = chance.sample(range(hosts), len(_VERSIONS))
        for version, (words, place) in enumerate(zip(_VERSIONS, places, strict=True)):
            host = f"f{place}.test"
            total = paragraphs * PARAGRAPH_WORDS
            node = Node(
                host,
                f"/{article}/{version}",
                text=f"likeness:{article}",
                paragraphs=paragraphs,
                frame=_FRAMES[place % len(_FRAMES)].format(host=host),
                # At least as much as it says for what is different, at most for what is the same.
                changed=0 if not words else -(-total // words) if words < _SAME else total // words,
            )
            nodes.append((article, words, node))
    chance.shuffle(nodes)
    return nodes


def _read(nodes: Iterable[tuple[int, int, Node]]) -> Iterator[Seen]:
    """What the spider and the pipeline do, with an index in memory."""
    reader = DocumentReader(HtmlReader(max_links=0), max_links=0)
    frames = Boilerplate()
    originals = np.zeros(0, dtype=np.uint64)
    for article, changed, node in nodes:
        document = reader.read(special_page(node), node.url, content_type=node.content_type)
        blocks = document.blocks or []
        hashed = simhashes([" ".join(frames.without(node.host, blocks))], _MIN_WORDS)[0]
        is_near = hashed is not None and bool(
            np.any(np.bitwise_count(originals ^ np.uint64(hashed)) <= _DISTANCE)
        )
        if not is_near:
            frames.learn(node.host, blocks)
            if hashed is not None:
                originals = np.append(originals, np.uint64(hashed))
        yield Seen(article, changed, node.host, hashed)


Pair = tuple[Seen, Seen]


def _pairs(pages: list[Seen]) -> tuple[list[Pair], list[Pair], list[Pair]]:
    """Pairs that are the same, that are different, and that differ a little more than the same."""
    same: list[Pair] = []
    different: list[Pair] = []
    little: list[Pair] = []
    of_article, of_host = defaultdict(list), defaultdict(list)
    for page in pages:
        of_article[page.article].append(page)
        of_host[page.host].append(page)
    for versions in of_article.values():
        for one, other in combinations(versions, 2):
            changes = {one.changed, other.changed} - {0}
            if _DIFFERENT in changes:
                different.append((one, other))
            elif changes == {_LITTLE}:
                little.append((one, other))
            elif _LITTLE not in changes:
                same.append((one, other))
    for on_host in of_host.values():
        # Neighbours in the order of fetching: other articles in the same frame.
        different += [
            (one, other)
            for step in (1, 2, 3)
            for one, other in zip(on_host, on_host[step:], strict=False)
            if one.article != other.article
        ]
    return same, different, little


def _are_near(pair: Pair) -> bool:
    one, other = (page.simhash for page in pair)
    return one is not None and other is not None and distance(one, other) <= _DISTANCE
