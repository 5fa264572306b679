"""The zoo of pages for browsers: what is served, and what a crawl must make of it."""

import json
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from parsel import Selector

from demo.access_log import Entry
from demo.answer import Answer
from demo.answers import Answers
from demo.clock import Clock
from demo.closure import split_url
from demo.judge import judge_entries
from demo.node import Node
from demo.profile import BROWSER_FEATURES
from demo.robots_answer import PATH
from demo.truth import Truth, truth
from demo.web import Web, WebOptions

OPTIONS = WebOptions(hosts=14, pages=12, zoo="browser")
WEB = Web(OPTIONS)
PLAIN = truth(OPTIONS)
RENDERED = truth(OPTIONS, renders=True)


def host_with(feature: str) -> str:
    return next(WEB.hosts_with(feature)).host


def node_of(url: str) -> Node:
    node = WEB.find(*split_url(url))
    assert node is not None, url
    return node


def answer_to(url: str) -> Answer:
    return Answers(WEB, Clock()).answer(*split_url(url))


def body_of(url: str) -> str:
    answer = answer_to(url)
    return answer.wire[answer.head_bytes :].decode()


def fields_of(url: str) -> dict[str, str]:
    answer = answer_to(url)
    lines = answer.wire[: answer.head_bytes].decode().strip().split("\r\n")[1:]
    return dict(line.lower().split(": ", 1) for line in lines)


def pages_of(feature: str) -> list[str]:
    """The URLs of a host's pages that a crawl with a browser stores."""
    return sorted(url for url in RENDERED.must_store if split_url(url)[0] == host_with(feature))


def test_twelve_hosts_have_every_kind_and_fewer_than_a_third_of_many_need_a_browser() -> None:
    small, large = (Web(WebOptions(hosts=hosts, zoo="browser")) for hosts in (12, 240))
    found = {name for number in range(12) for name in small.profile(number).features}
    assert set(BROWSER_FEATURES.values()) <= found
    needing = [number for number in range(240) if large.profile(number).needs_browser]
    assert 60 < len(needing) < 80


@pytest.mark.parametrize("renders", [False, True])
@pytest.mark.parametrize(
    "options", [OPTIONS, WebOptions(8, 1, 0, "browser"), WebOptions(60, 20, 5, "browser")]
)
def test_the_sets_do_not_overlap(options: WebOptions, renders: bool) -> None:
    known = truth(options, renders=renders)
    sets = [known.must_fetch, known.must_not_fetch, known.may_fetch, known.parts.keys()]
    assert sum(map(len, sets)) == len(frozenset().union(*sets))
    assert known.must_store <= known.must_fetch
    assert known.shown.keys() <= known.must_fetch
    assert all(documents <= known.must_fetch for documents in known.parts.values())


@pytest.mark.parametrize("truth_of", [PLAIN, RENDERED], ids=["plain", "rendered"])
def test_served_links_are_the_links_of_the_truth(truth_of: Truth) -> None:
    for url in truth_of.must_store:
        node = node_of(url)
        if node.index is None and not node.encoding and node.charset == "utf-8":
            served = Selector(body_of(url)).css("a[href]::attr(href)").getall()
            meta = Selector(body_of(url)).css("meta[http-equiv=refresh]::attr(content)").getall()
            served += [content.partition("url=")[2] for content in meta]
            assert set(served) == {link.url for link in WEB.links(node)}


def test_without_a_browser_only_what_html_links_to_is_reached() -> None:
    assert PLAIN.must_fetch < RENDERED.must_fetch
    assert not PLAIN.parts
    assert not PLAIN.shown
    only_rendered = RENDERED.must_fetch - PLAIN.must_fetch
    assert {split_url(url)[0] for url in only_rendered} <= RENDERED.needs_browser
    assert f"http://{host_with('spa')}/latest/today" in only_rendered
    assert f"http://{host_with('moves')}/arrived/replace" in only_rendered
    assert f"http://{host_with('moves')}/arrived/refresh" in PLAIN.must_fetch


def test_hosts_that_need_no_browser_are_the_same_with_one() -> None:
    def plain_pages(known: Truth) -> set[str]:
        return {url for url in known.must_fetch if split_url(url)[0] not in known.needs_browser}

    assert plain_pages(PLAIN) == plain_pages(RENDERED)
    assert PLAIN.needs_browser == RENDERED.needs_browser
    assert host_with("ready") not in PLAIN.needs_browser
    # Enough of them to count in percents what is rendered without need.
    assert len(plain_pages(PLAIN)) > 60


@pytest.mark.parametrize("feature", ["spa", "frame", "endless", "slow", "shared", "heavy"])
def test_the_text_is_in_parts_and_not_in_the_document(feature: str) -> None:
    shown = {url: RENDERED.shown[url] for url in pages_of(feature) if url in RENDERED.shown}
    assert shown
    for url, page in shown.items():
        parts = " ".join(body_of(part) for part in page.parts)
        document = body_of(url)
        for text in page.texts:
            assert text in parts
            assert text not in document


def test_a_frame_has_some_text_and_links_of_its_own() -> None:
    selector = Selector(body_of(f"http://{host_with('frame')}/"))
    texts = " ".join(selector.css("header ::text, nav ::text, footer ::text").getall())
    assert 250 < len(" ".join(texts.split())) < 450
    assert selector.css("nav a")
    assert not selector.css("main ::text").getall()


def test_what_only_looks_like_an_app_has_all_of_its_text() -> None:
    for url in pages_of("ready"):
        selector = Selector(body_of(url))
        assert selector.css("noscript")
        assert selector.css("script[defer]")
        assert len(" ".join(selector.css("#root ::text").getall()).split()) > 120
        assert url not in RENDERED.shown


def test_hosts_that_need_no_browser_have_scripts_all_the_same() -> None:
    page = body_of("http://s0.test/")
    assert "window.visits" in page
    assert 'src="/static/site.js"' in page
    assert RENDERED.parts["http://s0.test/static/site.js"] >= {"http://s0.test/"}


def test_every_route_has_the_same_shell_unless_it_is_rendered() -> None:
    spa = host_with("spa")
    shells = [group for group in PLAIN.exact_groups if f"http://{spa}/" in group]
    assert len(shells) == 1
    assert len({body_of(url) for url in shells[0]}) == 1
    assert not any(f"http://{spa}/" in group for group in RENDERED.exact_groups)


def test_pages_beyond_the_first_of_an_endless_list_are_optional() -> None:
    host = host_with("endless")
    page = RENDERED.shown[f"http://{host}/"]
    assert page.scrolled
    assert all(RENDERED.may(link.url) for link in page.scrolled)
    assert not any(PLAIN.may(link.url) for link in page.scrolled)
    assert f"http://{host}/items/1" in RENDERED.must_fetch
    # Each answer leads to the next one, up to the last.
    lists = [part for part in page.parts if "/api/list" in part]
    following = [json.loads(body_of(part))["next"] for part in lists]
    assert following == [*range(1, len(lists)), None]


def test_a_slow_api_takes_less_than_a_page_may() -> None:
    delays = {answer_to(part).delay_s for url in pages_of("slow") for part in parts_of(url)}
    assert delays == {0.0, 1.0, 1.5, 2.0}


def parts_of(url: str) -> list[str]:
    """The parts of a page that a crawl may fetch."""
    shown = node_of(url).shown
    assert shown is not None
    return [part for part in shown.parts if part in RENDERED.parts]


def test_pages_that_break_a_browser_are_fetched_and_may_be_fetched_again() -> None:
    home = f"http://{host_with('heavy')}"
    fatal = {f"{home}/heavy/memory", f"{home}/heavy/loop"}
    assert fatal <= RENDERED.must_fetch
    assert not fatal & RENDERED.must_store
    assert not fatal & RENDERED.shown.keys()
    assert {url for url in RENDERED.extra_fetches if url.startswith(home)} == fatal
    assert not fatal & PLAIN.extra_fetches.keys()
    assert f"{home}/heavy/worker" in RENDERED.shown


def test_pages_that_lead_away_are_fetched_and_need_not_be_stored() -> None:
    home = f"http://{host_with('moves')}"
    for way in ("replace", "later", "refresh"):
        assert f"{home}/go/{way}" in RENDERED.must_fetch - RENDERED.must_store
        assert f"{home}/go/{way}" in PLAIN.must_store
        assert f"{home}/arrived/{way}" in RENDERED.must_store


def test_parts_of_other_hosts_follow_the_robots_txt_of_these() -> None:
    page = f"http://{host_with('shared')}/"
    scripts = f"http://{host_with('shares_scripts')}/shared"
    assert page in RENDERED.parts[f"{scripts}/app.js"]
    assert page in RENDERED.parts[f"{scripts}/gone.js"]
    assert answer_to(f"{scripts}/gone.js").status == 404
    assert f"{scripts}/closed/widget.js" in RENDERED.must_not_fetch
    api = next(part for part in parts_of(page) if "/api/" in part)
    assert split_url(api)[0] not in {split_url(page)[0], host_with("shares_scripts")}
    assert fields_of(api)["access-control-allow-origin"] == "*"


def test_content_that_robots_txt_forbids_is_not_expected() -> None:
    home = f"http://{host_with('closes_api')}"
    api = f"{home}/closed-api?path=%2Fclosed%2F1"
    assert f"{home}/closed/1" in RENDERED.must_store
    assert f"{home}/closed/1" not in RENDERED.shown
    assert api in RENDERED.must_not_fetch
    assert json.loads(body_of(api))["texts"]


def test_images_fonts_and_trackers_are_left_out() -> None:
    for path in ("logo.svg", "pixel.gif", "font.woff2"):
        assert f"http://s0.test/static/{path}" in RENDERED.must_not_fetch
    assert {"http://s0.test/collect", "http://s0.test/live"} <= RENDERED.must_not_fetch
    assert fields_of("http://s0.test/static/logo.svg")["content-type"] == "image/svg+xml"


def test_scripts_and_data_have_their_types() -> None:
    types = {urlsplit(part).path: fields_of(part)["content-type"] for part in RENDERED.parts}
    assert types["/static/app.js"] == types["/shared/app.js"] == "text/javascript; charset=utf-8"
    assert types["/static/site.css"] == "text/css; charset=utf-8"
    assert types["/api/page"] == types["/api/list"] == "application/json"
    assert types["/article"] == "text/html; charset=utf-8"


def test_an_api_is_asked_for_paths_as_documents_have_them() -> None:
    web = WebOptions(hosts=12, pages=30, zoo="browser")
    known = truth(web, renders=True)
    asked = {
        parse_qs(urlsplit(part).query)["path"][0]: documents
        for part, documents in known.parts.items()
        if part.startswith("http://s1.test/api/page")
    }
    paths = {split_url(url)[1] for url in known.shown if url.startswith("http://s1.test/")}
    assert asked.keys() == paths
    assert any("%C3%A9" in path for path in paths)
    assert any("%20" in path for path in paths)
    assert any("?id=13&lang=en" in path for path in paths)


def test_a_web_for_browsers_has_few_pages() -> None:
    with pytest.raises(ValueError, match="pages is 500; the zoo browser has at most 120"):
        WebOptions(pages=500, zoo="browser")


class PoliteBrowser:
    """A crawl that fetches each page with its parts, one request at a time."""

    DELAY_S = 0.5

    def __init__(self, known: Truth) -> None:
        self._known = known
        self._now_s = 1000.0
        self._contacts: dict[str, str] = {}

    def crawl(self) -> Iterator[Entry]:
        for number in range(OPTIONS.hosts):
            yield self._fetch(f"http://s{number}.test{PATH}", wait=True)
        for url in sorted(self._known.must_fetch):
            node = node_of(url)
            shown = node.shown
            # The crawl meets failing pages first.
            for _ in range(node.fails or 0):
                yield self._fetch(url, wait=True, status=node.status)
            yield self._fetch(url, wait=True)
            self._contacts = {node.host: url}
            for part in shown.parts if shown else ():
                if part in self._known.parts:
                    host = split_url(part)[0]
                    yield self._fetch(part, wait=self._contacts.get(host) != url)
                    self._contacts[host] = url

    def _fetch(self, url: str, *, wait: bool, status: int | None = None) -> Entry:
        self._now_s += self.DELAY_S if wait else 0.0
        start_s = self._now_s
        self._now_s += 0.01
        host, target = split_url(url)
        if status is None:
            status = self._known.statuses.get(url, 200)
        return Entry(start_s, self._now_s, host, target, status)


def test_a_polite_crawl_with_a_browser_breaks_no_rule() -> None:
    entries = list(PoliteBrowser(RENDERED).crawl())
    verdict = judge_entries(entries, RENDERED, min_delay_s=0.5, delay_factor=1)
    assert verdict.ok, verdict.lines()
    # For a crawl without one the same requests are wrong.
    found = judge_entries(entries, PLAIN, min_delay_s=0.5).violations
    assert {rule for rule, broken in found.items() if broken} >= {"unknown", "too_soon"}
