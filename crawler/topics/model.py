"""A trained topic: a linear score of the words of a text.

The score is that of scikit-learn's TfidfVectorizer (sublinear counts, L2 norm) with a linear
classifier: the sum of the words' weights, squeezed into 0 to 1. So it needs no scikit-learn, and
takes 0.1 ms for 600 words. Only the first 20,000 characters of a text count.

A model is a JSON file, and never runs code:

    format, version   "crawler-topic", 1
    model             how it was trained: "bayes" or "logistic"
    trained           facts for people: when, from how many examples, how good
    bias              log-odds of a text without any weight
    terms             words, as util/words.py makes them
    idf, weights      of each term: its inverse document frequency, and its weight in log-odds
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

from crawler.errors import ConfigurationError
from crawler.util.words import words_of

# Characters of a text that count: some 3,000 words.
MAX_CHARS = 20_000
# Texts without boilerplate that have fewer words are those of lists of links: all text counts.
_MIN_WORDS = 20
# Bounds of a model file. One with 5,000 terms has 200 KB.
MAX_TERMS = 50_000
MAX_TERM_BYTES = 200
_MAX_BYTES = 16_000_000
_LARGEST = 1e9
_FORMAT, _VERSION = "crawler-topic", 1
# Beyond it exp() overflows, and scores are 0 or 1.
_MAX_LOG_ODDS = 700.0


class WordShare(NamedTuple):
    """Word of a text and what it adds to the log-odds of its score."""

    word: str
    log_odds: float


class Readable(Protocol):
    """Page or document, as far as its text is scored."""

    title: str
    text: str
    blocks: list[str] | None


def text_of(page: Readable) -> str:
    """Return the text by which a page is scored: title and text, without menus and lists of links.

    If that leaves hardly any words, it is all text.
    """
    text = " ".join(page.blocks) if page.blocks is not None else page.text
    if len(text.split(None, _MIN_WORDS)) <= _MIN_WORDS:
        text = page.text
    return f"{page.title} {text[:MAX_CHARS]}"


def words_in(text: str) -> list[str]:
    """Return the words of a text that count, for training."""
    words = words_of(text[:MAX_CHARS]).split()
    return [word.decode() for word in words if len(word) <= MAX_TERM_BYTES]


@dataclass(frozen=True, slots=True)
class TopicModel:
    """Model of a topic."""

    bias: float
    # Word, in UTF-8 → its inverse document frequency and its weight.
    terms: Mapping[bytes, tuple[float, float]]
    kind: str = "bayes"
    # Facts about its training.
    trained: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        bias: float,
        terms: Iterable[str],
        idf: Iterable[float],
        weights: Iterable[float],
        *,
        kind: str = "bayes",
        trained: Mapping[str, Any] | None = None,
    ) -> Self:
        """Make a model of parallel lists."""
        found = {
            term.encode(): (float(rarity), float(weight))
            for term, rarity, weight in zip(terms, idf, weights, strict=True)
        }
        return cls(float(bias), found, kind, trained or {})

    def score(self, text: str) -> float | None:
        """Score a text from 0 to 1; None if it has no word of the model."""
        log_odds = self._log_odds(text)
        return None if log_odds is None else _squeezed(self.bias + log_odds)

    def score_link(self, text: str) -> float | None:
        """Score what is known of a link; None if it has no word of the model.

        Words that say nothing give 0.5. The bias does not count: it makes up for what many such
        words add in a long text.
        """
        log_odds = self._log_odds(text)
        return None if log_odds is None else _squeezed(log_odds)

    def shares(self, text: str) -> list[WordShare]:
        """List the words of a text that count with what each adds, the most for the topic first.

        Their sum and the bias are the log-odds of the score.
        """
        counts = Counter(words_of(text[:MAX_CHARS]).split())
        values = {
            word: (1.0 + math.log(counts[word])) * self.terms[word][0]
            for word in counts.keys() & self.terms.keys()
        }
        length = math.hypot(*values.values())
        shares = [
            WordShare(word.decode(), value / length * self.terms[word][1])
            for word, value in values.items()
        ]
        return sorted(shares, key=lambda share: (-share.log_odds, share.word))

    def _log_odds(self, text: str) -> float | None:
        """Add up the weights of a text's words. The sum of `shares`, in a third of the time."""
        terms = self.terms
        counts = Counter(words_of(text[:MAX_CHARS]).split())
        total = length = 0.0
        for word in counts.keys() & terms.keys():
            value, weight = terms[word]
            count = counts[word]
            if count > 1:
                value *= 1.0 + math.log(count)
            total += value * weight
            length += value * value
        return total / math.sqrt(length) if length else None

    # --- files ----------------------------------------------------------------------------------

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Read the file of a model, or raise ConfigurationError."""
        path = Path(path)
        try:
            with path.open("rb") as file:
                data = file.read(_MAX_BYTES + 1)
        except OSError as error:
            raise ConfigurationError(
                f"The topic {path} cannot be read on this machine: {error.strerror}. Each process "
                "reads its own file; make one by scrapy topic train -o FILE, and copy it to all "
                "machines of the crawl."
            ) from error
        try:
            return cls._of_json(data)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ConfigurationError(
                f"{path} is no topic: {_why(error)}. Make one by scrapy topic train -o FILE."
            ) from error

    def save(self, path: str | Path) -> None:
        """Write it to a file; an old one is replaced at once."""
        path = Path(path)
        record = {
            "format": _FORMAT,
            "version": _VERSION,
            "model": self.kind,
            "trained": self.trained,
            "bias": self.bias,
            "terms": [term.decode() for term in self.terms],
            "idf": [idf for idf, _ in self.terms.values()],
            "weights": [weight for _, weight in self.terms.values()],
        }
        text = json.dumps(record, ensure_ascii=False, allow_nan=False)
        written = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            written.write_text(text, encoding="utf-8")
            written.replace(path)
        finally:
            with suppress(FileNotFoundError):
                written.unlink()

    @classmethod
    def _of_json(cls, data: bytes) -> Self:
        if len(data) > _MAX_BYTES:
            raise ValueError(f"it has more than {_MAX_BYTES} bytes")
        record = json.loads(data)
        if not isinstance(record, dict) or record.get("format") != _FORMAT:
            raise ValueError("it does not say that it is one")
        if record.get("version") != _VERSION:
            version = record.get("version")
            raise ValueError(f"it has version {version!r}, and this program reads {_VERSION}")
        terms, idf, weights = record["terms"], record["idf"], record["weights"]
        if not all(isinstance(each, list) for each in (terms, idf, weights)):
            raise ValueError("its terms, their idf and their weights are not lists")
        if not len(terms) == len(idf) == len(weights):
            raise ValueError("it has not as many weights as terms")
        if not 0 < len(terms) <= MAX_TERMS:
            raise ValueError(f"it has {len(terms)} terms; 1 to {MAX_TERMS} are read")
        for term in terms:
            if not _is_word(term):
                raise ValueError(f"{term!r:.40} is no word")
        if len(set(terms)) != len(terms):
            raise ValueError("it has a term twice")
        if not all(map(_is_finite, (record["bias"], *idf, *weights))) or min(idf) <= 0:
            raise ValueError("a weight of it is no number, or an idf is not above 0")
        kind, trained = str(record["model"]), record["trained"]
        if not isinstance(trained, dict):
            raise TypeError("trained is no object")
        return cls.of(record["bias"], terms, idf, weights, kind=kind, trained=trained)


def _squeezed(log_odds: float) -> float:
    return 1.0 / (1.0 + math.exp(max(-_MAX_LOG_ODDS, min(_MAX_LOG_ODDS, -log_odds))))


def _is_word(term: object) -> bool:
    if not isinstance(term, str):
        return False
    # Half of a surrogate is no word.
    data = term.encode("utf-8", "replace")
    return len(data) <= MAX_TERM_BYTES and words_of(term).split() == [data]


def _is_finite(number: object) -> bool:
    return isinstance(number, int | float) and abs(number) < _LARGEST


def _why(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"it has no {error}"
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError | RecursionError):
        return "it is no JSON"
    return str(error)
