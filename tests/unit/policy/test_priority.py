"""Scores and front queues."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.policy.priority import clamp, front_queue, score

THRESHOLDS = (80, 60, 40, 20)


@pytest.mark.parametrize(
    ("url", "depth", "points"),
    [
        ("http://h/", 0, 100),
        ("http://h/", 1, 100),  # the bonus of a home page
        ("http://h/", 3, 80),
        ("http://h/a", 1, 90),
        ("http://h/a/b", 1, 90),
        ("http://h/a/b/c", 1, 87),
        ("http://h/a/b/c/", 1, 87),
        ("http://h/a/b/c/d/e", 0, 91),
        ("http://h/?" + "q" * 50, 0, 100),
        ("http://h/?" + "q" * 51, 2, 80),
        ("http://h/?a/b/c/d/e/f", 1, 100),  # slashes of a query are no segments
        ("http://h/" + "x" * 200, 0, 95),
        ("http://h/a", 10, 0),
        ("http://h/a", 255, 0),
    ],
)
def test_depth_segments_and_length_cost_points(url: str, depth: int, points: int) -> None:
    assert score(url, depth) == points


@pytest.mark.parametrize(
    ("points", "queue"),
    [(100, 1), (80, 1), (79, 2), (60, 2), (59, 3), (40, 3), (39, 4), (20, 4), (19, 5), (0, 5)],
)
def test_a_score_belongs_to_the_first_queue_whose_threshold_it_meets(
    points: int, queue: int
) -> None:
    assert front_queue(points, THRESHOLDS) == queue


@given(st.integers())
def test_any_number_is_clamped_to_a_score(points: int) -> None:
    assert 0 <= clamp(points) <= 100
    assert clamp(points) == points or not 0 <= points <= 100
