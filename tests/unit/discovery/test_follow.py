"""Discovered URLs on their way to the frontier, from pages and from sitemaps."""

import time
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response

from crawler.discovery.follow import LinkFollower, past_s
from crawler.discovery.page_ranks import write_page_ranks
from crawler.discovery.parents import ParentUrls
from crawler.discovery.priority import Facts
from crawler.errors import ConfigurationError
from crawler.frontier import Entry, Kind
from crawler.frontier.entry import DOCUMENTS, MEDIA
from crawler.frontier.outbox import SeenCache, UrlAdder
from crawler.scheduler import link_follower
from crawler.scheduling.options import CrawlOptions, OptionsWatcher
from crawler.scheduling.request_codec import to_entry, to_request
from crawler.spiders.web import WebSpider
from crawler.topics.model import TopicModel
from crawler.urls import UrlRules, Urls, fingerprint
from crawler.util.request_meta import LEASE
from tests.support.schedulers import WritingScheduler, crawler_with, lease_of

SITE = "http://www.h.test/"
DAY_S = 86_400
MAP = b"""<urlset><url><loc>/a</loc><priority>0.0</priority></url><url><loc>/b.zip</loc></url>
<url><loc>http://o.test/c</loc></url><url><loc>/x/x/x</loc></url></urlset>"""
INDEX = b"""<sitemapindex><sitemap><loc>/1.xml.gz</loc></sitemap>
<sitemap><loc>http://maps.h.test/2.xml</loc></sitemap>
<sitemap><loc>http://o.test/3.xml</loc></sitemap></sitemapindex>"""


@pytest.fixture
def scheduler() -> WritingScheduler:
    return WritingScheduler()


def follower(scheduler: WritingScheduler, **settings: Any) -> LinkFollower:
    return link_follower(crawler_with(scheduler, **settings))


async def follow(found: LinkFollower, *urls: str, depth: int = 1, **more: Any) -> None:
    await found.follow(urls, page_url=SITE, depth=depth, parent=7, parent_url=SITE, **more)


async def test_trapped_links_are_counted_by_reason(scheduler: WritingScheduler) -> None:
    crawler = crawler_with(scheduler, TRAP_TEMPLATE_MAX=2)
    found = link_follower(crawler)
    await follow(found, SITE + "a/a/a", *[f"{SITE}?id={number}" for number in range(5)])
    assert len(scheduler.added) == 2
    stats = crawler.stats.get_stats()
    assert stats["links/refused/trap_repeated"] == 1
    assert stats["links/refused/trap_template"] == 3


async def test_files_wait_in_the_queues_of_their_types(scheduler: WritingScheduler) -> None:
    scheduler.options_watcher = OptionsWatcher(frozenset())
    names = "a.PDF?b", "a.doc", "a.png", "a.zip", "a.html", "a?b=c.pdf"
    await follow(follower(scheduler), *(SITE + name for name in names))
    assert [entry.queue for entry in scheduler.added] == [DOCUMENTS, DOCUMENTS, MEDIA, MEDIA, 1, 2]


async def test_files_over_their_budgets_are_counted(scheduler: WritingScheduler) -> None:
    scheduler.answer = "3"
    scheduler.options_watcher = OptionsWatcher(frozenset())
    crawler = crawler_with(scheduler)
    await follow(link_follower(crawler), SITE + "a.pdf", SITE + "b.epub", SITE + "a.png")
    stats = crawler.stats.get_stats()
    assert stats["links/refused/budget_document"] == 2
    assert stats["links/refused/budget_medium"] == 1


@pytest.mark.parametrize(
    ("days", "back_s"),
    [(-3, 3 * DAY_S), (-0.1, 0.1 * DAY_S), (0.2, 0.5 * DAY_S), (0.7, None)],
    ids=["days ago", "today", "at the end of today", "tomorrow"],
)
def test_a_time_in_the_future_is_that_of_a_day(days: float, back_s: float | None) -> None:
    noon_s = 20_000.5 * DAY_S
    found = past_s(noon_s + days * DAY_S, noon_s)
    assert found == (None if back_s is None else noon_s - back_s)


class WishingFrontier:
    """A frontier that only writes down what is to be brought forward."""

    def __init__(self) -> None:
        self.wanted: list[tuple[int, str, int]] = []

    async def bring_forward(self, wanted: list[tuple[int, str, int]]) -> int:
        self.wanted += wanted
        return len(wanted)


async def test_pages_of_a_site_are_brought_forward_if_their_changes_are_news(
    scheduler: WritingScheduler,
) -> None:
    frontier = WishingFrontier()
    scheduler.frontier = frontier  # type: ignore[assignment]
    found, now_s = follower(scheduler), time.time()
    changed = {
        SITE + "new": now_s - 60,
        SITE + "old": now_s - 9 * DAY_S,
        "http://o.test/of-another-site": now_s - 60,
    }
    read_s = now_s - 7 * DAY_S
    await found.bring_forward(changed, site=SITE + "map.xml", since_s=read_s)
    # Nothing is visited again.
    assert not frontier.wanted
    scheduler.recrawls.use("adaptive")
    await found.bring_forward(changed, site=SITE + "map.xml", since_s=read_s)
    assert frontier.wanted == [(fingerprint(SITE + "new"), "www.h.test", int(now_s - 60))]


async def test_entries_follow_the_rules_for_urls(scheduler: WritingScheduler) -> None:
    scheduler.urls = Urls(UrlRules(fold=frozenset({"www"}), group_by="domain"))
    await follow(follower(scheduler), SITE + "a")
    (entry,) = scheduler.added
    assert entry.host == "h.test"
    assert entry.id == scheduler.urls.fingerprint("http://h.test/a")


async def test_only_pages_with_new_links_are_remembered_as_parents(
    scheduler: WritingScheduler,
) -> None:
    crawler = crawler_with(scheduler)
    found, parents = link_follower(crawler), ParentUrls.of(crawler)
    await follow(found, "http://o.test/outside")
    assert parents.url_of(7) is None
    await follow(found, SITE + "a")
    assert parents.url_of(7) == SITE


async def test_a_sitemap_is_the_parent_of_its_urls(scheduler: WritingScheduler) -> None:
    spider = await parsed(scheduler, MAP)
    (entry,) = scheduler.added
    assert ParentUrls.of(spider.crawler).url_of(entry.parent) == SITE + "sitemap.xml"


async def test_new_urls_have_the_time_of_their_page(scheduler: WritingScheduler) -> None:
    since_s = int(time.time())
    await parsed(scheduler, MAP)
    await parsed(scheduler, INDEX)
    assert {entry.kind for entry in scheduler.added} == {*Kind}
    for entry in scheduler.added:
        assert since_s <= entry.discovered_s <= time.time()


async def test_hosts_that_many_link_to_come_sooner(scheduler: WritingScheduler) -> None:
    scheduler.options_watcher = OptionsWatcher()
    scheduler.options_watcher.scope = CrawlOptions(scope="any").url_filter()
    found = follower(scheduler)
    for number in range(30):
        await follow(found, f"http://o.test/{number}", depth=5)
    queues = [entry.queue for entry in scheduler.added]
    assert (queues[5], queues[-1]) == (4, 3)


async def test_urls_that_many_domains_link_to_come_sooner(scheduler: WritingScheduler) -> None:
    scheduler.options_watcher = OptionsWatcher()
    scheduler.options_watcher.scope = CrawlOptions(scope="any").url_filter()
    found, url = follower(scheduler), "http://o.test/a/b"
    assert found.links is not None
    for domain in ("b.test", "c.test", "b.test"):
        scheduler.added.clear()
        page = f"http://{domain}/page"
        await found.follow([url], page_url=page, depth=4, parent=7, parent_url=page)
    # 100 - 60 for its depth, - 40 for its path, + 5 for its new host, + 50 for two domains.
    assert scheduler.added[0].queue == 4
    [linked] = found.links.take_unsent(9).values()
    assert (linked.number, linked.group) == (2, "o.test")
    assert found.queue_of_linked(linked, 8) == 2
    assert found.queue_of_linked(linked, 7) is None
    without = follower(scheduler, INBOUND_SKETCH_BYTES=0)
    await without.follow([url], page_url=page, depth=4, parent=7, parent_url=page)
    assert (scheduler.added[-1].queue, without.links) == (5, None)


async def test_links_of_a_home_page_come_sooner_at_recrawls_too(
    scheduler: WritingScheduler,
) -> None:
    found, page = follower(scheduler), SITE + "page"
    for of in (SITE, page):
        parent = fingerprint(of)
        await found.follow([SITE + "a"], page_url=of, depth=3, parent=parent, parent_url=of)
    on_home, other = scheduler.added
    assert (on_home.queue, other.queue) == (2, 3)
    assert found.queue_of(on_home, unchanged=False) == 2
    assert found.queue_of(other, unchanged=False) == 4


async def test_what_a_sitemap_says_counts(scheduler: WritingScheduler) -> None:
    found, sitemap = follower(scheduler), SITE + "sitemap.xml"
    facts = {SITE + "?b": Facts(), SITE + "?c": Facts(sitemap_priority=0.0)}
    await found.follow([*facts], page_url=SITE, depth=1, parent=7, parent_url=sitemap, facts=facts)
    # No links of the home page.
    assert [entry.queue for entry in scheduler.added] == [3, 4]


def response_of(body: bytes, *, level: int = 0, status: int = 200) -> tuple[Response, Any]:
    entry = Entry(id=5, url=SITE + "sitemap.xml", depth=1)
    lease = lease_of(entry.url)
    request = Request(entry.url, meta={LEASE: lease})
    return Response(entry.url, body=body, status=status, request=request), {
        "site": SITE,
        "level": level,
    }


async def parsed(scheduler: WritingScheduler, body: bytes, **more: Any) -> WebSpider:
    crawler = crawler_with(scheduler)
    spider = WebSpider.from_crawler(crawler)
    response, arguments = response_of(body, **more)
    assert [page async for page in spider.parse_sitemap(response, **arguments)] == []
    return spider


@pytest.mark.parametrize(
    ("given", "answer", "told"),
    [
        ("sitemap.xml", (404, b""), "sitemap.xml is not there (status 404)"),
        ("sitemap.xml", (200, b"<html>no map</html>"), "sitemap.xml has no URLs in it"),
        ("sitemap.xml", (200, MAP), ""),
        ("sitemap.xml", (304, b""), ""),
        ("other.xml", (404, b""), ""),
    ],
)
async def test_a_sitemap_that_the_user_named_is_missed(
    scheduler: WritingScheduler,
    caplog: pytest.LogCaptureFixture,
    given: str,
    answer: tuple[int, bytes],
    told: str,
) -> None:
    spider = WebSpider.from_crawler(crawler_with(scheduler), sitemaps=SITE + given)
    response, _ = response_of(answer[1], status=answer[0])
    site = SITE + "sitemap.xml"
    assert [page async for page in spider.parse_sitemap(response, site=site, level=0)] == []
    assert caplog.messages == ([f"sitemaps: {SITE}{told}"] if told else [])


async def test_the_urls_of_a_sitemap_are_judged_like_links(scheduler: WritingScheduler) -> None:
    spider = await parsed(scheduler, MAP)
    assert [(entry.url, entry.depth) for entry in scheduler.added] == [(SITE + "a", 1)]
    stats = spider.crawler.stats.get_stats()
    assert (stats["sitemaps/read"], stats["sitemaps/urls"]) == (1, 4)
    assert stats["links/refused/trap_repeated"] == 1


async def test_in_a_focused_crawl_the_urls_of_a_sitemap_are_scored_by_their_words(
    scheduler: WritingScheduler, tmp_path: Path
) -> None:
    topic = tmp_path / "cycling.topic"
    TopicModel.of(0.0, ["bicycle", "stock"], [1, 1], [9.0, -9.0]).save(topic)
    spider = WebSpider.from_crawler(crawler_with(scheduler), topic=str(topic))
    body = "".join(f"<url><loc>/{path}</loc></url>" for path in ("a", "bicycle", "stock"))
    response, arguments = response_of(f"<urlset>{body}</urlset>".encode())
    assert [page async for page in spider.parse_sitemap(response, **arguments)] == []
    # 90 points, less 40, and 20 more or less.
    assert [entry.queue for entry in scheduler.added] == [3, 2, 4]


async def test_an_index_leads_to_the_sitemaps_of_its_site(scheduler: WritingScheduler) -> None:
    await parsed(scheduler, INDEX)
    assert [entry.url for entry in scheduler.added] == [
        SITE + "1.xml.gz",
        "http://maps.h.test/2.xml",
    ]
    for entry in scheduler.added:
        assert entry.tail["callback"] == "parse_sitemap"
        assert entry.tail["cb_kwargs"] == {"site": SITE, "level": 1}
        assert entry.tail["meta"]["download_any_type"]


async def test_indexes_of_indexes_have_an_end(scheduler: WritingScheduler) -> None:
    await parsed(scheduler, INDEX, level=2)
    assert scheduler.added == []


async def test_a_missing_sitemap_is_counted(scheduler: WritingScheduler) -> None:
    spider = await parsed(scheduler, b"<urlset><url><loc>/a</loc></url>", status=404)
    assert scheduler.added == []
    assert spider.crawler.stats.get_value("sitemaps/missing") == 1


async def test_a_large_sitemap_is_read_in_a_thread(scheduler: WritingScheduler) -> None:
    body = "".join(f"<url><loc>/page-{number}</loc></url>" for number in range(2500))
    await parsed(scheduler, f"<urlset>{body}</urlset>".encode())
    assert len(scheduler.added) == 2500


class RobotParser:
    sitemaps: tuple[str, ...] = (SITE + "sitemap.xml", "nonsense", "http://o.test/s.xml")


@pytest.mark.parametrize(("follows", "count"), [(True, 1), (False, 0)])
async def test_robots_txt_leads_to_sitemaps(
    scheduler: WritingScheduler, follows: bool, count: int
) -> None:
    scheduler.options_watcher.options = CrawlOptions(follow=follows)
    spider = WebSpider.from_crawler(crawler_with(scheduler))
    await spider.robots_parsed(RobotParser(), Request(SITE + "page?x=1"))
    assert [entry.url for entry in scheduler.added] == [SITE + "sitemap.xml"][:count]


async def test_sitemaps_may_be_given(scheduler: WritingScheduler) -> None:
    spider = WebSpider.from_crawler(crawler_with(scheduler), sitemaps="http://o.test/s.xml")
    assert [request async for request in spider.start()] == []
    (entry,) = scheduler.added
    assert (entry.url, entry.depth) == ("http://o.test/s.xml", 0)
    assert entry.tail["cb_kwargs"] == {"site": "http://o.test/s.xml", "level": 0}


async def test_a_given_sitemap_is_spelled_as_the_crawl_spells_urls(
    scheduler: WritingScheduler,
) -> None:
    given = "http://o.test/?b=1&a=1 http://o.test/?b=1&a=1#part"
    settings = {"URL_SORT_QUERY": False}
    spider = WebSpider.from_crawler(crawler_with(scheduler, **settings), sitemaps=given)
    assert list(spider.sitemaps) == ["http://o.test/?b=1&a=1"]


async def test_a_given_sitemap_that_is_known_is_told(
    scheduler: WritingScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler.answer = "0"
    spider = WebSpider.from_crawler(crawler_with(scheduler), sitemaps="http://o.test/s.xml")
    assert [request async for request in spider.start()] == []
    (line,) = caplog.messages
    assert line.startswith("sitemaps: http://o.test/s.xml is known to the crawl 'crawl' and not")
    assert spider.crawler.stats.get_value("sitemaps/added") is None


async def test_a_sitemap_is_no_page_to_the_frontier(
    scheduler: WritingScheduler,
) -> None:
    url = SITE + "sitemap.xml"
    crawler = crawler_with(scheduler)
    spider = WebSpider.from_crawler(crawler)
    await link_follower(crawler).add_sitemaps([url], site=SITE, level=0)
    (entry,) = scheduler.added
    page = to_entry(Request(url), spider, scheduler.thresholds, now_s=0)
    assert isinstance(page, Entry)
    assert page.id == fingerprint(url) != entry.id
    assert entry.kind is Kind.SITEMAP
    again = to_entry(
        to_request(entry, spider), spider, scheduler.thresholds, kind=entry.kind, now_s=0
    )
    assert isinstance(again, Entry)
    assert again.id == entry.id


WRITTEN = b"""<sitemapindex><sitemap><loc>/1.xml?b&amp;a</loc></sitemap>
<sitemap><loc>/1.xml?a&amp;b</loc></sitemap></sitemapindex>"""
PAGES = b"""<urlset><url><loc>/a?utm_id=1</loc></url><url><loc>/a</loc></url>
<url><loc>/b</loc></url><url><loc>/b?utm_id=1</loc></url></urlset>"""


async def test_sitemaps_and_their_urls_are_fetched_as_they_are_written(
    scheduler: WritingScheduler,
) -> None:
    await parsed(scheduler, WRITTEN)
    await parsed(scheduler, PAGES)
    spider = WebSpider.from_crawler(crawler_with(scheduler), sitemaps=f"{SITE}g.xml?d&c")
    assert [request async for request in spider.start()] == []
    parser = RobotParser()
    parser.sitemaps = (f"{SITE}r.xml?f&e",)
    await spider.robots_parsed(parser, Request(SITE))
    assert [entry.written_url for entry in scheduler.added] == [
        *(f"{SITE}1.xml?b&a", f"{SITE}a?utm_id=1", f"{SITE}b"),
        *(f"{SITE}g.xml?d&c", f"{SITE}r.xml?f&e"),
    ]
    assert scheduler.added[0].url == f"{SITE}1.xml?a&b"


async def test_links_are_fetched_as_they_are_written(scheduler: WritingScheduler) -> None:
    urls = [SITE + "a?a&b", SITE + "c"]
    tails = {url: {"hints": [1, None]} for url in urls[:1]}
    await follow(follower(scheduler), *urls, written={urls[0]: "?b&a"}, tails=tails)
    assert [entry.written_url for entry in scheduler.added] == [SITE + "a?b&a", SITE + "c"]
    assert [entry.tail for entry in scheduler.added] == [tails[urls[0]], {}]


async def test_links_that_are_surely_in_the_frontier_are_counted_and_not_added_again(
    scheduler: WritingScheduler,
) -> None:
    known, counted = SeenCache(10), list[tuple[str, int]]()
    scheduler.adder = UrlAdder(None, known, lambda *count: counted.append(count))  # type: ignore[arg-type]
    known.update([scheduler.urls.fingerprint(SITE + "a")])
    await follow(follower(scheduler), SITE + "a", SITE + "b")
    assert [entry.url for entry in scheduler.added] == [SITE + "b"]
    assert counted == [("frontier/discovered", 1), ("frontier/cached", 1)]


def know(scheduler: WritingScheduler, *urls: str) -> list[tuple[str, int]]:
    """Let these be known; what discoveries count is in the list."""
    known, counted = SeenCache(1000), list[tuple[str, int]]()
    known.update(scheduler.urls.fingerprints(urls))
    scheduler.adder = UrlAdder(None, known, lambda *count: counted.append(count))  # type: ignore[arg-type]
    return counted


async def test_known_links_take_nothing_from_the_cap_of_a_trap(scheduler: WritingScheduler) -> None:
    urls = [f"{SITE}?id={number}" for number in range(5)]
    counted = know(scheduler, *urls[:3])
    crawler = crawler_with(scheduler, TRAP_TEMPLATE_MAX=2)
    await follow(link_follower(crawler), *urls)
    assert [entry.url for entry in scheduler.added] == urls[3:]
    assert dict(counted) == {"frontier/discovered": 3, "frontier/cached": 3}
    assert crawler.stats.get_value("links/refused/trap_template") is None


async def test_only_new_links_count_for_a_trap(scheduler: WritingScheduler) -> None:
    found = follower(scheduler, TRAP_TEMPLATE_MAX=2)
    scheduler.answer = "0"
    await follow(found, f"{SITE}?id=1", f"{SITE}?id=2")
    scheduler.answer = "1"
    await follow(found, f"{SITE}?id=3", f"{SITE}?id=4", f"{SITE}?id=5")
    await follow(found, f"{SITE}?id=6")
    assert [entry.url[-1] for entry in scheduler.added] == ["1", "2", "3", "4"]


async def test_only_new_links_count_as_found_of_their_host(scheduler: WritingScheduler) -> None:
    found = follower(scheduler)
    await follow(found, SITE + "a", "http://h.test/b", SITE + "c")
    assert (found.hosts.counts("www.h.test"), found.hosts.counts("h.test")) == ((2, 0), (1, 0))
    scheduler.answer = "0"
    await follow(found, SITE + "a", SITE + "b")
    assert found.hosts.counts("www.h.test") == (2, 0)


async def test_a_page_is_one_link_to_each_host_that_it_may_lead_to(
    scheduler: WritingScheduler,
) -> None:
    scheduler.options_watcher.scope = CrawlOptions(
        scope="any", excluded_domains=("no.test",)
    ).url_filter()
    know(scheduler, "http://known.test/a", "http://no.test/a")
    found = follower(scheduler)
    await follow(
        found,
        *("http://new.test/a", "https://new.test/b", "http://new.test/c"),
        *("http://known.test/a", "http://no.test/a", "http://sub.h.test/", SITE + "a"),
        # Nothing is followed to these.
        *("http://files.test/a.zip", "http://trap.test/a/a/a"),
    )
    assert {host: inbound for host, (_, inbound) in found.hosts.take_unsent(99).items()} == {
        "new.test": 1,
        "known.test": 1,
        "sub.h.test": 0,
        "www.h.test": 0,
    }


async def test_the_first_reason_counts_and_the_host_even_of_what_is_known(
    scheduler: WritingScheduler,
) -> None:
    scheduler.options_watcher.scope = CrawlOptions(scope="host", exclude=("secret",)).url_filter()
    know(scheduler, "http://o.test/a", SITE + "secret")
    crawler = crawler_with(scheduler)
    await follow(
        link_follower(crawler),
        *("http://o.test/a", "http://o.test/b.zip?x=1", "http://o.test/secret"),
        *(SITE + "secret", SITE + "secret/b", SITE + "secret/a/a/a"),
    )
    stats = crawler.stats.get_stats()
    assert {name: stats[name] for name in stats if name.startswith("links/")} == {
        "links/refused/scope": 2,
        "links/refused/extension": 1,
        "links/refused/exclude": 2,
    }


async def test_links_that_are_too_deep_are_counted(scheduler: WritingScheduler) -> None:
    crawler = crawler_with(scheduler)
    scheduler.options_watcher.scope = CrawlOptions(max_depth=1).url_filter()
    await follow(link_follower(crawler), SITE + "a", SITE + "b", depth=2)
    assert scheduler.added == []
    assert crawler.stats.get_value("links/refused/depth") == 2


async def test_links_and_recrawls_count_by_the_ranks_of_their_pages(
    scheduler: WritingScheduler, tmp_path: Path
) -> None:
    page = SITE + "page"
    low, high, unknown = (f"{SITE}{name}" for name in ("low", "high", "unknown"))
    file = tmp_path / "ranks"
    write_page_ranks(file, [fingerprint(low), fingerprint(high)], [1, 9999])
    found = follower(scheduler, PAGE_RANKS=str(file))
    facts = {low: Facts(sitemap_priority=0.0)}
    urls = [low, high, unknown]
    await found.follow(urls, page_url=page, depth=2, parent=7, parent_url=page, facts=facts)
    assert [entry.queue for entry in scheduler.added] == [4, 3, 3]
    assert [found.queue_of(entry, unchanged=False) for entry in scheduler.added] == [4, 3, 3]


def test_a_file_of_ranks_that_is_missing_is_told_at_the_start(scheduler: WritingScheduler) -> None:
    with pytest.raises(ConfigurationError, match="page ranks /no/file cannot be read"):
        follower(scheduler, PAGE_RANKS="/no/file")
