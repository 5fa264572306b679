"""Pages of the zoo for browsers in a real Chromium, which gets what a polite crawl may fetch."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from demo.closure import split_url
from demo.node import Node
from demo.process import DemoServer
from demo.truth import truth
from demo.web import Web, WebOptions
from tests.support.browser import PATIENCE_MS

OPTIONS = WebOptions(hosts=12, pages=8, zoo="browser")
WEB = Web(OPTIONS)
RENDERED = truth(OPTIONS, renders=True)

Open = Callable[[str], Any]


def home_of(feature: str) -> str:
    return f"http://{next(WEB.hosts_with(feature)).host}"


def node_of(url: str) -> Node:
    node = WEB.find(*split_url(url))
    assert node is not None, url
    return node


@pytest.fixture(scope="module")
def server() -> Iterator[DemoServer]:
    with DemoServer(OPTIONS) as server:
        yield server


@pytest.fixture
def asked() -> list[str]:
    """What the pages of a test ask for."""
    return []


@pytest.fixture
def open_page(browser: Any, server: DemoServer, asked: list[str]) -> Iterator[Open]:
    """Open a URL of the web. What crawlers must not fetch is not fetched."""

    def obey(route: Any) -> None:
        if route.request.url in RENDERED.must_not_fetch:
            route.abort()
        else:
            route.continue_()

    # The server answers the requests that browsers send to a proxy.
    context = browser.new_context(proxy={"server": f"http://{server.address}"})
    context.set_default_timeout(PATIENCE_MS)
    context.on("request", lambda request: asked.append(request.url))
    context.route("**/*", obey)

    def open_url(url: str) -> Any:
        page = context.new_page()
        page.goto(url)
        return page

    yield open_url
    context.close()


def links_on(page: Any) -> set[str]:
    return set(page.eval_on_selector_all("a[href]", "links => links.map(link => link.href)"))


@pytest.mark.parametrize(
    ("feature", "path"),
    [
        ("spa", "/latest/today"),
        ("frame", "/"),
        ("endless", "/"),
        ("slow", "/"),
        ("shared", "/"),
        ("heavy", "/heavy/worker"),
    ],
)
def test_a_browser_shows_the_text_and_the_links_of_the_truth(
    feature: str, path: str, open_page: Open, asked: list[str]
) -> None:
    url = home_of(feature) + path
    page, expected = open_page(url), RENDERED.shown[url]
    for text in expected.texts:
        page.get_by_text(text).wait_for()
    assert {link.url for link in expected.links} <= links_on(page)
    page.wait_for_load_state("networkidle")
    later = {part for part in expected.parts if "list?from=" in part and "from=0" not in part}
    sockets = {part for part in expected.parts if part.endswith("/live")}
    loaded = {each for each in asked if not each.startswith("blob:")}
    assert loaded == {url, *expected.parts} - later - sockets


def test_an_app_shows_a_route_in_its_address_that_nothing_links_to(open_page: Open) -> None:
    url = f"{home_of('spa')}/"
    page = open_page(url)
    page.wait_for_url("**/latest/today")
    page.get_by_text(RENDERED.shown[url].texts[0]).wait_for()
    assert {link.url for link in RENDERED.shown[url].links} - links_on(page) == {page.url}


def test_links_of_an_app_lead_to_routes_without_a_document(
    open_page: Open, asked: list[str]
) -> None:
    home = home_of("slow")
    page = open_page(home)
    target = WEB.page_url(6, 1)
    page.locator(f'a[href="{split_url(target)[1]}"]').click()
    page.get_by_text(RENDERED.shown[target].texts[0]).wait_for()
    assert page.url == target
    assert target not in asked


def test_a_list_grows_when_it_is_scrolled(open_page: Open) -> None:
    url = f"{home_of('endless')}/"
    page, expected = open_page(url), RENDERED.shown[url]
    page.get_by_text(expected.texts[-1]).wait_for()
    later = [split_url(link.url)[1] for link in expected.scrolled]
    assert page.locator(f'a[href$="{later[0]}"]').count() == 0
    page.locator("#end").scroll_into_view_if_needed()
    page.locator(f'a[href$="{later[0]}"]').wait_for()
    assert page.locator(f'a[href$="{later[-1]}"]').count() == 0


def test_pages_lead_to_others(open_page: Open) -> None:
    for way in ("replace", "later", "refresh"):
        page = open_page(f"{home_of('moves')}/go/{way}")
        page.wait_for_url(f"{home_of('moves')}/arrived/{way}")


def test_scripts_add_nothing_to_a_page_that_only_looks_like_an_app(open_page: Open) -> None:
    url = f"{home_of('ready')}/"
    page = open_page(url)
    page.locator("#root[data-ready=yes]").wait_for()
    assert links_on(page) == {link.url for link in WEB.links(node_of(url))}


def test_scripts_add_nothing_to_pages_of_ordinary_hosts(open_page: Open) -> None:
    page = open_page("http://s0.test/")
    page.locator("html.js").wait_for(state="attached")
    assert {link.partition("#")[0].partition("?utm")[0] for link in links_on(page)} <= {
        link.url for link in WEB.links(node_of("http://s0.test/"))
    }


def test_what_robots_txt_forbids_is_not_shown(open_page: Open) -> None:
    page = open_page(f"{home_of('shared')}/closed/1")
    page.wait_for_load_state("networkidle")
    assert page.locator("#app").inner_text() == ""
    assert page.locator("aside").count() == 0
