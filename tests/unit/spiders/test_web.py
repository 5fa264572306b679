"""The generic spider: arguments, seeds, and one page for each response."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bson
import pytest
from scrapy import Request
from scrapy.exceptions import CloseSpider
from scrapy.http import HtmlResponse, JsonResponse, Response, TextResponse, XmlResponse

from crawler.download.receiver import TYPE_NOT_ACCEPTED
from crawler.errors import ConfigurationError
from crawler.frontier import Added
from crawler.items import Page, Rendering
from crawler.pipelines.duplicates import Duplicates
from crawler.scheduling.lease_pool import REDIS_LOST
from crawler.scheduling.options import CrawlOptions
from crawler.servers.health import GaveUp
from crawler.settings import ITEM_PIPELINES
from crawler.spiders.web import WebSpider
from crawler.topics.model import TopicModel
from crawler.util.request_meta import LEASE, RENDERING
from tests.support.schedulers import WritingScheduler, crawler_with, lease_of

URL = "http://h.test/a"
PIPELINES = "crawler.pipelines"
HTML = b"""<html lang=en><title>T</title><meta name=description content=D>
<link rel=canonical href=/c><body>Hello <a href=/b>B</a> <a href=http://o.test>O</a>"""


@pytest.fixture
def scheduler() -> WritingScheduler:
    return WritingScheduler()


def spider_with(scheduler: WritingScheduler, **arguments: Any) -> WebSpider:
    return WebSpider.from_crawler(crawler_with(scheduler), **arguments)


async def page_of(response: Response, spider: WebSpider, **meta: Any) -> Page:
    response.request = Request(response.url, meta={LEASE: lease_of(URL, parent=7), **meta})
    (page,) = [page async for page in spider.parse(response)]
    return page


async def test_a_page_has_what_the_response_says(scheduler: WritingScheduler) -> None:
    headers = {"Content-Type": "Text/HTML; charset=utf-8", "ETag": '"x"', "Set-Cookie": "secret"}
    response = HtmlResponse(URL, headers=headers, body=HTML)
    page = await page_of(response, spider_with(scheduler), depth=2, fetch_ms=12)
    assert (page.url, page.final_url, page.status, page.depth) == (URL, URL, 200, 2)
    assert (page.title, page.description, page.language) == ("T", "D", "en")
    assert page.canonical == "http://h.test/c"
    assert page.text == "Hello B O"
    assert page.links == ["http://h.test/b", "http://o.test/"]
    assert (page.content_type, page.charset) == ("text/html", "utf-8")
    assert page.headers == {
        "content-type": "Text/HTML; charset=utf-8",
        "etag": '"x"',
        "set-cookie": "secret",
    }
    assert (page.body, page.size_bytes, page.fetch_ms) == (HTML, len(HTML), 12)
    assert page.parent == f"{7:016x}"
    assert page.stored
    assert page.crawled_at.tzinfo is not None


WORDS = "The council met in the old town hall, and it decided on the new bridge."
ARTICLE = f"<html lang=en><nav>Menu</nav><p>{WORDS.replace('new bridge', '<b>new bridge</b>')}"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("", ("", "", "")),
        (["text_language"], ("en", "", "")),
        ("main_text", ("", WORDS, "")),
        (["main_text", "markdown"], ("", WORDS, WORDS.replace("new bridge", "**new bridge**"))),
    ],
)
async def test_pages_get_the_fields_of_page_fields(
    given: Any, found: tuple[str, str, str], scheduler: WritingScheduler
) -> None:
    spider = WebSpider.from_crawler(crawler_with(scheduler, PAGE_FIELDS=given))
    page = await page_of(HtmlResponse(URL, body=ARTICLE.encode()), spider)
    assert (page.text_language, page.main_text, page.markdown) == found


async def test_dates_in_the_future_are_mistakes(scheduler: WritingScheduler) -> None:
    dates = (
        "<meta property=article:published_time content=2999-01-01>"
        "<meta property=article:modified_time content=2020-01-01>"
    )
    page = await page_of(HtmlResponse(URL, body=dates.encode()), spider_with(scheduler))
    assert page.published_at is None
    assert page.updated_at == datetime(2020, 1, 1, tzinfo=UTC)


def test_unknown_page_fields_are_refused(scheduler: WritingScheduler) -> None:
    with pytest.raises(ConfigurationError, match=r"PAGE_FIELDS is 'main'; use any of text_lang"):
        WebSpider.from_crawler(crawler_with(scheduler, PAGE_FIELDS="main"))


async def test_other_types_are_kept_without_links(scheduler: WritingScheduler) -> None:
    body = b"GIF89a <a href=/a>no link</a>"
    response = Response(URL, headers={"Content-Type": "image/gif"}, body=body)
    page = await page_of(response, spider_with(scheduler))
    assert (page.content_type, page.body, page.stored) == ("image/gif", body, True)
    assert (page.links, page.text, page.title) == ([], "", "")


@pytest.mark.parametrize(
    ("setting", "arguments", "depth"),
    [
        (0, {}, None),
        ("2", {}, 2),
        (2, {"max_depth": "5"}, 5),
        (2, {"max_depth": "0"}, 0),
        (0, {"max_depth": "5"}, 5),
    ],
)
def test_scrapys_limit_of_depth_counts_unless_an_argument_says_otherwise(
    scheduler: WritingScheduler, setting: Any, arguments: dict[str, str], depth: int | None
) -> None:
    crawler = crawler_with(scheduler, DEPTH_LIMIT=setting)
    assert WebSpider.from_crawler(crawler, **arguments).options.get("max_depth") == depth


async def test_elements_are_left_out_of_the_text_by_a_setting(scheduler: WritingScheduler) -> None:
    html = HtmlResponse(URL, body=b"<nav>Menu</nav><p>Text</p><footer>End</footer>")
    spider = WebSpider.from_crawler(crawler_with(scheduler, TEXT_WITHOUT="nav, Footer"))
    assert (await page_of(html, spider)).text == "Text"
    with pytest.raises(ConfigurationError, match=r"TEXT_WITHOUT is \['div\.menu'\]; give names"):
        WebSpider.from_crawler(crawler_with(scheduler, TEXT_WITHOUT=["div.menu"]))


@pytest.mark.parametrize(
    ("pipelines", "blocks"),
    [
        ({}, ["Text"]),
        ({f"{PIPELINES}.duplicates.Duplicates": None}, None),
        ({f"{PIPELINES}.duplicates.Duplicates": None, "project.Own": 150}, ["Text"]),
        ({f"{PIPELINES}.duplicates.Duplicates": None, "project.Own": None}, None),
        ({f"{PIPELINES}.duplicates.Duplicates": None, Duplicates: 100}, ["Text"]),
    ],
)
async def test_blocks_of_text_are_made_where_a_pipeline_may_ask_for_them(
    scheduler: WritingScheduler, pipelines: dict[Any, int | None], blocks: list[str] | None
) -> None:
    html = HtmlResponse(URL, body=b"<nav>Menu</nav><p>Text</p>")
    crawler = crawler_with(scheduler, ITEM_PIPELINES={**ITEM_PIPELINES, **pipelines})
    page = await page_of(html, WebSpider.from_crawler(crawler))
    assert (page.text, page.blocks) == ("Menu Text", blocks)


@pytest.mark.parametrize(
    ("settings", "article"),
    [
        ({"NEAR_BY": "minhash"}, ["All of the bears sleep as long as it snows."]),
        ({"NEAR_BY": "simhash"}, None),
        ({"NEAR_BY": "minhash", "ITEM_PIPELINES": dict.fromkeys(ITEM_PIPELINES)}, None),
    ],
)
async def test_the_article_is_found_where_pages_are_compared_by_it(
    scheduler: WritingScheduler, settings: dict[str, Any], article: list[str] | None
) -> None:
    text = "<p>All of the bears sleep as long as it snows.</p>"
    html = HtmlResponse(URL, body=f"<nav>Menu</nav><p>5 October</p>{text}".encode())
    page = await page_of(html, WebSpider.from_crawler(crawler_with(scheduler, **settings)))
    assert page.article == article


async def test_a_page_is_named_as_the_frontier_names_it(scheduler: WritingScheduler) -> None:
    response = HtmlResponse("http://h.test/%61", body=HTML)
    page = await page_of(response, spider_with(scheduler))
    assert (page.url, page.final_url) == (URL, "http://h.test/%61")


@pytest.mark.parametrize("status", [301, 404, 500])
async def test_an_error_is_recorded_without_links(scheduler: WritingScheduler, status: int) -> None:
    page = await page_of(HtmlResponse(URL, status=status, body=HTML), spider_with(scheduler))
    assert (page.status, page.stored, page.links) == (status, False, [])


async def test_a_page_that_asks_not_to_be_kept_is_not_but_its_links_count(
    scheduler: WritingScheduler,
) -> None:
    body = HTML.replace(b"<title>", b"<meta name=robots content=noindex><title>")
    page = await page_of(HtmlResponse(URL, body=body), spider_with(scheduler))
    assert not page.stored
    assert page.links


@pytest.mark.parametrize(
    ("values", "stored", "followed"),
    [
        (["noindex"], False, True),
        (["nofollow"], True, False),
        (["noindex, nofollow"], False, False),
        (["noindex", "nofollow"], False, False),
        (["none"], False, False),
        (["otherbot: none"], True, True),
        (["max-snippet:-1"], True, True),
    ],
)
async def test_a_header_may_ask_for_the_same(
    scheduler: WritingScheduler, values: list[str], stored: bool, followed: bool
) -> None:
    response = HtmlResponse(URL, body=HTML, headers={"X-Robots-Tag": values})
    page = await page_of(response, spider_with(scheduler))
    assert (page.stored, bool(page.links)) == (stored, followed)


async def test_what_is_no_text_has_no_links(scheduler: WritingScheduler) -> None:
    response = Response(URL, body=b"\x89PNG", headers={"Content-Type": "image/png"})
    page = await page_of(response, spider_with(scheduler))
    assert (page.links, page.text, page.stored) == ([], "", True)


async def test_a_header_is_the_only_way_for_what_is_no_html_to_ask(
    scheduler: WritingScheduler,
) -> None:
    headers = {"Content-Type": "image/gif", "X-Robots-Tag": "noindex"}
    page = await page_of(Response(URL, body=b"GIF89a", headers=headers), spider_with(scheduler))
    assert (page.stored, page.reason) == (False, "noindex")
    missing = Response(URL, status=404, headers=headers)
    assert (await page_of(missing, spider_with(scheduler))).reason == "status_404"


async def test_a_seed_has_no_parent(scheduler: WritingScheduler) -> None:
    response = HtmlResponse(URL, body=HTML)
    assert (await page_of(response, spider_with(scheduler), **{LEASE: lease_of(URL)})).parent == ""


@pytest.mark.parametrize("encoding", ["utf-16", "shift_jis", "nonsense"])
async def test_pages_in_any_encoding_are_read(scheduler: WritingScheduler, encoding: str) -> None:
    headers = {"Content-Type": f"text/html; charset={encoding}"}
    response = HtmlResponse(URL, headers=headers, body=b"\xff\xfe\x80<a href=/b>")
    assert isinstance(await page_of(response, spider_with(scheduler)), Page)


async def test_a_page_of_many_bytes_is_read_in_a_thread_with_the_same_result(
    scheduler: WritingScheduler,
) -> None:
    body = HTML + b"<p>" + b"word " * 70_000
    page = await page_of(TextResponse(URL, body=body), spider_with(scheduler))
    assert page.links == ["http://h.test/b", "http://o.test/"]
    assert page.text.count("word") == 70_000


async def test_no_more_links_than_the_setting_allows(scheduler: WritingScheduler) -> None:
    spider = WebSpider.from_crawler(crawler_with(scheduler, MAX_OUTLINKS=1))
    assert (await page_of(HtmlResponse(URL, body=HTML), spider)).links == ["http://h.test/b"]


async def test_directives_may_be_disregarded(scheduler: WritingScheduler) -> None:
    crawler = crawler_with(scheduler, OBEY_NOINDEX=False, OBEY_NOFOLLOW=False)
    response = HtmlResponse(URL, body=HTML.replace(b"<a ", b"<a rel=nofollow "))
    response.headers["X-Robots-Tag"] = "none"
    page = await page_of(response, WebSpider.from_crawler(crawler))
    assert page.stored
    assert len(page.links) == 2


async def test_a_header_may_speak_to_this_crawler(scheduler: WritingScheduler) -> None:
    spider = WebSpider.from_crawler(crawler_with(scheduler, USER_AGENT="mine/1.0 (+x)"))
    response = HtmlResponse(URL, body=HTML, headers={"X-Robots-Tag": "Mine: noindex"})
    assert not (await page_of(response, spider)).stored


async def test_pages_speak_to_this_crawler_by_the_name_that_robots_txt_files_have_for_it(
    scheduler: WritingScheduler,
) -> None:
    crawler = crawler_with(
        scheduler, USER_AGENT="mine/1.0 (+x)", ROBOTSTXT_USER_AGENT="Known2.Bot/3.1"
    )
    spider = WebSpider.from_crawler(crawler)
    told = HtmlResponse(URL, body=HTML, headers={"X-Robots-Tag": "known2.bot: noindex"})
    assert not (await page_of(told, spider)).stored
    meta = b"<meta name=KNOWN2.bot content=noindex>"
    assert not (await page_of(HtmlResponse(URL, body=meta + HTML), spider)).stored
    other = HtmlResponse(URL, body=HTML, headers={"X-Robots-Tag": "mine: noindex"})
    assert (await page_of(other, spider)).stored


async def test_links_follow_the_url_rules_and_keep_their_texts(
    scheduler: WritingScheduler,
) -> None:
    crawler = crawler_with(scheduler, URL_DROP_PARAMETERS=["ref"], KEEP_ANCHORS=True)
    response = HtmlResponse(URL, body=b"<a href='/b?ref=1' rel=author>B</a>")
    page = await page_of(response, WebSpider.from_crawler(crawler))
    assert page.links == ["http://h.test/b"]
    assert page.extra["anchors"] == [{"url": "http://h.test/b", "rel": "author", "text": "B"}]


@pytest.mark.parametrize("setting", [{}, {"FOLLOW_MEDIA": True}])
async def test_pictures_are_followed_if_wanted(
    scheduler: WritingScheduler, setting: dict[str, Any]
) -> None:
    spider = WebSpider.from_crawler(crawler_with(scheduler, **setting))
    page = await page_of(HtmlResponse(URL, body=b"<img src=/a.png>"), spider)
    assert bool(page.links) == bool(setting)


async def test_a_feed_is_a_source_of_links(scheduler: WritingScheduler) -> None:
    body = b"<rss><channel><title>T</title><item><link>/1</link></item></channel></rss>"
    response = XmlResponse(URL, body=body, headers={"Content-Type": "application/rss+xml"})
    page = await page_of(response, spider_with(scheduler))
    assert (page.title, page.links, page.stored) == ("T", ["http://h.test/1"], True)


async def test_a_subclass_adds_fields_of_its_own(scheduler: WritingScheduler) -> None:
    class Mine(WebSpider):
        def extract(self, response: Response, page: Page) -> None:
            page.extra["length"] = len(response.body)

    spider = Mine.from_crawler(crawler_with(scheduler))
    page = await page_of(HtmlResponse(URL, body=HTML), spider)
    assert page.extra == {"length": len(HTML)}


async def test_the_subclass_of_the_docs_works_for_pages_and_leaves_other_files(
    scheduler: WritingScheduler,
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "addon.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    code = "from crawler" + page.split("```python\nfrom crawler")[1].split("```")[0]
    exec(code, names)
    spider = names["Prices"].from_crawler(crawler_with(scheduler))
    response = HtmlResponse(URL, body=b"<b class=price>12</b>")
    assert (await page_of(response, spider)).extra == {"price": "12"}
    image = Response(URL, body=b"\x89PNG", headers={"Content-Type": "image/png"})
    assert (await page_of(image, spider)).extra == {}
    data = JsonResponse(URL, body=b'{"price": 12}', headers={"Content-Type": "application/json"})
    assert (await page_of(data, spider)).extra == {}


async def test_seeds_go_to_the_frontier_in_batches_and_bad_ones_are_told(
    scheduler: WritingScheduler, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [f"http://h.test/{number}" for number in range(2500)] + ["nonsense"] * 50
    file = tmp_path / "seeds.txt"
    file.write_text("\n".join(lines))
    spider = spider_with(scheduler, seeds=str(file))
    assert [request async for request in spider.start()] == []
    assert len(scheduler.added) == 2500
    stats = spider.crawler.stats.get_stats()
    assert (stats["seeds/added"], stats["seeds/rejected"]) == (2500, 50)
    assert len([line for line in caplog.messages if "nonsense" in line]) == 10


async def test_without_seeds_it_crawls_what_the_frontier_has(scheduler: WritingScheduler) -> None:
    assert [request async for request in spider_with(scheduler).start()] == []
    assert scheduler.added == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"seeds": ""}, "seeds is empty"),
        ({"sitemaps": ""}, "sitemaps is empty"),
        ({"scope": "world"}, "scope is 'world'; use one of host, domain, seeds, any"),
        ({"max_depth": "abc"}, "max_depth is 'abc'; give a whole number, 0 for no limit"),
        ({"max_depth": "1.5"}, "max_depth is '1.5'"),
        ({"max_pages": "-1"}, "max_pages is '-1'"),
        ({"depth": "1"}, "no argument 'depth'"),
    ],
)
def test_a_bad_argument_is_named(
    scheduler: WritingScheduler, arguments: dict[str, str], text: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        spider_with(scheduler, **arguments)
    assert text in str(caught.value)


async def test_a_type_that_was_not_downloaded_is_recorded_and_not_kept(
    scheduler: WritingScheduler,
) -> None:
    headers = {"Content-Type": "video/mp4"}
    response = Response(URL, headers=headers, flags=[TYPE_NOT_ACCEPTED])
    page = await page_of(response, spider_with(scheduler))
    assert (page.status, page.content_type, page.body) == (200, "video/mp4", b"")
    assert not page.stored


async def test_sitemaps_of_a_robots_txt_are_left_to_others_when_redis_is_given_up_on(
    scheduler: WritingScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    spider = spider_with(scheduler)
    named = SimpleNamespace(sitemaps=["http://h.test/map.xml"])
    await spider.robots_parsed(named, Request(URL))
    assert [entry.url for entry in scheduler.added] == ["http://h.test/map.xml"]
    monkeypatch.setattr(scheduler, "add", give_up)
    await spider.robots_parsed(named, Request(URL))


async def test_seeds_end_the_crawl_in_one_line_when_redis_is_given_up_on(
    scheduler: WritingScheduler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(scheduler, "add", give_up)
    with pytest.raises(CloseSpider) as closed:
        await anext(spider_with(scheduler, seeds=URL).start())
    assert closed.value.reason == REDIS_LOST
    assert caplog.messages == ["Not all seeds are added: Redis was away for 10 s"]


async def give_up(*_: Any) -> Added:
    raise GaveUp("Redis was away for 10 s")


FRENCH = """<html lang=fr><body><p>Tous les êtres humains naissent libres et égaux en dignité et en
droits, et doivent agir les uns envers les autres dans un esprit de fraternité.</p>
<a href=/b>suite</a>""".encode()


@pytest.mark.parametrize(
    ("treatment", "stored", "links", "points"),
    [("follow", False, 1, -30), ("store", True, 1, -30), ("leave", False, 0, -30)],
)
async def test_pages_in_other_languages_are_treated_as_the_setting_says(
    scheduler: WritingScheduler, treatment: str, stored: bool, links: int, points: int
) -> None:
    scheduler.options_watcher.options = CrawlOptions(languages=("de", "en"))
    crawler = crawler_with(scheduler, OTHER_LANGUAGES=treatment)
    page = await page_of(HtmlResponse(URL, body=FRENCH), WebSpider.from_crawler(crawler))
    assert page.text_language == "fr"
    assert (page.stored, len(page.links), page.link_points) == (stored, links, points)
    assert page.reason == ("" if stored else "language")
    assert crawler.stats.get_value("pages/other_language") == 1


@pytest.mark.parametrize("body", [FRENCH, b"<html lang=fr>oui", b"<html>short"])
async def test_pages_in_the_languages_of_the_crawl_and_unknown_ones_are_kept(
    scheduler: WritingScheduler, body: bytes
) -> None:
    scheduler.options_watcher.options = CrawlOptions(languages=("fr",))
    page = await page_of(HtmlResponse(URL, body=body), spider_with(scheduler))
    assert (page.stored, page.link_points) == (True, 0)


async def test_a_short_page_counts_as_one_in_the_language_that_it_declares(
    scheduler: WritingScheduler,
) -> None:
    scheduler.options_watcher.options = CrawlOptions(languages=("fr",))
    page = await page_of(HtmlResponse(URL, body=b"<html lang=de-AT>ja"), spider_with(scheduler))
    assert (page.stored, page.reason) == (False, "language")


async def test_a_page_keeps_what_is_said_about_its_use(scheduler: WritingScheduler) -> None:
    body = b"<meta name=robots content=noai>Hello"
    response = HtmlResponse(URL, body=body, headers={"TDM-Reservation": "1"})
    usage = ["Content-Signal: ai-train=no"]
    page = await page_of(response, spider_with(scheduler), robots_usage=usage)
    assert page.rights == {
        "headers": ["TDM-Reservation: 1"],
        "robots.txt": usage,
        "html": ["robots: noai"],
    }


# --- pages that were rendered ---------------------------------------------------------------------


def rendering(*routes: str, screenshot: bytes = b"") -> Rendering:
    return Rendering(
        ms=1200,
        settled=False,
        parts=3,
        parts_cached=2,
        parts_left_out={"image": 4},
        console_errors=1,
        routes=routes,
        screenshot=screenshot,
    )


async def rendered_page(
    scheduler: WritingScheduler,
    found: Rendering,
    body: bytes = HTML,
    headers: dict[str, str] | None = None,
    **settings: Any,
) -> Page:
    spider = WebSpider.from_crawler(crawler_with(scheduler, **settings))
    response = HtmlResponse(URL, headers=headers, body=body)
    return await page_of(response, spider, **{RENDERING: found})


async def test_a_page_says_how_it_was_rendered(scheduler: WritingScheduler) -> None:
    page = await rendered_page(scheduler, rendering())
    assert page.rendered
    assert page.extra == {
        "rendering": {
            "ms": 1200,
            "settled": False,
            "parts": 3,
            "parts_cached": 2,
            "parts_left_out": {"image": 4},
            "console_errors": 1,
        }
    }
    # Every sink can store it.
    bson.encode(page.extra)
    assert not (await page_of(HtmlResponse(URL, body=HTML), spider_with(scheduler))).rendered


async def test_routes_of_a_page_are_links(scheduler: WritingScheduler) -> None:
    routes = ["/b", "http://h.test/r?b=2&a=1#part", "x/../s", "#top", "javascript:go()", "http://["]
    page = await rendered_page(scheduler, rendering(*routes))
    assert page.links == [
        *("http://h.test/b", "http://o.test/"),
        *("http://h.test/r?a=1&b=2", "http://h.test/s"),
    ]
    assert page.written == {"http://h.test/r?a=1&b=2": "?b=2&a=1"}


async def test_routes_are_links_as_far_as_there_is_room_for_them(
    scheduler: WritingScheduler,
) -> None:
    routes = [f"/r{number}" for number in range(10)]
    page = await rendered_page(scheduler, rendering(*routes), MAX_OUTLINKS=4)
    assert [url.rpartition("/")[2] for url in page.links] == ["b", "", "r0", "r1"]
    page = await rendered_page(scheduler, rendering(*routes), MAX_OUTLINKS=0)
    assert page.links == []


NOFOLLOW = b"<meta name=robots content=nofollow>" + HTML


@pytest.mark.parametrize(
    ("body", "headers", "settings", "links"),
    [
        (NOFOLLOW, {}, {}, 0),
        (HTML, {"X-Robots-Tag": "nofollow"}, {}, 0),
        (NOFOLLOW, {}, {"OBEY_NOFOLLOW": False}, 3),
    ],
    ids=["meta", "header", "disobeyed"],
)
async def test_routes_of_a_page_whose_links_are_not_to_be_followed_are_not(
    scheduler: WritingScheduler,
    body: bytes,
    headers: dict[str, str],
    settings: dict[str, Any],
    links: int,
) -> None:
    page = await rendered_page(scheduler, rendering("/r"), body, headers, **settings)
    assert len(page.links) == links


async def test_a_screenshot_is_kept_and_its_place_told(
    scheduler: WritingScheduler, tmp_path: Path
) -> None:
    wanted = {"PAGE_FIELDS": ["screenshot"], "RENDER_SCREENSHOTS": str(tmp_path)}
    page = await rendered_page(scheduler, rendering(screenshot=b"webp"), **wanted)
    assert page.extra["screenshot"] == str(screenshot_in(tmp_path, page))
    assert screenshot_in(tmp_path, page).read_bytes() == b"webp"
    assert page.flags == []


async def test_a_spider_that_keeps_screenshots_is_made_before_the_crawl_has_stats(
    scheduler: WritingScheduler, tmp_path: Path
) -> None:
    wanted = {"PAGE_FIELDS": ["screenshot"], "RENDER_SCREENSHOTS": str(tmp_path)}
    crawler = crawler_with(scheduler, **wanted)
    # As Scrapy has it when it makes the spider.
    stats, crawler._stats = crawler.stats, None
    spider = WebSpider.from_crawler(crawler)
    crawler.stats = stats
    response = HtmlResponse(URL, body=HTML)
    await page_of(response, spider, **{RENDERING: rendering(screenshot=b"webp")})
    assert stats.get_value("screenshots/kept") == 1


def screenshot_in(folder: Path, page: Page) -> Path:
    return folder / "crawl" / page.url_hash[:2] / f"{page.url_hash}.webp"


@pytest.mark.parametrize(
    ("body", "settings", "is_stored"),
    [
        (b"<meta name=robots content=noindex>" + HTML, {"PAGE_FIELDS": ["screenshot"]}, False),
        (HTML, {}, True),
    ],
    ids=["noindex", "not wanted"],
)
async def test_a_screenshot_of_what_is_not_to_be_kept_is_not_kept(
    scheduler: WritingScheduler,
    tmp_path: Path,
    body: bytes,
    settings: dict[str, Any],
    is_stored: bool,
) -> None:
    settings = {**settings, "RENDER_SCREENSHOTS": str(tmp_path)}
    page = await rendered_page(scheduler, rendering(screenshot=b"webp"), body, **settings)
    assert page.stored is is_stored
    assert "screenshot" not in page.extra
    assert "no_screenshot" not in page.flags
    assert not screenshot_in(tmp_path, page).exists()


async def test_a_page_whose_screenshot_cannot_be_kept_says_so(
    scheduler: WritingScheduler, tmp_path: Path
) -> None:
    (tmp_path / "crawl").write_text("a file in the place of the folder")
    wanted = {"PAGE_FIELDS": ["screenshot"], "RENDER_SCREENSHOTS": str(tmp_path)}
    page = await rendered_page(scheduler, rendering(screenshot=b"webp"), **wanted)
    assert page.flags == ["no_screenshot"]
    assert "screenshot" not in page.extra
    assert page.stored


def test_arguments_of_rendering_are_settings_of_the_process(scheduler: WritingScheduler) -> None:
    crawler = crawler_with(scheduler, RENDER="never", RENDER_SCROLL=3)
    # As it is while a spider is made.
    crawler.settings.frozen = False
    WebSpider.from_crawler(crawler, render="auto")
    assert (crawler.settings["RENDER"], crawler.settings["RENDER_SCROLL"]) == ("auto", 3)
    WebSpider.from_crawler(crawler, scroll="5")
    assert (crawler.settings["RENDER"], crawler.settings["RENDER_SCROLL"]) == ("auto", 5)


# --- focused crawls -------------------------------------------------------------------------------

CYCLING = b"<title>T</title><body><p>A bicycle</p><a href=/x>gear</a> <a href=/bicycle>more</a>"


@pytest.fixture
def topic(tmp_path: Path) -> str:
    path = tmp_path / "cycling.topic"
    TopicModel.of(0.0, ["bicycle", "gear", "stock"], [1, 1, 1], [9.0, -4.0, -9.0]).save(path)
    return str(path)


@pytest.mark.parametrize(
    ("text", "relevance", "points"),
    [("A bicycle", 0.97, 70), ("A stock", 0.0, -70), ("Nothing", None, -30)],
)
async def test_a_page_gets_its_relevance_and_its_links_points_for_it(
    scheduler: WritingScheduler, topic: str, text: str, relevance: float | None, points: int
) -> None:
    crawler = crawler_with(scheduler)
    spider = WebSpider.from_crawler(crawler, topic=topic)
    body = CYCLING.replace(b"A bicycle", text.encode())
    if relevance is None:
        body = body.replace(b"gear", b"")
    page = await page_of(HtmlResponse(URL, body=body), spider)
    assert page.relevance == pytest.approx(relevance, abs=0.01)
    assert page.link_points == points
    assert page.points_by_link["http://h.test/bicycle"] == 20
    assert page.points_by_link.get("http://h.test/x", 0) == (0 if relevance is None else -19)
    assert page.stored
    stat = {70: "on", -70: "off", -30: "unknown"}[points]
    assert crawler.stats.get_value(f"topic/{stat}") == 1
    # They were read for this, and are not to be stored.
    assert "anchors" not in page.extra


@pytest.mark.parametrize(
    ("treatment", "stored", "links"),
    [("store", True, 2), ("follow", False, 2), ("leave", False, 0)],
)
async def test_pages_off_topic_are_treated_as_the_setting_says(
    scheduler: WritingScheduler, topic: str, treatment: str, stored: bool, links: int
) -> None:
    crawler = crawler_with(scheduler, OFF_TOPIC=treatment)
    spider = WebSpider.from_crawler(crawler, topic=topic)
    body = CYCLING.replace(b"A bicycle", b"A stock")
    page = await page_of(HtmlResponse(URL, body=body), spider)
    assert (page.stored, len(page.links)) == (stored, links)
    assert page.reason == ("" if stored else "topic")


async def test_the_threshold_of_a_topic_is_a_setting(
    scheduler: WritingScheduler, tmp_path: Path
) -> None:
    TopicModel.of(0.0, ["bicycle"], [1], [0.5]).save(tmp_path / "weak.topic")
    for threshold, points in ((0.7, -70), (0.6, 70)):
        crawler = crawler_with(scheduler, TOPIC_THRESHOLD=threshold)
        spider = WebSpider.from_crawler(crawler, topic=str(tmp_path / "weak.topic"))
        page = await page_of(HtmlResponse(URL, body=b"<p>bicycle"), spider)
        assert (round(page.relevance or 0, 2), page.link_points) == (0.62, points)


async def test_a_function_that_fails_costs_the_page_nothing_but_its_relevance(
    scheduler: WritingScheduler,
) -> None:
    def broken(_page: Page) -> float:
        raise KeyError("x")

    crawler = crawler_with(scheduler, PAGE_SCORER=broken)
    page = await page_of(HtmlResponse(URL, body=HTML), WebSpider.from_crawler(crawler))
    # As a page of which nothing is known.
    assert (page.relevance, page.link_points, page.stored) == (None, -30, True)
    assert len(page.links) == 2
    assert crawler.stats.get_value("topic/failed") == 1


async def test_a_function_sees_the_texts_of_links(scheduler: WritingScheduler) -> None:
    async def score(page: Page) -> tuple[float, dict[str, float]]:
        return 1.0, {link.url: 1.0 for link in page.anchors if link.text == "O"}

    crawler = crawler_with(scheduler, PAGE_SCORER=score)
    page = await page_of(HtmlResponse(URL, body=HTML), WebSpider.from_crawler(crawler))
    assert page.points_by_link == {"http://o.test/": 20}


async def test_a_response_that_is_no_page_is_not_scored(
    scheduler: WritingScheduler, topic: str
) -> None:
    crawler = crawler_with(scheduler)
    spider = WebSpider.from_crawler(crawler, topic=topic)
    page = await page_of(HtmlResponse(URL, status=404, body=CYCLING), spider)
    assert page.relevance is None
    assert not crawler.stats.get_value("topic/unknown")


def test_a_topic_that_is_not_there_is_an_error_at_the_start(
    scheduler: WritingScheduler, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read on this machine"):
        spider_with(scheduler, topic=str(tmp_path / "none.topic"))
