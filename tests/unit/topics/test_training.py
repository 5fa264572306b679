"""Training by scikit-learn, which is the oracle of the scores too."""

import sys
from functools import cache

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB

from crawler.errors import ConfigurationError
from crawler.topics.model import words_in
from crawler.topics.training import BAYES, LOGISTIC, STEPS, Trained, train
from demo.topical import OFF, ON, TopicalWeb

WEB = TopicalWeb(1)
POSITIVE, NEGATIVE = WEB.texts(ON, 60), WEB.texts(OFF, 90)
UNSEEN = [*WEB.texts(ON, 80)[60:], *WEB.texts(OFF, 110)[90:], "Words, NOBODY knows", POSITIVE[0]]


@cache
def trained(kind: str) -> Trained:
    return train(POSITIVE, NEGATIVE, kind=kind, threshold=0.7)


@pytest.mark.parametrize("kind", [BAYES, LOGISTIC])
def test_scores_are_those_of_scikit_learn(kind: str) -> None:
    model = trained(kind).model
    terms = [term.decode() for term in model.terms]
    tfidf = TfidfVectorizer(analyzer=words_in, sublinear_tf=True, vocabulary=terms)
    values = tfidf.fit_transform([*POSITIVE, *NEGATIVE])
    is_positive = [True] * len(POSITIVE) + [False] * len(NEGATIVE)
    if kind == BAYES:
        classifier = MultinomialNB(alpha=0.1, fit_prior=False).fit(values, is_positive)
        both = classifier.predict_joint_log_proba(tfidf.transform(UNSEEN))
        log_odds = both[:, 1] - both[:, 0]
    else:
        classifier = LogisticRegression(C=10, class_weight="balanced", max_iter=1000)
        log_odds = classifier.fit(values, is_positive).decision_function(tfidf.transform(UNSEEN))
    scores = np.array([np.nan if (s := model.score(text)) is None else s for text in UNSEEN])
    known = ~np.isnan(scores)
    assert known.sum() == len(UNSEEN) - 1
    # Ours are scaled: the same scale and offset for all texts.
    ours = np.log(scores[known] / (1 - scores[known]))
    factor, offset = np.polyfit(log_odds[known], ours, 1)
    assert factor > 0
    np.testing.assert_allclose(ours, factor * log_odds[known] + offset, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", [BAYES, LOGISTIC])
def test_unseen_texts_are_told_apart_as_well_as_the_validation_says(kind: str) -> None:
    model, validation = trained(kind).model, trained(kind).validation
    positive = [model.score(text) or 0 for text in WEB.texts(ON, 260)[60:]]
    negative = [model.score(text) or 0 for text in WEB.texts(OFF, 290)[90:]]
    hits = sum(score >= 0.7 for score in positive)
    precision = hits / (hits + sum(score >= 0.7 for score in negative))
    assert hits / len(positive) == pytest.approx(validation.recall, abs=0.15)
    assert precision == pytest.approx(validation.precision, abs=0.1)
    assert model.trained["recall"] == round(validation.recall, 4)


def test_the_same_examples_give_the_same_model_and_its_steps_are_reported() -> None:
    steps: list[int] = []
    one, two = trained(BAYES), train(POSITIVE, NEGATIVE, threshold=0.7, report=steps.append)
    assert (one.model.bias, one.model.terms) == (two.model.bias, two.model.terms)
    assert one.validation == two.validation
    assert sum(steps) == STEPS


@pytest.mark.parametrize(
    ("positive", "negative", "text"),
    [
        (POSITIVE[:9], NEGATIVE, "There are 9 positive examples that can be used; give 10 or more"),
        (POSITIVE, [], "There are 0 negative examples"),
        (["."] * 10, ["!"] * 10, "The examples have no words."),
        (
            [f"a{n}" for n in range(10)],
            [f"b{n}" for n in range(10)],
            "The examples have no words in common.",
        ),
        (NEGATIVE[:40:2], NEGATIVE[:40:2], "do not differ"),
    ],
)
def test_examples_of_no_use_are_refused(
    positive: list[str], negative: list[str], text: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        train(positive, negative, threshold=0.7)
    assert text in str(caught.value)


def test_without_scikit_learn_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ConfigurationError, match=r"scrapy topic train needs .*sklearn.*\[topic\]"):
        train(POSITIVE, NEGATIVE, threshold=0.7)
