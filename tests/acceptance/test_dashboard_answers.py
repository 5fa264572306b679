"""The dashboard answers what operators ask, in three clicks at most, and everybody can read it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.acceptance.dashboards import TOKEN, Dashboard, Served
from tests.acceptance.operated import FAST, REFUSED, SLOW, STORED, Operated, options_of
from tests.support.accessibility import serious_findings

DESK, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
CLICKS = 3
VIEWS = {
    "overview": "#overview",
    "hosts": "#hosts",
    "host": "#host/news.test",
    "url": f"#url/{quote(STORED, safe='')}",
    "refused": f"#url/{quote(REFUSED, safe='')}",
    "pages": "#pages",
    "dead": "#dead",
    "processes": "#processes",
    "options": "#options",
    "log": "#log",
}
# What a view shows when it has its answers.
READY = {
    "overview": "#codes .bar",
    "hosts": "#host-rows a",
    "host": "#host-robots pre",
    "url": "#page-tab pre",
    "refused": "#url-refusals code",
    "pages": "#page-rows a",
    "dead": "#dead-rows a",
    "processes": "#worker-rows button",
    "options": "#option-rows input",
    "log": "#log-rows td",
}


# Elements that stay in place while others move below them.
_LYING_OVER = """
[...document.querySelectorAll('#app *')]
    .filter((one) => one.checkVisibility())
    .filter((one) => ['fixed', 'sticky'].includes(getComputedStyle(one).position))
    .map((one) => one.id || one.className)
"""


@pytest.fixture
def operated(redis_url: str, mongo_uri: str, mongo_db_name: str) -> Iterator[Operated]:
    crawl = Operated(redis_url, mongo_uri, mongo_db_name)
    with crawl.working():
        yield crawl


@pytest.fixture
def address(tmp_path: Path, operated: Operated) -> Iterator[str]:
    settings = operated.settings | {"CRAWL_DIR": str(tmp_path / "crawl"), "ADMIN_TOKEN": TOKEN}
    command = ["admin", "--port", "0", "--crawl", "web", *options_of(settings)]
    with Served(tmp_path / "admin.log", *command) as url:
        yield url


def signed_in(browser: Any, address: str, **options: Any) -> Dashboard:
    dashboard = Dashboard(browser, address, **options)
    dashboard.sign_in()
    dashboard.page.locator("#app").wait_for(state="visible")
    dashboard.wait_for_text("#live", "live")
    return dashboard


class Question:
    """A question of an operator at the overview, and the clicks that its answer takes."""

    def __init__(self, dashboard: Dashboard) -> None:
        self._dashboard = dashboard
        self._page = dashboard.page
        self._clicks = 0
        self._page.evaluate("location.hash = '#overview'")
        self._page.locator("#overview-view").wait_for(state="visible")

    def click(self, role: str, name: str) -> None:
        self._clicks += 1
        self._page.get_by_role(role, name=name, exact=True).first.click()

    def look_up(self, text: str) -> None:
        """Type into the field of the header; Enter counts as a click."""
        self._clicks += 1
        self._page.get_by_label("Look up a URL or a host").fill(text)
        self._page.keyboard.press("Enter")

    def answer(self, selector: str, text: str | re.Pattern[str]) -> None:
        self._page.locator(selector, has_text=text).first.wait_for(state="visible")
        assert self._clicks <= CLICKS


def test_eleven_questions_are_answered_in_three_clicks(
    browser: Any, address: str, artefacts: Path
) -> None:
    dashboard = signed_in(browser, address, viewport=DESK)
    ask = lambda: Question(dashboard)  # noqa: E731

    how_fast = ask()
    how_fast.answer(".tile:has-text('pages/s')", "1.5")

    since_when_slower = ask()
    since_when_slower.click("button", "15 min")
    slow, fast = f"{SLOW / 60:.1f}", f"{FAST / 60:.1f}"
    step = re.compile(rf"Slower since \d\d:\d\d: {slow} pages/s after {fast}")
    since_when_slower.answer("#slower", step)

    why_not_crawled = ask()
    why_not_crawled.look_up("slow.test")
    why_not_crawled.answer("#host-why", "Its delay is not over: 1 answers 429 or 503")

    when_next = ask()
    when_next.click("link", "Hosts")
    when_next.click("link", "slow.test")
    when_next.answer("#host-clock", re.compile(r"next contactin (2\d|30) min"))

    what_is_stored = ask()
    what_is_stored.look_up(STORED)
    what_is_stored.answer("#page-facts", "A stored page")
    # What is markup on the page is text here, its source as well.
    what_is_stored.answer("#page-tab", "Its text, <b>as text</b>")
    what_is_stored.click("button", "Source")
    what_is_stored.answer("#page-tab", "<script>alert(1)</script>")
    assert dashboard.page.locator("#page-tab script, #page-tab b").count() == 0

    why_refused = ask()
    why_refused.look_up(REFUSED)
    why_refused.answer("#url-refusals", "line 5: Disallow: /private")

    who_fails_most = ask()
    who_fails_most.click("link", "Dead letters")
    who_fails_most.answer("#dead-hosts tr:first-child", re.compile(r"broken\.test\s*3\s*timeout 3"))

    how_long_still = ask()
    how_long_still.answer(".tile:has-text('estimated end')", re.compile(r"in (2\d|30) min"))
    how_long_still.answer(".tile:has-text('estimated end')", "slow.test: 1 URLs with a delay of")

    who_works = ask()
    who_works.click("link", "Processes")
    who_works.answer("#worker-rows tr", re.compile(r"worker-1\s*4711"))

    what_is_dead = ask()
    what_is_dead.click("link", "Dead letters")
    what_is_dead.click("button", "dns nxdomain")
    what_is_dead.answer("#dead-chosen", "dns nxdomain")
    what_is_dead.answer("#dead-rows tr", "http://gone.test/")
    assert dashboard.page.locator("#dead-rows tr").count() == 1

    what_says_robots = ask()
    what_says_robots.click("link", "Hosts")
    what_says_robots.click("link", "news.test")
    what_says_robots.answer("#host-robots mark", "Disallow: /private")
    assert dashboard.page.locator("#host-robots mark", has_text="/everything").count() == 0
    dashboard.page.screenshot(path=artefacts / "dashboard-host.png", full_page=True)
    assert dashboard.complaints == []


def test_orders_are_given_where_the_answer_is(browser: Any, address: str) -> None:
    dashboard = signed_in(browser, address, viewport=DESK)
    page = dashboard.page

    # At a host: a delay, a mistake that the API refuses, a block; its robots.txt is forgotten.
    page.goto(f"{address}{VIEWS['host']}")
    dashboard.wait_for_text("#host-clock", "robots.txt asks for a Crawl-delay of 600 s")
    page.get_by_label("Queue of its pages").fill("9")
    page.get_by_role("button", name="Save").click()
    dashboard.wait_for_text("#toasts", "body.queue: Input should be less than or equal to 5")
    page.get_by_label("Queue of its pages").fill("")
    page.get_by_label("Delay in s").fill("900")
    page.get_by_role("button", name="Save").click()
    dashboard.wait_for_text("#toasts", "Saved for news.test.")
    page.get_by_role("button", name="Forget robots.txt").click()
    dashboard.wait_for_text("#host-robots", "None is cached")
    dashboard.wait_for_text("#host-clock", "people set 900 s")
    page.get_by_role("button", name="Block", exact=True).click()
    page.locator("#block-dialog").get_by_role("button", name="Block").click()
    dashboard.wait_for_text("#host-life", "blocked")
    dashboard.wait_for_text("#host-why", "It is blocked until")

    # Options, with the checks of the API.
    page.get_by_role("link", name="Options").click()
    page.get_by_label("max_depth").fill("-1")
    page.get_by_role("button", name="Save").click()
    dashboard.wait_for_text(
        "#option-error", "max_depth is -1; give a whole number, 0 for no limit."
    )
    page.get_by_label("max_depth").fill("7")
    page.get_by_label("excluded_domains").fill("ads.test")
    page.get_by_label("max_pages_per_minute").fill("600")
    page.get_by_role("button", name="Save").click()
    dashboard.wait_for_text("#toasts", "Saved: excluded_domains, max_depth, max_pages_per_minute.")

    # A URL that this refuses.
    page.get_by_label("Look up a URL or a host").fill("http://www.ads.test/banner")
    page.keyboard.press("Enter")
    dashboard.wait_for_text("#url-refusals", "excluded_domains = ads.test")

    # The process is asked to stop.
    page.get_by_role("link", name="Processes").click()
    page.get_by_role("button", name="Stop worker-1 4711").click()
    page.locator("#confirm-dialog").get_by_role("button", name="Stop").click()
    dashboard.wait_for_text("#worker-rows", "Stopping …")

    # All of that is in the log.
    page.get_by_role("link", name="Log").click()
    for text in ("worker-1 4711 is to stop", "max_depth is 7", "host_delay:news.test is 900.0"):
        dashboard.wait_for_text("#log-rows tr", text)
    dashboard.wait_for_text("#log-rows tr", "host news.test: blocked until")
    assert dashboard.complaints == []


def test_another_crawl_of_the_same_redis_is_looked_at(browser: Any, address: str) -> None:
    dashboard = signed_in(browser, address, viewport=DESK)
    page = dashboard.page
    dashboard.wait_for_text(".tile:has-text('waiting')", "43")
    page.get_by_label("Crawl", exact=True).select_option(label="other crawl (finished)")
    dashboard.wait_for_text(".tile:has-text('waiting')", re.compile(r"^waiting0"))
    dashboard.wait_for_text("#state", "finished")
    page.get_by_role("link", name="Processes").click()
    dashboard.wait_for_text("#worker-rows", "No process works on this crawl now.")
    # It stays when the page is loaded again, and ends with the visit.
    page.reload()
    dashboard.wait_for_text("#state", "finished")
    page.get_by_label("Crawl", exact=True).select_option(label="web (running)")
    dashboard.wait_for_text("#worker-rows", "worker-1")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Token").wait_for()
    assert page.evaluate("sessionStorage.length") == 0
    assert dashboard.complaints == []


def test_words_say_what_they_mean(browser: Any, address: str) -> None:
    dashboard = signed_in(browser, address, viewport=DESK)
    page = dashboard.page
    dashboard.wait_for_text("#queues .bar", "F1")
    page.locator("#queues [data-word=F1]").hover()
    dashboard.wait_for_text("#meaning", "First front queue: the most important pages.")
    page.keyboard.press("Escape")
    page.locator("#meaning").wait_for(state="hidden")
    # By the keyboard, too.
    page.locator("#queues [data-word=back]").focus()
    dashboard.wait_for_text("#meaning", "URLs of hosts that have their turn now")
    # Every figure has a meaning.
    for label in page.locator(".tile dt, .facts dt, .bars .name").all():
        if label.is_visible() and not re.fullmatch(r"\d+|[a-z ]*timeout", label.inner_text()):
            assert label.locator("[data-word]").count() == 1, label.inner_text()
    assert dashboard.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desk", "phone"])
def test_everybody_can_read_every_view(
    browser: Any, address: str, artefacts: Path, scheme: str, size: str
) -> None:
    viewport = DESK if size == "desk" else PHONE
    dashboard = signed_in(browser, address, viewport=viewport, color_scheme=scheme)
    page = dashboard.page
    for view, hash_ in VIEWS.items():
        page.goto(f"{address}{hash_}")
        page.locator(READY[view]).first.wait_for(state="visible")
        page.evaluate("scrollTo(0, 0)")
        page.screenshot(path=artefacts / f"dashboard-{view}-{size}-{scheme}.png", full_page=True)
        assert serious_findings(page) == [], view
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"], view
        if size == "phone":
            # Nothing lies over figures: neither the header nor a part of a table.
            assert page.evaluate(_LYING_OVER) == [], view
    page.goto(f"{address}docs")
    page.locator("summary", has_text="/seed/urls").wait_for()
    assert serious_findings(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    assert dashboard.complaints == []


def test_the_api_is_tried_out_where_it_is_described(browser: Any, address: str) -> None:
    dashboard = Dashboard(browser, f"{address}docs", viewport=DESK)
    page = dashboard.page
    page.get_by_label("Token").fill("a wrong token")
    page.get_by_role("button", name="Sign in").click()
    dashboard.wait_for_text("#sign-in-error", "missing or wrong")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Sign in").click()
    call = _opened(page, "GET", "/urls/refusals")
    call.get_by_label("url", exact=True).fill(REFUSED)
    call.get_by_role("button", name="Send").click()
    call.locator("pre", has_text='"rule": "line 5: Disallow: /private"').wait_for()
    call = _opened(page, "POST", "/url/limit")
    call.get_by_label("Body (JSON)").fill('{"depthLimit": -1}')
    call.get_by_role("button", name="Send").click()
    call.locator("pre", has_text="body.depthLimit").wait_for()
    assert TOKEN not in page.url
    assert dashboard.complaints == []


def _opened(page: Any, method: str, path: str) -> Any:
    """The description of a call, opened."""
    summary = page.locator("summary", has=page.get_by_text(path, exact=True))
    call = page.locator("details", has=summary.filter(has_text=method))
    call.locator("summary").click()
    return call
