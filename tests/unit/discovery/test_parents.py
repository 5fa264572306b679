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
    parents = ParentUrls(size=2)
    for number in (1, 2, 1, 3):
        parents.remember(number, f"http://h.test/{number}")
    known = {number for number in range(5) if parents.url_of(number)}
    assert known == {1, 3}


def test_a_url_that_would_take_much_memory_is_not_kept() -> None:
    parents = ParentUrls()
    parents.remember(1, "http://h.test/" + "x" * 500)
    assert parents.url_of(1) is None


def test_the_components_of_a_crawl_share_them() -> None:
    crawler = project_crawler()
    assert ParentUrls.of(crawler) is ParentUrls.of(crawler)
    assert ParentUrls.of(project_crawler()) is not ParentUrls.of(crawler)
