"""URLs of parents: the newest are known, and memory has an end."""

from crawler.discovery.parents import ParentUrls
from tests.support.crawlers import project_crawler


def test_a_parent_is_known_by_its_id() -> None:
    parents = ParentUrls()
    parents.remember(7, "http://h.test/")
    assert parents.url_of(7) == "http://h.test/"
    assert parents.url_of(8) is None


def test_a_seed_has_no_parent() -> None:
    parents = ParentUrls()
    parents.remember(0, "http://h.test/")
    assert parents.url_of(0) is None


def test_the_newest_are_kept() -> None:
    parents = ParentUrls(max_bytes=100_000)
    for number in range(1, 1000):
        parents.remember(number, f"http://h.test/{number}")
        parents.remember(1, "http://h.test/1")
    assert [bool(parents.url_of(number)) for number in (1, 2, 300, 800, 999)] == [
        *(True, False, False, True, True)
    ]


def test_a_url_that_would_take_much_memory_is_not_kept() -> None:
    parents = ParentUrls()
    parents.remember(1, "http://h.test/" + "x" * 500)
    assert parents.url_of(1) is None


def test_the_components_of_a_crawl_share_them() -> None:
    crawler = project_crawler()
    assert ParentUrls.of(crawler) is ParentUrls.of(crawler)
    assert ParentUrls.of(project_crawler()) is not ParentUrls.of(crawler)
