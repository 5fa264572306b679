"""The form in which benchmarks report."""

import json

import pytest

from benchmarks.figures import Figure, Target, at_least, at_most, number, table

ADD = Figure(
    "frontier.add_per_s",
    151_234.56,
    "1/s",
    peer="scrapy-redis",
    ratio=61.23456,
    target=at_least(120_000),
    ratio_target=at_least(50),
)


def test_a_line_has_the_documented_keys():
    assert json.loads(ADD.to_json()) == {
        "name": "frontier.add_per_s",
        "value": 151_200,
        "unit": "1/s",
        "peer": "scrapy-redis",
        "ratio": 61.23,
        "target": ">= 120,000",
        "ratio_target": ">= 50",
        "met": True,
    }


def test_what_there_is_none_of_is_left_out():
    assert set(json.loads(Figure("a.b", 1.0, "ms").to_json())) == {"name", "value", "unit"}


def test_a_line_is_read_back():
    found = Figure.from_json(ADD.to_json())
    assert found.name == ADD.name
    assert found.target == ADD.target
    assert found.ratio_target == ADD.ratio_target
    assert found.met is True


@pytest.mark.parametrize("line", ["{}", "[]", "nonsense", '{"name": "a", "target": "about 5"}'])
def test_a_line_that_is_no_figure_is_refused(line: str):
    with pytest.raises(ValueError, match=r"figure|target|Expecting"):
        Figure.from_json(line)


@pytest.mark.parametrize(
    ("target", "value", "met"),
    [
        (at_least(5), 5, True),
        (at_least(5), 4.99, False),
        (at_most(0), 0, True),
        (at_most(0.15), 0.2, False),
    ],
)
def test_a_target_is_met_at_its_bound(target: Target, value: float, met: bool):
    assert Figure("a.b", value, "").met is None
    assert Figure("a.b", value, "", target=target).met is met


def test_one_missed_target_of_two_is_a_miss():
    missed = Figure("a.b", 10, "", "peer", 2.0, target=at_least(5), ratio_target=at_least(50))
    assert missed.met is False


def test_the_table_names_misses_and_the_machine():
    missed = Figure("a.slow", 3, "ms", target=at_most(1))
    text = table([ADD, missed], "a machine")
    heads, _, first, second, *_ = text.splitlines()
    assert heads.split() == ["figure", "value", "unit", "target", "peer", "ratio"]
    assert "151,235" in first
    assert "missed" not in first
    assert second.endswith("missed")
    assert text.endswith("a machine")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.1234, "0.123"),
        (4.5, "4.5"),
        (12.345, "12.3"),
        (1234.5, "1,234"),
        (5e6, "5,000,000"),
    ],
)
def test_a_number_has_the_digits_it_deserves(value: float, text: str):
    assert number(value) == text
