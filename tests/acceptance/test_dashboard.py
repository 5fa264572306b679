"""The dashboard in a real browser, on a crawl of the synthetic web."""

import re
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from crawler.storage.search.index import IndexedPage, IndexWriter, SearchSettings
from demo.process import DemoServer
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls
from tests.acceptance.dashboards import TOKEN, Dashboard, Running, Served, beating
from tests.acceptance.failing_site import FAILED, PAGES, serving

PHONE = {"width": 390, "height": 844}


@pytest.fixture
def crawls(tmp_path: Path, redis_url: str, mongo_uri: str, mongo_db_name: str) -> Crawls:
    return Crawls(tmp_path, redis_url, mongo_uri, mongo_db_name)


def test_a_crawl_is_seeded_watched_and_steered_by_its_dashboard(
    tmp_path: Path, crawls: Crawls, browser: Any, artefacts: Path
) -> None:
    with DemoServer(WebOptions(hosts=30, pages=12), tmp_path / "access.log") as web:
        command = crawls.command(
            None,
            web=web,
            arguments={"scope": "any"},
            settings={
                "ADMIN_ENABLED": 1,
                "ADMIN_PORT": 0,
                "ADMIN_TOKEN": TOKEN,
                "CRAWL_IDLE": "wait",
                "DELAY_MIN": 0.2,
            },
        )
        with Served(tmp_path / "crawl.log", *command) as url:
            dashboard = Dashboard(browser, url, viewport={"width": 1280, "height": 800})
            try:
                _journey(dashboard, artefacts)
            finally:
                dashboard.page.screenshot(path=artefacts / "dashboard-end.png", full_page=True)
    assert dashboard.complaints == []


def _journey(dashboard: Dashboard, artefacts: Path) -> None:
    page = dashboard.page
    # Sign in: a wrong token is refused, the right one is kept out of the address.
    dashboard.sign_in("a wrong token")
    dashboard.wait_for_text("#sign-in-error", "missing or wrong")
    dashboard.sign_in()
    page.locator("#app").wait_for(state="visible")
    dashboard.wait_for_text("#live", "live")
    dashboard.wait_for_text("#state", "idle")
    # Whoever uses the keyboard is at the figures, not at a field that is gone.
    assert page.evaluate("document.activeElement.id") == "main"
    assert TOKEN not in page.url
    page.screenshot(path=artefacts / "dashboard-empty.png", full_page=True)

    # Add a seed, see it fetched, and see the numbers move.
    _go(page, "URLs")
    _add_seeds(page, "http://s0.test/ nonsense:// http://10.0.0.1/")
    dashboard.wait_for_text("#seed-summary", "2 added, 0 known, 1 rejected")
    dashboard.wait_for_text("#seed-rows tr:has-text('s0.test')", "fetched: 200")
    _go(page, "Overview")
    first = dashboard.wait_for_tile("pages crawled", 5)
    dashboard.wait_for_tile("pages crawled", first + 5)
    dashboard.wait_for_text("#sink-rows tr:has-text('mongo')", "ok")
    assert page.locator("#spooled").is_hidden()
    dashboard.wait_for_text("#codes .bar", "200")
    page.locator("#rate-chart rect.area").first.wait_for(state="attached")
    page.locator("#latency-chart path.line").first.wait_for(state="attached")
    for range_ in ("2 h", "24 h", "15 min"):
        page.get_by_role("button", name=range_).click()
        page.locator("#rate-chart rect.area").first.wait_for(state="attached")
    _go(page, "Processes")
    dashboard.wait_for_text("#worker-rows tr", "ok")
    _go(page, "Overview")

    # The same process answers Prometheus.
    url = urljoin(page.url, "/metrics")
    answer = page.request.get(url, headers={"Authorization": f"Bearer {TOKEN}"})
    assert 'crawler_fetch_latency_seconds_count{crawl="web",scope="worker"}' in answer.text()
    assert 'crawler_active_workers{crawl="web"} 1.0' in answer.text()

    # Pause and resume; the picture has figures of the last hour, too.
    dashboard.wait_for_text(".tile", re.compile(r"^success\s*[1-9]"))
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=artefacts / "dashboard.png")
    page.get_by_role("button", name="Pause").click()
    dashboard.wait_for_text("#state", "paused")
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Pause").wait_for()

    # Block a host.
    _go(page, "Hosts")
    page.get_by_label("Search hosts").fill("s1.test")
    page.get_by_role("button", name="Block s1.test", exact=True).click()
    page.locator("#block-dialog").get_by_role("button", name="Block").click()
    dashboard.wait_for_text("#host-rows tr:has-text('s1.test')", "blocked")
    page.get_by_role("button", name="Unblock s1.test", exact=True).wait_for()

    # A host that waits is never said to be due now.
    for row in page.locator("#host-rows tr").all_inner_texts():
        assert not ("resting" in row and "now" in row), row
    edge = _fits_a_phone(page)
    page.set_viewport_size({"width": 1280, "height": 800})
    assert edge <= PHONE["width"]

    # The dead letter gets another life.
    _go(page, "Dead letters")
    dashboard.wait_for_text("#dead-rows tr:has-text('10.0.0.1')", "private address")
    page.get_by_role("button", name="Requeue all").click()
    page.locator("#confirm-dialog").get_by_role("button", name="Requeue").click()
    dashboard.wait_for_text("#toasts", "1 URL waits again.")

    # What was done is in the log.
    _go(page, "Log")
    for text in ("paused", "resumed", "host s1.test: blocked until", "1 dead letters requeued"):
        dashboard.wait_for_text("#log-rows tr", text)

    # It fits a phone, and leaves nothing behind.
    _go(page, "Overview")
    page.set_viewport_size(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.emulate_media(color_scheme="dark")
    page.screenshot(path=artefacts / "dashboard-phone-dark.png", full_page=True)
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Token").wait_for()
    assert page.evaluate("sessionStorage.length") == 0


def _go(page: Any, view: str) -> None:
    page.get_by_role("navigation").get_by_role("link", name=view, exact=True).click()


def _fits_a_phone(page: Any) -> float:
    """Where the last button of the table of hosts ends on a phone."""
    page.set_viewport_size(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    # In one go: the table is drawn anew now and then.
    found: float = page.evaluate(
        "document.querySelector('#host-rows button').getBoundingClientRect().right"
    )
    return found


def test_a_process_that_is_stopped_drains_and_the_crawl_looks_stopped(
    tmp_path: Path, crawls: Crawls, redis_url: str, browser: Any, artefacts: Path
) -> None:
    settings = {"ADMIN_ENABLED": 0, "CRAWL_IDLE": "wait", "DELAY_MIN": 5}
    with DemoServer(WebOptions(hosts=30, pages=12), tmp_path / "access.log") as web:
        command = crawls.command(
            "http://s0.test/", web=web, arguments={"scope": "any"}, settings=settings
        )
        crawl = Running(tmp_path / "crawl.log", *command)
        admin = _admin(redis_url, tmp_path / "crawl", "web")
        with crawl, Served(tmp_path / "admin.log", *admin) as url:
            dashboard = Dashboard(browser, url, viewport={"width": 1280, "height": 800})
            page = dashboard.page
            dashboard.sign_in()
            page.locator("#app").wait_for(state="visible")
            dashboard.wait_for_tile("pages crawled", 3)
            _go(page, "Processes")
            page.get_by_role("button", name=re.compile(r"^Stop \S+ \d+")).click()
            page.locator("#confirm-dialog").get_by_role("button", name="Stop").click()
            assert crawl.wait() == 0
            assert "Spider closed (stopped)" in crawl.log
            dashboard.wait_for_text("#state", "stopped")
            dashboard.wait_for_text("#stopped", "no process works on it")
            dashboard.wait_for_text("#worker-rows", "No process works on this crawl now.")
            _go(page, "Overview")
            # What it held waits again, and nothing looks as if it moved.
            dashboard.wait_for_text(".tile:has-text('waiting')", "0 leased")
            dashboard.wait_for_text(".tile:has-text('pages/s')", "no process works on it")
            dashboard.wait_for_text(".tile:has-text('estimated end')", "No process works on it.")
            page.screenshot(path=artefacts / "dashboard-stopped.png", full_page=True)
            _go(page, "Log")
            for text in ("began", "is to stop", "ended: stopped"):
                dashboard.wait_for_text("#log-rows tr", text)
    assert dashboard.complaints == []


def test_what_failed_is_told_apart_from_pages(tmp_path: Path, crawls: Crawls, browser: Any) -> None:
    settings = {
        "ADMIN_ENABLED": 1,
        "ADMIN_PORT": 0,
        "ADMIN_TOKEN": TOKEN,
        "CRAWL_IDLE": "wait",
        "RETRY_TIMES": 1,
    }
    with serving() as site:
        command = crawls.command(site.url, settings=settings)
        with Served(tmp_path / "crawl.log", *command) as url:
            dashboard = Dashboard(browser, url)
            dashboard.sign_in()
            dashboard.wait_for_tile("pages crawled", len(PAGES))
            success = ".tile:has-text('success')"
            dashboard.wait_for_text(success, f"{sum(FAILED.values())} failed, 2 retries")
            dashboard.wait_for_text(success, "40.0%")
            for cause in ("status 404", "status 500", "robots", "connection"):
                dashboard.wait_for_text("#errors .bar", cause)
            assert dashboard.tile("pages crawled") == str(len(PAGES))
    assert dashboard.complaints == []


def _add_seeds(page: Any, text: str) -> None:
    page.get_by_label("URLs to crawl, one a line").fill(text)
    page.get_by_role("button", name="Add seeds").click()


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        found: int = free.getsockname()[1]
        return found


def _admin(redis_url: str, folder: Path, crawl: str, port: int = 0) -> list[str]:
    settings = {"REDIS_URL": redis_url, "CRAWL_DIR": folder, "ADMIN_TOKEN": TOKEN}
    options = [word for item in settings.items() for word in ("-s", f"{item[0]}={item[1]}")]
    return ["admin", "--port", str(port), "--crawl", crawl, *options]


def test_sinks_that_are_away_and_what_is_spooled_are_shown(
    tmp_path: Path, redis_url: str, browser: Any, artefacts: Path
) -> None:
    sink = {"waiting": 0, "lag_s": 0.0, "pages_per_s": 12.3, "bytes_per_s": 456_000.0}
    away = {"waiting": 64, "lag_s": 75.0, "pages_per_s": 0.0, "bytes_per_s": 0.0}
    about = {
        "store": "spooling",
        "sinks": [
            {"name": "mongo", "state": "ok", **sink},
            {"name": "Files", "state": "away", **away},
        ],
        "spooled_pages": 1234,
        "spooled_bytes": 5_600_000,
    }
    command = _admin(redis_url, tmp_path / "crawl", "web")
    with beating(redis_url, about), Served(tmp_path / "admin.log", *command) as url:
        dashboard = Dashboard(browser, url, viewport={"width": 1280, "height": 800})
        page = dashboard.page
        dashboard.sign_in()
        dashboard.wait_for_text("#sink-rows tr:has-text('mongo')", "ok")
        dashboard.wait_for_text("#sink-rows tr:has-text('mongo')", "456 kB")
        dashboard.wait_for_text("#sink-rows tr:has-text('Files')", "away")
        dashboard.wait_for_text("#sink-rows tr:has-text('Files')", "1 min")
        dashboard.wait_for_text("#spooled", "spooled: 1,234 pages, 5.6 MB")
        dashboard.wait_for_text("#storage", "spooling")
        page.screenshot(path=artefacts / "dashboard-sinks.png", full_page=True)
        page.set_viewport_size(PHONE)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        page.locator("#sinks-title").scroll_into_view_if_needed()
        page.screenshot(path=artefacts / "dashboard-sinks-phone.png")
    assert dashboard.complaints == []


def test_without_sinks_the_dashboard_says_who_takes_the_pages(
    tmp_path: Path, redis_url: str, browser: Any
) -> None:
    command = _admin(redis_url, tmp_path / "crawl", "web")
    with beating(redis_url, {}), Served(tmp_path / "admin.log", *command) as url:
        dashboard = Dashboard(browser, url)
        dashboard.sign_in()
        dashboard.wait_for_text("#sink-rows", "feeds or your own pipelines take the pages")


def test_stored_pages_are_searched(
    tmp_path: Path, redis_url: str, browser: Any, artefacts: Path
) -> None:
    command = _admin(redis_url, tmp_path / "crawl", "web")
    with beating(redis_url, {}), Served(tmp_path / "admin.log", *command) as url:
        dashboard = Dashboard(browser, url, viewport={"width": 1280, "height": 800})
        page = dashboard.page
        dashboard.sign_in()
        page.locator("#app").wait_for(state="visible")
        _go(page, "Pages")
        # By the keyboard: the words, and Enter.
        page.get_by_label("Words to search for").press_sequentially("dogs")
        page.keyboard.press("Enter")
        dashboard.wait_for_text("#search-summary", "There is no search index")
        _index_dogs(tmp_path / "crawl" / "search")
        page.keyboard.press("Enter")
        dashboard.wait_for_text("#search-summary", "12 pages, the best 10")
        assert page.locator("#search-results li").count() == 10
        page.get_by_label("Domain", exact=True).fill("h3.test")
        page.keyboard.press("Enter")
        dashboard.wait_for_text("#search-summary", "1 page")
        found = page.locator("#search-results li")
        assert found.locator("mark").all_inner_texts() == ["dogs"]
        # What is markup on the page is text here.
        assert found.locator("a").first.inner_text() == "<i>Dogs</i> & cats 3"
        # What is stored of it, and the page itself.
        links = [link.get_attribute("href") for link in found.locator("a").all()]
        assert links == ["#url/http%3A%2F%2Fh3.test%2F", "http://h3.test/"]
        assert "<script>alert(1)</script> 'quoted' &amp; dogs 3" in found.inner_text()
        page.locator("#search").screenshot(path=artefacts / "dashboard-search.png")
        page.get_by_label("Words to search for").fill("nothing")
        page.get_by_role("button", name="Search", exact=True).click()
        dashboard.wait_for_text("#search-summary", "No page has all of that.")
        assert found.count() == 0
        page.get_by_label("Words to search for").fill("&")
        page.get_by_role("button", name="Search", exact=True).click()
        dashboard.wait_for_text("#search-summary", "has no word to search for")
        page.set_viewport_size(PHONE)
        page.get_by_label("Words to search for").fill("dogs")
        page.get_by_role("button", name="Search", exact=True).click()
        dashboard.wait_for_text("#search-summary", "1 page")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        page.locator("#search").screenshot(path=artefacts / "dashboard-search-phone.png")
    assert dashboard.complaints == []


def _index_dogs(folder: Path) -> None:
    with IndexWriter(SearchSettings(folder, heap_bytes=15_000_000)) as writer:
        writer.replace(
            [
                IndexedPage(
                    crawl="web",
                    url_hash=f"{number:016x}",
                    crawled_at=datetime(2026, 5, 6, tzinfo=UTC),
                    url=f"http://h{number}.test/",
                    title=f"<i>Dogs</i> & cats {number}",
                    text=f"<script>alert(1)</script> 'quoted' &amp; dogs {number}",
                    language="en",
                )
                for number in range(12)
            ]
        )
        writer.commit()


def test_trouble_is_told_and_passes_by_itself(
    tmp_path: Path, redis_url: str, browser: Any, artefacts: Path, port: int
) -> None:
    command = _admin(redis_url, tmp_path / "crawl", "nothing", port)
    with Served(tmp_path / "first.log", *command) as url:
        dashboard = Dashboard(browser, url)
        page = dashboard.page
        # By the keyboard: the first stop is the way past the header, the second the token.
        page.get_by_label("Token").wait_for()
        page.get_by_label("Token").press_sequentially(TOKEN)
        page.keyboard.press("Enter")
        dashboard.wait_for_text("#trouble", "There is no crawl 'nothing' in this Redis.")
        page.screenshot(path=artefacts / "dashboard-no-crawl.png", full_page=True)
    dashboard.wait_for_text("#trouble", "The crawler does not answer.")
    dashboard.wait_for_text("#live", "reconnecting")
    assert page.get_by_role("button", name="Pause").is_disabled()
    with Served(tmp_path / "second.log", *command):
        dashboard.wait_for_text("#live", "live")
        dashboard.wait_for_text("#trouble", "There is no crawl 'nothing'")
    assert dashboard.complaints == []
    assert TOKEN not in page.url
