"""The web of the whole-crawl benchmark, and what is made of its measurements."""

import pytest

from benchmarks.crawl.__main__ import figures
from benchmarks.crawl.contenders import ALL
from benchmarks.crawl.ground import Run
from benchmarks.crawl.pages import LINKS, Size, host_of_page, number_of, page, path_of, targets

SIZE = Size(seeds=20, hosts=10)


@pytest.mark.parametrize("number", [0, 7, 999])
def test_a_page_has_sixty_different_links_and_26_kb(number: int) -> None:
    html = page(number, SIZE, 8000)
    assert len(set(targets(number, SIZE))) == LINKS == html.count(b"<a ")
    assert 26_000 < len(html) < 27_500


def test_most_links_stay_on_the_host() -> None:
    hosts = [host_of_page(target, SIZE) for target in targets(3, SIZE)]
    assert hosts.count(host_of_page(3, SIZE)) >= 40
    assert len(set(hosts)) > 1


@pytest.mark.parametrize("number", [0, 7, 999])
def test_a_page_is_found_by_its_path(number: int) -> None:
    assert number_of(path_of(number)) == number


@pytest.mark.parametrize(
    "path", ["/", "/robots.txt", "/news/other-7.html", "/a-.html", "/x--1.html"]
)
def test_other_paths_are_no_pages(path: str) -> None:
    assert number_of(path) is None


def test_ratios_are_of_pages_a_cpu_second_and_medians() -> None:
    costs = {"scrapy": 10.0, "scrapy_redis": 20.0, "ours": 1.0, "ours_no_store": 0.5, "bare": 0.25}
    runs = {
        key: [Run(cost * factor, 0.1, 100) for factor in (5, 1, 0.9)] for key, cost in costs.items()
    }
    found = {figure.name: figure for figure in figures(runs)}
    assert found["crawl.ratio_to_scrapy"].value == pytest.approx(10)
    assert found["crawl.ratio_to_scrapy_redis"].value == pytest.approx(20)
    assert found["crawl.no_store_ratio_to_scrapy"].value == pytest.approx(20)
    assert found["crawl.share_of_bare_client"].value == pytest.approx(0.25)
    assert found["crawl.redis_ms_per_page"].value == pytest.approx(0.1)
    assert all(figure.met is not False for figure in found.values())
    assert set(costs) == {contender.key for contender in ALL}
