"""Scores and front queues."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.discovery.priority import Facts, HostFacts, Scorer, clamp, front_queue, score
from crawler.urls import canonical

THRESHOLDS = (100, 80, 60, 40)


@pytest.mark.parametrize(
    ("url", "depth", "points"),
    [
        ("http://h/", 0, 100),
        ("http://h/", 2, 100),  # the bonus of a home page
        ("http://h/", 3, 85),
        ("http://h/a", 1, 85),
        ("http://h/a/", 1, 85),
        ("http://h/a/b", 1, 45),
        ("http://h/a/b/", 1, 45),
        ("http://h/a/b/c/d/e", 1, 45),
        ("http://h/?a", 1, 55),
        ("http://h/?a/b/c/d/e/f", 1, 55),  # slashes of a query are no segments
        ("http://h/a?" + "q" * 50, 0, 70),
        ("http://h/a?" + "q" * 51, 0, 60),
        ("http://h/" + "x" * 200, 0, 95),
        ("http://h/a.pdf", 1, 65),
        ("http://h/a.PDF?x=1", 1, 35),
        ("http://h/a.pdf/b", 1, 45),
        ("http://h/pdf", 1, 85),
        ("http://h/news", 1, 90),
        ("http://h/blog/a", 1, 50),
        ("http://h/a/news", 1, 45),
        ("http://h/a", 7, 0),
        ("http://h/a", 255, 0),
    ],
)
def test_depth_segments_and_length_cost_points(url: str, depth: int, points: int) -> None:
    assert score(url, depth) == points


@pytest.mark.parametrize(
    ("points", "queue"),
    [(100, 1), (99, 2), (80, 2), (79, 3), (60, 3), (59, 4), (40, 4), (39, 5), (0, 5)],
)
def test_a_score_belongs_to_the_first_queue_whose_threshold_it_meets(
    points: int, queue: int
) -> None:
    assert front_queue(points, THRESHOLDS) == queue


@given(st.integers())
def test_any_number_is_clamped_to_a_score(points: int) -> None:
    assert 0 <= clamp(points) <= 100
    assert clamp(points) == points or not 0 <= points <= 100


URL = "http://www.h.test/a"


@pytest.mark.parametrize(
    ("host", "points"),
    [
        (HostFacts(), 0),
        (HostFacts(urls=9), 5),
        (HostFacts(urls=10), 0),
        (HostFacts(inbound=9), 0),
        (HostFacts(inbound=10), 15),
        (HostFacts(inbound=99), 15),
        (HostFacts(inbound=100), 30),
        (HostFacts(inbound=1000), 45),
        (HostFacts(inbound=10**6), 45),
        (HostFacts(urls=0, inbound=10), 20),
        (HostFacts(urls=99), 0),
        (HostFacts(urls=100), -30),
        (HostFacts(urls=1000, inbound=1000), -15),
    ],
)
def test_new_hosts_and_those_that_others_link_to_have_more(host: HostFacts, points: int) -> None:
    assert Scorer().host_points("www.h.test", host) == points


def test_trusted_domains_have_more_with_all_below_them() -> None:
    scorer = Scorer(trusted={"h.test": 0})
    assert scorer.host_points("h.test:8080") == 10
    assert scorer.host_points("www.h.test") == 10
    assert scorer.host_points("xh.test") == 0


@pytest.mark.parametrize(
    ("rank", "points"), [(1, 21), (10, 18), (999, 15), (100_000, 6), (1_000_000, 3), (10**8, 0)]
)
def test_the_better_the_rank_of_a_trusted_domain_the_more_points(rank: int, points: int) -> None:
    assert Scorer(trusted={"h.test": rank}).host_points("www.h.test") == points


@pytest.mark.parametrize(
    ("facts", "points"),
    [
        (Facts(page_rank=1.0), 0),
        (Facts(page_rank=100.0), 10),
        (Facts(page_rank=1e9), 15),
        (Facts(page_rank=0.01), -10),
        (Facts(page_rank=1e-9), -15),
        (Facts(), 0),
        (Facts(fresh=True), 5),
        (Facts(sitemap_priority=1.0), 5),
        (Facts(sitemap_priority=0.0), -5),
        (Facts(unchanged=True), -10),
        (Facts(fresh=True, sitemap_priority=0.8, unchanged=True), -2),
        (Facts(on_home_page=True), 30),
        (Facts(links=1), 25),
        (Facts(links=2), 50),
        (Facts(links=7), 50),
        (Facts(links=8), 75),
        (Facts(links=10**6), 75),
    ],
)
def test_what_others_say_of_a_url_counts(facts: Facts, points: int) -> None:
    assert Scorer().score(URL, 5, facts=facts) == 25 + points


def test_weights_can_be_changed_one_by_one() -> None:
    scorer = Scorer({"depth": -1, "home_page": 0})
    assert scorer.score("http://h/", 5) == 95
    assert scorer.score("http://h/a/b/c", 0) == 60


def test_a_weight_that_there_is_not_is_named() -> None:
    with pytest.raises(ValueError, match="no weight 'dept'; it has depth, "):
        Scorer({"dept": -1})


@given(
    st.from_regex(r"[a-zA-Z0-9./?&=-]{0,150}", fullmatch=True),
    st.integers(0, 12),
    st.builds(HostFacts, st.integers(0, 2000), st.integers(0, 2000)),
    st.integers(0, 10**7),
    st.builds(
        Facts,
        fresh=st.booleans(),
        page_rank=st.just(0.0) | st.floats(0.001, 1e6),
        links=st.integers(0, 300),
        on_home_page=st.booleans(),
    ),
)
def test_a_score_is_the_sum_of_what_explains_it(
    path: str, depth: int, host: HostFacts, rank: int, facts: Facts
) -> None:
    url = canonical(f"http://www.h.test/{path}")
    assert isinstance(url, str)
    scorer = Scorer(trusted={"h.test": rank})
    reasons = scorer.explain(url, depth, host, facts)
    points = scorer.host_points("www.h.test", host)
    assert scorer.score(url, depth, points, facts) == clamp(sum(part for _, part in reasons))
    assert all(part for _, part in reasons)
