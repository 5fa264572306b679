"""The arithmetic of the benchmark of focused crawls."""

from benchmarks.topic import harvest
from demo.topical import ON, TopicalWeb


def test_the_harvest_is_the_share_on_topic_of_the_first_pages() -> None:
    web = TopicalWeb(10, articles=4)
    on = [number for number, page in enumerate(web.pages) if page.topic == ON]
    off = [number for number, page in enumerate(web.pages) if page.topic != ON]
    assert harvest(web, [on[0], off[0], off[1], on[1]], 2) == 0.5
    assert harvest(web, [on[0], on[1], off[0], off[1]], 2) == 1.0
