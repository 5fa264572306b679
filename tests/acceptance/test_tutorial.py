"""Every command of the docs that is marked as runnable runs: in a copy of the project, in the order
of the tutorial, against one crawl; and the tutorial of the add-on in an empty folder."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.process import DemoServer
from demo.web import WebOptions
from tests.support.written import ROOT, copy_project, replaced, run_script, runnable_blocks

TUTORIAL = [
    f"docs/tutorial/{name}.md"
    for name in ("first-crawl", "own-site", "own-fields", "look-at-data", "fleet", "real-servers")
]
ADDON = "docs/tutorial/addon.md"
# Run by test_streams.py.
STREAMS = "docs/streams.md"
SITES = (("https://example.com", "http://s0.test"),)
POLITENESS = "DELAY_MIN = 0.02\nDELAY_FACTOR = 1.0\nALLOW_NETWORKS = ['127.0.0.0/8']\n"


@pytest.fixture(scope="module")
def web() -> Iterator[DemoServer]:
    with DemoServer(WebOptions(hosts=6, pages=6, seed=1, zoo="none")) as server:
        yield server


def test_no_runnable_command_is_left_out() -> None:
    pages = (path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
    assert {page for page in pages if runnable_blocks(page)} <= {*TUTORIAL, ADDON, STREAMS}


@pytest.mark.timeout(300)
def test_the_tutorial_works_as_it_stands(
    tmp_path: Path, web: DemoServer, redis_url: str, mongo_uri: str, mongo_db_name: str
) -> None:
    project = copy_project(tmp_path / "project")
    script = "\n".join(block for page in TUTORIAL for block in runnable_blocks(page))
    domain = ("--domain example.com", "--domain s0.test")
    output = run_script(
        replaced(script, (domain, *SITES)),
        project,
        {
            "SCRAPY_SETTINGS_MODULE": "tests.acceptance.readme_settings",
            "README_OVERRIDES": json.dumps(web.overrides),
            "README_DATABASE": mongo_db_name,
            "PYTHONPATH": str(project),
            "REDIS_URL": redis_url,
            "MONGO_URI": mongo_uri,
        },
        timeout_s=280,
    )
    # Own fields, exports of both crawls, and what the frontier says.
    headings = [json.loads(line) for line in (project / "headings.jsonl").read_text().splitlines()]
    assert headings
    assert all(page["extra"]["first_heading"] == page["title"] for page in headings)
    pages = [json.loads(line) for line in (project / "pages.jsonl").read_text().splitlines()]
    assert {page["url"] for page in pages} == {page["url"] for page in headings}
    assert f"largest domains     s0.test {2 * len(pages)}" in output
    assert "No process works on it." in output


@pytest.mark.timeout(300)
def test_the_tutorial_of_the_add_on_works_as_it_stands(
    tmp_path: Path, web: DemoServer, redis_url: str
) -> None:
    addons = "ADDONS = {"
    own = f"{POLITENESS}DNS_OVERRIDES = {web.overrides!r}\n{addons}"
    output = run_script(
        replaced("\n".join(runnable_blocks(ADDON)), (*SITES, (addons, own))),
        tmp_path,
        {"REDIS_URL": redis_url, "PYTHONPATH": str(ROOT)},
        timeout_s=280,
    )
    assert "crawl          books" in output
    lines = (tmp_path / "library" / "books.jsonl").read_text().splitlines()
    items = [json.loads(line) for line in lines]
    # Of the last run, which was the first of a fresh crawl.
    assert items[0]["url"] == "http://s0.test/"
    assert len({item["url"] for item in items}) == len(items)
