"""What a trained topic says of texts, and which files are taken for one."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.errors import ConfigurationError
from crawler.topics.model import MAX_CHARS, TopicModel, text_of

MODEL = TopicModel.of(-0.5, ["bicycle", "über", "the"], [2.0, 3.0, 1.0], [4.0, 2.0, -0.1])


def test_words_of_the_topic_raise_a_score() -> None:
    high, low = MODEL.score("The BICYCLE, über all."), MODEL.score("the the the")
    assert high is not None
    assert low is not None
    assert 0 < low < 0.5 < high < 1


@pytest.mark.parametrize("text", ["", " . ", "words that nobody knows"])
def test_a_text_without_a_known_word_has_no_score(text: str) -> None:
    assert MODEL.score(text) is None
    assert MODEL.score_link(text) is None
    assert MODEL.shares(text) == []


def test_only_the_beginning_of_a_long_text_counts() -> None:
    start = "the ".ljust(MAX_CHARS)
    assert MODEL.score(start + "bicycle") == MODEL.score("the")


@given(st.text())
def test_any_text_has_a_score_between_0_and_1_or_none(text: str) -> None:
    score = MODEL.score(f"the {text}")
    assert score is not None
    assert 0 <= score <= 1


def test_the_shares_of_words_add_up_to_the_score() -> None:
    text = "bicycle bicycle über the the other"
    shares = MODEL.shares(text)
    assert [share.word for share in shares] == ["bicycle", "über", "the"]
    link = TopicModel(0.0, MODEL.terms).score(text)
    assert link == MODEL.score_link(text)
    log_odds = sum(share.log_odds for share in shares)
    (one,) = (share for share in TopicModel.of(0, ["x"], [1], [log_odds]).shares("x"))
    assert TopicModel.of(-0.5, ["x"], [1], [one.log_odds]).score("x") == pytest.approx(
        MODEL.score(text)
    )


@pytest.mark.parametrize("weight", [1e6, -1e6])
def test_an_extreme_weight_does_not_overflow(weight: float) -> None:
    assert TopicModel.of(0, ["x"], [1], [weight]).score("x") == pytest.approx(float(weight > 0))


@pytest.mark.parametrize(
    ("blocks", "scored"),
    [
        (None, "T Menu one two"),
        # Hardly any words are left: it is a list of links.
        (["one two"], "T Menu one two"),
        (["one two " * 15, "end"], "T " + "one two " * 15 + " end"),
    ],
)
def test_the_text_of_a_page_has_its_title_and_no_menus(
    blocks: list[str] | None, scored: str
) -> None:
    page: Any = SimpleNamespace(title="T", text="Menu one two", blocks=blocks)
    assert text_of(page) == scored


# --- files ----------------------------------------------------------------------------------------


def test_a_saved_model_gives_the_same_scores(tmp_path: Path) -> None:
    path = tmp_path / "a.topic"
    path.write_text("an old one")
    MODEL.save(path)
    assert TopicModel.open(path) == MODEL
    assert [each.name for each in tmp_path.iterdir()] == ["a.topic"]


def saved(folder: Path, **changes: Any) -> Path:
    path = folder / "a.topic"
    MODEL.save(path)
    record = json.loads(path.read_text(encoding="utf-8")) | changes
    path.write_text(json.dumps({name: value for name, value in record.items() if value != "gone"}))
    return path


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"format": "other"}, "it does not say that it is one"),
        ({"version": 2}, "it has version 2, and this program reads 1"),
        ({"terms": ["a", "b"]}, "it has not as many weights as terms"),
        ({"version": "1"}, "it has version '1', and this program reads 1"),
        ({"terms": "abc"}, "its terms, their idf and their weights are not lists"),
        ({"idf": None}, "its terms, their idf and their weights are not lists"),
        ({"terms": ["a", "a", "b"]}, "it has a term twice"),
        ({"terms": ["a", 2, "b"]}, "2 is no word"),
        ({"terms": ["a", ["b"], "b"]}, "['b'] is no word"),
        ({"terms": ["a", "\ud800", "b"]}, "is no word"),
        ({"terms": [], "idf": [], "weights": []}, "it has 0 terms"),
        ({"terms": ["a", "two words", "b"]}, "'two words' is no word"),
        ({"terms": ["a", "Capital", "b"]}, "'Capital' is no word"),
        ({"terms": ["a", "a" * 201, "b"]}, "is no word"),
        ({"weights": [1, float("nan"), 1]}, "a weight of it is no number"),
        ({"weights": [1, "2", 1]}, "a weight of it is no number"),
        ({"weights": [1, 1e300, 1]}, "a weight of it is no number"),
        ({"idf": [1, 0, 1]}, "an idf is not above 0"),
        ({"bias": None}, "a weight of it is no number"),
        ({"bias": "gone"}, "it has no 'bias'"),
        ({"trained": 3}, "trained is no object"),
    ],
)
def test_a_damaged_file_is_refused_with_the_reason(
    tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    path = saved(tmp_path, **changes)
    with pytest.raises(ConfigurationError) as caught:
        TopicModel.open(path)
    assert str(caught.value).startswith(f"{path} is no topic: ")
    assert why in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"\x80\x04\x95", b"[1]", b"[" * 100_000, b"\xff"])
def test_a_file_of_something_else_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.topic"
    path.write_bytes(data)
    with pytest.raises(ConfigurationError, match="is no topic: it"):
        TopicModel.open(path)


def test_a_file_that_is_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.topics.model._MAX_BYTES", 100)
    with pytest.raises(ConfigurationError, match="more than 100 bytes"):
        TopicModel.open(saved(tmp_path))


def test_a_missing_file_says_that_each_machine_needs_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read on this machine: No such file"):
        TopicModel.open(tmp_path / "none.topic")
