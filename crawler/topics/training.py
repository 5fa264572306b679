"""Train a model of a topic from examples, with scikit-learn.

Texts become counts of their words. The 5,000 words that are most frequent, among those of at least
two texts, are weighted by TF-IDF, and a linear classifier tells positive from negative texts:
multinomial naive Bayes, or logistic regression.

The scores of either are too sure or too cautious, and depend on how many examples of each kind were
given, which says nothing about the web. So their log-odds are scaled by a logistic regression of
one variable on texts that the classifier did not see (Platt scaling), as if there were as many
examples of each kind. Of texts with a score of 0.7, seven in ten are then on topic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from crawler.errors import ConfigurationError
from crawler.topics.model import TopicModel, words_in
from crawler.util.extras import optional

BAYES, LOGISTIC = "bayes", "logistic"
MODELS = (BAYES, LOGISTIC)
MAX_FEATURES = 5000
# Texts of each kind that are needed, and that are used: 40,000 of 4 KB take 1 GB and 16 s.
MIN_EXAMPLES, MAX_EXAMPLES = 10, 20_000
FOLDS = 5
# Fits of a training: each takes about as long.
STEPS = FOLDS + 1
# A word must be in so many texts.
_MIN_TEXTS = 2
# Added to the counts of words: TF-IDF values are well below 1.
_SMOOTHING = 0.1
# How little the weights of a logistic regression are held down.
_STRENGTH = 10.0


@dataclass(frozen=True, slots=True)
class Validation:
    """Quality of a model on texts that it was not trained with, each text once."""

    # The score from which a text counts as positive.
    threshold: float
    # Share of positive texts among those found; 0 if none were found.
    precision: float
    # Share of the positive texts that were found.
    recall: float

    @property
    def f1(self) -> float:
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


@dataclass(frozen=True, slots=True)
class Trained:
    """Model with the quality that was measured."""

    model: TopicModel
    validation: Validation


def train(
    positive: Sequence[str],
    negative: Sequence[str],
    *,
    kind: str = BAYES,
    threshold: float,
    report: Callable[[int], None] = lambda _steps: None,
) -> Trained:
    """Train a model by different texts of both kinds; the same texts give the same model.

    `report` is called with the number of steps done, STEPS in all. Raises ConfigurationError for
    too few texts, and if scikit-learn is missing.
    """
    for name, texts in (("positive", positive), ("negative", negative)):
        if len(texts) < MIN_EXAMPLES:
            raise ConfigurationError(
                f"There are {len(texts)} {name} examples that can be used; give {MIN_EXAMPLES} or "
                "more (some hundred of each kind make a good model)."
            )
    learner = _Learner([*positive, *negative], len(positive), kind)
    log_odds, folds = learner.held_out(report)
    is_positive = learner.is_positive
    # The scale of each fold is that of the other folds, as for texts that nobody has seen.
    scores = np.empty(len(is_positive))
    for rest, fold in folds:
        scores[fold] = _scaled(log_odds[fold], _scale(log_odds[rest], is_positive[rest]))
    found = scores >= threshold
    hits = int(np.count_nonzero(found & is_positive))
    validation = Validation(
        threshold, hits / max(1, int(np.count_nonzero(found))), hits / len(positive)
    )
    factor, offset = _scale(log_odds, is_positive)
    if factor <= 0:
        raise ConfigurationError(
            "The words of the positive and the negative examples do not differ; give examples of "
            "the topic, and of pages that the crawl will meet and that are not about it."
        )
    fit = learner.fit(np.arange(len(is_positive)))
    report(1)
    facts = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "positive": len(positive),
        "negative": len(negative),
        "threshold": threshold,
        "precision": round(validation.precision, 4),
        "recall": round(validation.recall, 4),
    }
    model = TopicModel.of(
        factor * fit.bias + offset,
        learner.terms(fit),
        fit.tfidf.idf_,
        factor * fit.weights,
        kind=kind,
        trained=facts,
    )
    return Trained(model, validation)


class _Learner:
    """Learner of texts, of which the first ones are positive."""

    def __init__(self, texts: Sequence[str], positive: int, kind: str) -> None:
        what = "scrapy topic train"
        text = optional("sklearn.feature_extraction.text", extra="topic", what=what)
        self._tfidf = text.TfidfTransformer
        self._selection = optional("sklearn.model_selection", extra="topic", what=what)
        if kind == BAYES:
            bayes = optional("sklearn.naive_bayes", extra="topic", what=what)
            self._classifier = bayes.MultinomialNB(alpha=_SMOOTHING, fit_prior=False)
        else:
            linear = optional("sklearn.linear_model", extra="topic", what=what)
            self._classifier = linear.LogisticRegression(
                C=_STRENGTH, class_weight="balanced", max_iter=1000
            )
        counter = text.CountVectorizer(analyzer=words_in)
        try:
            self._counts = counter.fit_transform(texts)
        except ValueError as error:
            raise ConfigurationError("The examples have no words.") from error
        self._terms = counter.get_feature_names_out()
        self.is_positive = np.arange(len(texts)) < positive

    def fit(self, rows: np.ndarray) -> _Fit:
        """Learn from some of the texts."""
        counts = self._counts[rows]
        texts = np.asarray((counts > 0).sum(axis=0)).ravel()
        often = np.asarray(counts.sum(axis=0)).ravel()
        common = np.flatnonzero(texts >= _MIN_TEXTS)
        if not len(common):
            raise ConfigurationError("The examples have no words in common.")
        # Of equally frequent words the first ones, so that the result is always the same.
        order = np.argsort(-often[common], kind="stable")
        columns = np.sort(common[order[:MAX_FEATURES]])
        tfidf = self._tfidf(sublinear_tf=True).fit(counts[:, columns])
        self._classifier.fit(tfidf.transform(counts[:, columns]), self.is_positive[rows])
        return _Fit(columns, tfidf, *_linear(self._classifier))

    def held_out(self, report: Callable[[int], None]) -> tuple[np.ndarray, list[_Fold]]:
        """Return the log-odds of each text by a fit to the other folds, and the folds."""
        splits = self._selection.StratifiedKFold(FOLDS, shuffle=True, random_state=0)
        folds = list(splits.split(self.is_positive, self.is_positive))
        log_odds = np.empty(len(self.is_positive))
        for rest, fold in folds:
            log_odds[fold] = self.fit(rest).log_odds(self._counts[fold])
            report(1)
        return log_odds, folds

    def terms(self, fit: _Fit) -> list[str]:
        """Return the words of a fit."""
        found: list[str] = self._terms[fit.columns].tolist()
        return found


# The texts of the other folds, and those of one.
_Fold = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, slots=True)
class _Fit:
    """Fit of a classifier: its words, as columns of the counts, and their weights."""

    columns: np.ndarray
    tfidf: Any
    weights: np.ndarray
    bias: float

    def log_odds(self, counts: Any) -> np.ndarray:
        found: np.ndarray = self.tfidf.transform(counts[:, self.columns]) @ self.weights + self.bias
        return found


def _linear(classifier: Any) -> tuple[np.ndarray, float]:
    """Return the weights and the bias of a classifier: for the log-odds of being positive."""
    if hasattr(classifier, "coef_"):
        return classifier.coef_[0], float(classifier.intercept_[0])
    words, prior = classifier.feature_log_prob_, classifier.class_log_prior_
    return words[1] - words[0], float(prior[1] - prior[0])


def _scale(log_odds: np.ndarray, is_positive: np.ndarray) -> tuple[float, float]:
    """Return the factor and the offset that turn log-odds of a classifier into real ones."""
    linear = optional("sklearn.linear_model", extra="topic", what="scrapy topic train")
    spread = float(np.std(log_odds)) or 1.0
    fitted = linear.LogisticRegression(class_weight="balanced").fit(
        log_odds[:, np.newaxis] / spread, is_positive
    )
    return float(fitted.coef_[0, 0]) / spread, float(fitted.intercept_[0])


def _scaled(log_odds: np.ndarray, scale: tuple[float, float]) -> np.ndarray:
    factor, offset = scale
    return 1.0 / (1.0 + np.exp(-(factor * log_odds + offset)))
