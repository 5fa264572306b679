"""How long does the SimHash of a page of 600 words take, beside the simhash package's?"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator
from time import process_time

from simhash import Simhash

from benchmarks.figures import Figure, at_least
from crawler.dedup.content import hashes_of, simhash, words_of
from demo.words import VOCABULARY

_WORDS = 600
_TEXTS = 24


def measure(quick: bool) -> Iterator[Figure]:
    """Both from the text, in turns; the best round of each, for load can only make one slower."""
    chance = random.Random(1)
    texts = [" ".join(chance.choices(VOCABULARY, k=_WORDS)) for _ in range(_TEXTS)]
    gc.collect()
    rounds = [
        (
            _timed(lambda: [simhash(hashes_of(words_of(text))) for text in texts]) / _TEXTS,
            _timed(lambda: [Simhash(text) for text in texts[:2]]) / 2,
        )
        for _ in range(20 if quick else 100)
    ]
    ours, theirs = min(one for one, _ in rounds), min(other for _, other in rounds)
    ratio = theirs / ours
    yield Figure("content.simhash_ratio", ratio, "×", "simhash", ratio, ratio_target=at_least(5))
    yield Figure("content.simhash_us", ours * 1e6, "µs")


def _timed(work: Callable[[], object]) -> float:
    started = process_time()
    work()
    return process_time() - started
