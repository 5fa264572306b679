"""The truth is closed, consistent, and large enough for the demonstration."""

from collections import Counter

import pytest

from demo.closure import split_url
from demo.node import Behaviour
from demo.robots_kinds import ALLOW_ALL
from demo.truth import Truth, final_status, truth
from demo.web import Web, WebOptions

DEMO = WebOptions()
FULL = WebOptions(pages=10, zoo="full")


@pytest.fixture(scope="module")
def demo() -> Truth:
    return truth(DEMO)


@pytest.fixture(scope="module")
def full() -> Truth:
    return truth(FULL)


def test_the_demonstration_is_large_and_quick_to_crawl(demo: Truth) -> None:
    per_host = Counter(split_url(url)[0] for url in demo.must_fetch)
    assert len(per_host) >= 60
    assert len(demo.must_fetch) >= 2000
    assert max(per_host.values()) <= 150
    for host, delay_s in demo.crawl_delays_s.items():
        assert per_host[host] * delay_s <= 15


def test_nothing_in_the_demonstration_is_endless_or_lasting(demo: Truth) -> None:
    assert not demo.may_prefixes
    assert all(status in {200, 301, 302, 307, 308, 404, 410} for status in demo.statuses.values())
    assert max(demo.extra_fetches.values()) <= 2
    assert max(demo.crawl_delays_s.values()) <= 0.5


@pytest.mark.parametrize("options", [DEMO, FULL, WebOptions(7, 5, 9, "demo")])
def test_the_sets_do_not_overlap(options: WebOptions) -> None:
    known = truth(options)
    assert not known.must_fetch & known.must_not_fetch
    assert not known.must_fetch & known.may_fetch
    assert not known.must_not_fetch & known.may_fetch
    assert known.must_store <= known.must_fetch
    assert set(Web(options).seeds) <= known.must_fetch
    assert known.statuses.keys() == known.must_fetch


def test_followed_links_of_fetched_pages_are_in_one_of_the_sets(full: Truth) -> None:
    web = Web(FULL)
    for url in full.must_fetch:
        node = web.find(*split_url(url))
        assert node is not None
        for link in web.links(node):
            sets = full.must_fetch | full.must_not_fetch
            assert link.url in sets or full.may(link.url), link.url


def test_every_page_of_every_open_host_is_fetched(demo: Truth) -> None:
    web = Web(DEMO)
    for number in range(DEMO.hosts):
        profile = web.profile(number)
        if profile.robots.decide("/", "crawler") == "allow":
            pages = {web.page_url(number, index) for index in range(profile.size)}
            assert pages <= demo.must_fetch


def test_without_a_zoo_exactly_all_pages_are_fetched() -> None:
    options = WebOptions(hosts=30, pages=8, seed=5, zoo="none")
    web = Web(options)
    pages = {
        web.page_url(number, index)
        for number in range(30)
        for index in range(web.profile(number).size)
    }
    known = truth(options)
    assert known.must_fetch == pages == known.must_store
    assert not known.must_not_fetch


def test_denied_probes_are_forbidden_and_allowed_ones_are_not(demo: Truth) -> None:
    assert {"/private/a", "/tmpfile"} <= {split_url(url)[1] for url in demo.must_not_fetch}
    web = Web(DEMO)
    for profile in web.hosts_with("longest_match"):
        assert f"http://{profile.host}/shop/cart" in demo.must_not_fetch
        assert f"http://{profile.host}/shop/open/1" in demo.must_fetch


def test_another_agent_has_another_truth(demo: Truth) -> None:
    other = truth(DEMO, user_agent="otherbot")
    for profile in Web(DEMO).hosts_with("agent_groups"):
        assert f"http://{profile.host}/" in demo.must_fetch
        assert f"http://{profile.host}/" in other.must_not_fetch
        assert profile.host not in other.crawl_delays_s


def test_nofollow_is_obeyed_unless_told_otherwise(demo: Truth) -> None:
    follows = truth(DEMO, follow_nofollow=True)
    web = Web(DEMO)
    nofollow = next(web.hosts_with("nofollow_links")).host
    meta = next(web.hosts_with("meta_robots")).host
    for url in (f"http://{nofollow}/sponsored/1", f"http://{meta}/beyond/none"):
        assert url in demo.must_not_fetch
        assert url in follows.must_fetch
    assert f"http://{nofollow}/sponsored/both" in demo.must_fetch
    assert f"http://{meta}/beyond/noindex" in demo.must_fetch


def test_noindex_pages_are_fetched_but_not_stored(demo: Truth) -> None:
    url = f"http://{next(Web(DEMO).hosts_with('meta_robots')).host}/meta/noindex"
    assert url in demo.must_fetch - demo.must_store


def test_sitemaps_matter_only_to_those_who_read_them(demo: Truth) -> None:
    url = f"http://{next(Web(DEMO).hosts_with('sitemaps')).host}/only-in-map/a"
    assert url in demo.may_fetch
    assert url in truth(DEMO, read_sitemaps=True).must_fetch


def test_redirect_targets_and_missing_pages_are_fetched(demo: Truth) -> None:
    web = Web(DEMO)
    chain = next(web.hosts_with("redirect_chains")).host
    assert demo.statuses[f"http://{chain}/chain/end"] == 200
    assert demo.statuses[f"http://{next(web.hosts_with('gone')).host}/lost/410"] == 410


def test_depth_limits_the_closure(demo: Truth) -> None:
    sizes = [len(truth(DEMO, max_depth=depth).must_fetch) for depth in range(4)]
    assert sizes[0] == 1
    assert sizes == sorted(sizes)
    assert len(demo.must_fetch) > sizes[1] > 1


def test_duplicates_link_to_the_same_urls(full: Truth) -> None:
    web = Web(FULL)
    groups = full.exact_groups + full.near_groups
    assert any(len({split_url(url)[0] for url in group}) > 1 for group in groups)
    for group in groups:
        links = set()
        for url in group:
            node = web.find(*split_url(url))
            assert node is not None
            links.add(tuple(web.links(node)))
        assert len(links) == 1


def test_one_stored_member_completes_a_group(demo: Truth) -> None:
    group = demo.exact_groups[0]
    kept = min(group)
    assert demo.missing_from(demo.must_store - group) == group
    assert not demo.missing_from((demo.must_store - group) | {kept})


def test_traps_may_be_fetched_but_need_not(full: Truth) -> None:
    host = next(Web(FULL).hosts_with("calendar")).host
    assert full.may(f"http://{host}/calendar/2031/07")
    assert f"http://{host}/calendar/2024/01" not in full.must_fetch


def test_hosts_that_carry_the_tree_are_open() -> None:
    web = Web(WebOptions(hosts=1000, zoo="full"))
    assert all(web.profile(number).robots is ALLOW_ALL for number in range(0, 1000, 4))


def test_final_statuses_follow_the_behaviour() -> None:
    web = Web(FULL)
    nodes = [node for number in range(64) for node in web.extras(number).values()]
    for node in nodes:
        if node.behaviour is Behaviour.TIMEOUT:
            assert final_status(node) == (200 if node.recovers else 0)
