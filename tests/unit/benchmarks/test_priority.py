"""The order of a crawl: what is important comes first."""

from benchmarks.priority import measure


def test_the_first_fifth_of_a_crawl_holds_twice_the_importance_of_breadth_first() -> None:
    figures = {figure.name: figure for figure in measure(quick=True)}
    assert figures["priority.importance_ratio"].value >= 2
    # While few URLs wait the queues are served more evenly.
    assert figures["priority.importance_ratio_small_crawl"].value >= 1.5
