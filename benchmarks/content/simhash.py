"""How long does the SimHash of a page of 600 words take, beside the simhash package's?

A crawl hashes the pages that it read in the last 50 ms together: eight here.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator
from time import process_time

from simhash import Simhash

from benchmarks.figures import Figure, at_least
from crawler.dedup.content import simhashes
from demo.words import VOCABULARY

_WORDS = 600
_TEXTS = 24
_TOGETHER = 8


def measure(quick: bool) -> Iterator[Figure]:
    """All from the text, in turns; the best round of each, for load can only make one slower."""
    chance = random.Random(1)
    texts = [" ".join(chance.choices(VOCABULARY, k=_WORDS)) for _ in range(_TEXTS)]
    groups = [texts[at : at + _TOGETHER] for at in range(0, _TEXTS, _TOGETHER)]
    gc.collect()
    rounds = [
        (
            _timed(lambda: [simhashes([text], _WORDS) for text in texts]) / _TEXTS,
            _timed(lambda: [simhashes(group, _WORDS) for group in groups]) / _TEXTS,
            _timed(lambda: [Simhash(text) for text in texts[:2]]) / 2,
        )
        for _ in range(20 if quick else 100)
    ]
    alone, together, theirs = map(min, zip(*rounds, strict=True))
    ratio = theirs / alone
    yield Figure("content.simhash_ratio", ratio, "×", "simhash", ratio, ratio_target=at_least(5))
    yield Figure("content.simhash_us", alone * 1e6, "µs")
    yield Figure("content.simhash_group_us", together * 1e6, "µs")


def _timed(work: Callable[[], object]) -> float:
    started = process_time()
    work()
    return process_time() - started
