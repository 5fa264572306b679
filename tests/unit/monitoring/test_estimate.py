"""When a crawl ends, as far as its last minutes tell."""

from typing import Any

import pytest

from crawler.frontier import HostState, Sizes
from crawler.monitoring.estimate import Estimate, estimate
from crawler.monitoring.ledger import Minute


def sizes(**counts: int) -> Sizes:
    names = [name for name in Sizes.__dataclass_fields__ if name != "front"]
    return Sizes((counts.pop("front", 0), 0, 0, 0, 0, 0, 0), **{n: counts.get(n, 0) for n in names})


def minutes(*figures: dict[str, int]) -> list[Minute]:
    """The last of them is the one that runs."""
    return [Minute(60 * at, found) for at, found in enumerate((*figures, {}))]


def ended(found: Sizes, *figures: dict[str, int], **more: Any) -> Estimate:
    return estimate(found, minutes(*figures), **{"max_pages": 0, "processes": 1, **more})


def test_a_crawl_that_shrinks_ends_at_its_pace() -> None:
    busy = {"pages": 40, "failed/timeout": 10, "redirects/301": 5, "robots/denied": 5}
    found = ended(sizes(front=900, leased=60, retries=40), *[{**busy, "links/new": 10}] * 4)
    # 50 URLs less each minute.
    assert found.ends_in_s == 1000 / 50 * 60
    assert found.why == "200 URLs less in 4 min; 1,000 are left."


def test_a_limit_of_pages_ends_it_earlier() -> None:
    growing = [{"pages": 60, "links/new": 600}] * 5
    found = ended(sizes(front=50_000, pages=400), *growing, max_pages=1000)
    assert found == Estimate(600.0, "max_pages = 1,000 is reached then.")
    shrinking = [{"pages": 60}] * 5
    assert ended(sizes(front=60, pages=400), *shrinking, max_pages=1000).ends_in_s == 60


def test_the_delay_of_a_host_may_take_longer_than_the_rest() -> None:
    values = {"clock_ms": 70_000, "delay_ms": 60_000, "waiting": 11, "in_flight": 0, "pages": 1}
    rest = {"blocked_until_ms": 0, "excluded": False, "queue": 0, "budget": None}
    host = HostState("slow.test", **values, **rest, parallelism=None, now_ms=10_000)
    found = ended(sizes(front=60), {"pages": 60}, {"pages": 60}, last=host)
    assert found == Estimate(660.0, "slow.test: 11 URLs with a delay of 60 s.")


def test_minutes_before_the_start_do_not_count() -> None:
    found = ended(sizes(front=60), {}, {}, {}, {"pages": 60}, {"pages": 60})
    assert found.ends_in_s == 60


@pytest.mark.parametrize(
    ("found", "figures", "more", "why"),
    [
        (sizes(), [{"pages": 5}] * 3, {}, "Nothing is left to crawl."),
        (sizes(recrawls=7), [], {}, "Nothing is left to crawl. 7 pages wait for their recrawl."),
        (sizes(front=1, paused=1), [{"pages": 5}] * 3, {}, "The crawl is paused."),
        (sizes(front=1), [{"pages": 5}] * 3, {"processes": 0}, "No process works on it."),
        (sizes(front=1), [{"pages": 5}], {}, "It is known after 2 minutes."),
        (sizes(front=1), [], {}, "It is known after 2 minutes."),
        (
            sizes(front=9),
            [{"pages": 5, "links/new": 50}] * 2,
            {},
            "100 new URLs for 10 visits: it still grows.",
        ),
        (
            sizes(front=10**9),
            [{"pages": 5}] * 2,
            {},
            "At this pace it takes more than a year.",
        ),
    ],
)
def test_where_it_cannot_be_told_it_says_why(
    found: Sizes, figures: list[dict[str, int]], more: Any, why: str
) -> None:
    assert ended(found, *figures, **more) == Estimate(None, why)
