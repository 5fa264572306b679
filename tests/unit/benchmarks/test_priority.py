"""The order of a crawl: what is important comes first."""

from benchmarks.priority import measure


def test_a_crawl_comes_nearer_to_an_oracle_than_breadth_first_by_links_to_urls_too() -> None:
    figures = {figure.name: figure.value for figure in measure(quick=True, hosts=100)}
    assert figures["priority.breadth_first"] < figures["priority.oracle"]
    assert figures["priority.importance_ratio"] > 0.4
    assert figures["priority.importance_ratio"] > figures["priority.importance_ratio_without_links"]
