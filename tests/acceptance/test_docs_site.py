"""The docs site, as `make docs` builds it, in a real browser."""

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import PATIENCE_MS
from tests.support.threaded_server import running
from tests.support.written import ROOT

DRAWN = "explanation/frontier explanation/leases explanation/politeness architecture".split()
VIEWS = {
    "light": {"viewport": {"width": 1400, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1400, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}},
}


class QuietHandler(SimpleHTTPRequestHandler):
    """Handler of files that logs nothing."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without a warning."""
    for package in ("mkdocs", "material", "mermaidx"):
        pytest.importorskip(package, reason="requirements-docs.txt is not installed: make docs")
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


@pytest.fixture
def served(site: Path) -> Iterator[str]:
    handler = partial(QuietHandler, directory=str(site))
    with running(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}/"


def diagrams(page: str) -> int:
    return (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8").count("```mermaid")


def test_every_page_of_the_docs_is_in_the_site(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    missing = {
        page
        for page in pages
        if not (site / page.with_name(page.name.replace("README.md", "index.md")))
        .with_suffix(".html")
        .is_file()
    }
    assert len(pages) > 60
    assert missing == set()


def test_it_draws_diagrams_and_searches_without_another_site(
    served: str, browser: Any, artefacts: Path
) -> None:
    asked: set[str] = set()
    complaints: list[str] = []
    for view, options in VIEWS.items():
        page = browser.new_page(**options)
        page.on("request", lambda request: asked.add(request.url))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        for name in DRAWN if view == "light" else DRAWN[:1]:
            page.goto(f"{served}{name}.html")
            # The theme replaces the text of each diagram when it has drawn it.
            page.wait_for_function(
                f"document.querySelectorAll('div.mermaid').length === {diagrams(name)}",
                timeout=PATIENCE_MS,
            )
            for diagram in page.locator("div.mermaid").all():
                box = diagram.bounding_box()
                assert box["height"] > 30, name
                assert box["width"] > 100, name
            page.screenshot(path=artefacts / f"docs-{name.rpartition('/')[2]}-{view}.png")
        if view == "light":
            page.get_by_role("textbox", name="Search").fill("REDIS_GIVE_UP")
            found = page.locator(".md-search-result__item", has_text="Settings").first
            found.wait_for(timeout=PATIENCE_MS)
        page.close()
    assert {url for url in asked if not url.startswith((served, "data:", "blob:"))} == set()
    assert complaints == []
