"""Precomputed text: vocabulary, paragraphs, anchors and page-state filler.

Built once at import (about 50 ms) and the same for every web, so that a page is put together by
joining ready-made bytes. Articles choose paragraphs independently out of 2,048, therefore two
different articles share next to nothing and are far apart in SimHash.
"""

import random
from typing import Final

from demo.chance import draws

_SYLLABLES: Final = [first + second for first in "bdfghklmnprstvwz" for second in "aeiou"]
PARAGRAPH_WORDS: Final = 40
PARAGRAPH_COUNT: Final = 2048
ANCHOR_COUNT: Final = 1024
FILLER_CHARS: Final = 256 * 1024


def _vocabulary(source: random.Random) -> list[str]:
    words: dict[str, None] = {}
    while len(words) < 4096:
        words["".join(source.choices(_SYLLABLES, k=source.randint(2, 4)))] = None
    return list(words)


def _paragraph(source: random.Random) -> str:
    words = source.choices(VOCABULARY, k=PARAGRAPH_WORDS)
    sentences = [words[at : at + 10] for at in range(0, PARAGRAPH_WORDS, 10)]
    return " ".join(" ".join(sentence).capitalize() + "." for sentence in sentences)


_source = random.Random("demo words")
VOCABULARY: Final = _vocabulary(_source)
PARAGRAPHS: Final = [_paragraph(_source) for _ in range(PARAGRAPH_COUNT)]
PARAGRAPH_BYTES: Final = [text.encode() for text in PARAGRAPHS]
ANCHORS: Final = [" ".join(_source.choices(VOCABULARY, k=3)) for _ in range(ANCHOR_COUNT)]
# Looks like the inlined state that real pages carry; pages take slices of it.
FILLER: Final = ",".join(str(value) for value in draws("filler", FILLER_CHARS // 10)).encode()


def article(key: str, paragraphs: int) -> list[str]:
    """Return the paragraphs of the article called `key`, as plain text."""
    return [PARAGRAPHS[number % PARAGRAPH_COUNT] for number in draws(f"article:{key}", paragraphs)]


def phrase(key: str, words: int) -> str:
    """Return a few words that depend on `key` only, for titles and descriptions."""
    chosen = (VOCABULARY[number % len(VOCABULARY)] for number in draws(f"phrase:{key}", words))
    return " ".join(chosen).capitalize()
