"""The dashboard in a real browser, by tokens that may only look, and that come and go."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from crawler.admin.tokens import Role, TokenFile, token_file
from tests.acceptance.dashboards import Dashboard, Served
from tests.acceptance.operated import STORED, Operated, options_of

# Each view, and what it shows when it has its answers.
VIEWS = {
    "overview": "#codes .bar",
    "hosts": "#host-rows button",
    "host/news.test": "#host-robots pre",
    f"url/{quote(STORED, safe='')}": "#page-tab pre",
    "pages": "#page-rows a",
    "dead": "#requeue:not([disabled])",
    "processes": "#worker-rows button",
    "options": "#option-rows input",
    "log": "#log-rows td",
}
# Asked by the page itself from now on, beside GET.
_RECORD_WRITES = """
const fetched = window.fetch;
window.writes = [];
window.fetch = (path, options) => {
  if ((options?.method ?? "GET") !== "GET") window.writes.push(`${options.method} ${path}`);
  return fetched(path, options);
};
"""
# All buttons that can be clicked; the one that signs out comes later.
_CLICK_ALL = """
() => {
  const all = [...document.querySelectorAll("#app button:not(#sign-out)")];
  const shown = all.filter((one) => one.checkVisibility() && !one.disabled);
  shown.forEach((one) => one.click());
  return [shown.length, shown.filter((one) => one.ariaDisabled === "true" && one.title).length];
}
"""


@pytest.fixture
def operated(redis_url: str, mongo_uri: str, mongo_db_name: str) -> Iterator[Operated]:
    crawl = Operated(redis_url, mongo_uri, mongo_db_name)
    with crawl.working():
        yield crawl


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    return token_file(None, tmp_path / "crawl")


def test_who_may_only_look_sees_all_and_changes_nothing_until_another_token_comes(
    tmp_path: Path, operated: Operated, tokens: TokenFile, browser: Any, artefacts: Path
) -> None:
    reader, ops = tokens.add("grafana", Role.READ), tokens.add("ops", Role.OPERATE)
    settings = operated.settings | {"CRAWL_DIR": str(tmp_path / "crawl")}
    command = ["admin", "--port", "0", "--crawl", "web", *options_of(settings)]
    with Served(tmp_path / "admin.log", *command) as url:
        dashboard = Dashboard(browser, url, viewport={"width": 1280, "height": 800})
        page = dashboard.page
        page.evaluate(_RECORD_WRITES)
        dashboard.sign_in(reader.text)
        dashboard.wait_for_text("#live", "live")
        dashboard.wait_for_text("#role", "read only")
        marked = 0
        for view, answer in VIEWS.items():
            page.evaluate(f"location.hash = '#{view}'")
            page.locator(answer).first.wait_for(state="visible")
            marked += page.evaluate(_CLICK_ALL)[1]
        # Pause in each view; two buttons of the host's page, and more.
        assert marked >= len(VIEWS) + 6
        dashboard.wait_for_text("#toasts", "Sign in with one that has the role operate")
        page.screenshot(path=artefacts / "dashboard-read-only.png")
        # By keyboard, too.
        page.evaluate("location.hash = '#host/news.test'")
        page.get_by_label("Delay in s").fill("10")
        page.keyboard.press("Enter")
        assert page.evaluate("window.writes") == []
        assert page.locator("dialog[open]").count() == 0

        # Its token is removed: the page is left at once, and another one is asked for.
        tokens.remove("grafana")
        dashboard.wait_for_text("#sign-in-error", re.compile("not valid any more|missing or wrong"))
        dashboard.sign_in(ops.text)
        dashboard.wait_for_text("#live", "live")
        assert page.locator("#role").is_hidden()
        assert page.locator("[aria-disabled]").count() == 0
        page.get_by_role("button", name="Pause").click()
        dashboard.wait_for_text("#state", "paused")
    assert dashboard.complaints == []
    log = (tmp_path / "admin.log").read_text()
    assert "ops POST /crawl/pause: 200" in log
    assert "grafana POST" not in log
    assert reader.text not in log
    assert ops.text not in log
