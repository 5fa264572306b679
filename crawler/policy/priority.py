"""Score a URL from 0 to 100 and choose its front queue. Pure."""

from __future__ import annotations

from collections.abc import Sequence

DEPTH_COST = 10
SEGMENT_COST = 3
FREE_SEGMENTS = 2
LONG_QUERY = 50
LONG_QUERY_COST = 10
LONG_URL = 120
LONG_URL_COST = 5
HOME_PAGE_BONUS = 10


def score(url: str, depth: int) -> int:
    """How much a canonical URL found at this depth deserves to be fetched soon."""
    path, _, query = url.partition("?")
    segments = path.count("/") - 2 - path.endswith("/")
    points = 100 - DEPTH_COST * depth
    if segments == 0:
        points += HOME_PAGE_BONUS
    points -= SEGMENT_COST * max(0, segments - FREE_SEGMENTS)
    if len(query) > LONG_QUERY:
        points -= LONG_QUERY_COST
    if len(url) > LONG_URL:
        points -= LONG_URL_COST
    return clamp(points)


def clamp(points: int) -> int:
    """A score within its bounds."""
    return max(0, min(100, points))


def front_queue(points: int, thresholds: Sequence[int]) -> int:
    """Queue of a score: 1 from the first threshold on, and so down to the last queue."""
    for queue, threshold in enumerate(thresholds, start=1):
        if points >= threshold:
            return queue
    return len(thresholds) + 1
