"""A crawl that meets the zoo of hostile files beside ordinary hosts."""

import json
import os
from pathlib import Path

import pytest

from demo.features.documents import path_of
from demo.hostile_files import ZOO
from demo.process import DemoServer
from demo.truth import truth
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls

IS_STORM = bool(os.environ.get("STORM"))
# The last of 16 hosts has the files that take long.
WEB = WebOptions(hosts=16 if IS_STORM else 14, pages=3, zoo="documents")


@pytest.mark.timeout(600)
def test_each_hostile_file_is_a_page_with_its_reason_and_all_others_are_crawled(
    tmp_path: Path, redis_url: str
) -> None:
    crawl, feed = Crawls(tmp_path, redis_url), tmp_path / "pages.jsonl"
    # [] is written for the command line.
    settings = {"ACCEPT_TYPES": "", "DOCUMENT_TIMEOUT": 60, "DOCUMENT_NICE": 0}
    with DemoServer(WEB, tmp_path / "access.log") as web:
        run = crawl.run(
            "http://s0.test/",
            web=web,
            arguments={"scope": "any"},
            settings=settings,
            options=("-o", str(feed)),
        )
    assert run.code == 0, run.stderr
    assert run.summary["finished"]
    pages = [json.loads(line) for line in feed.read_text(encoding="utf-8").splitlines()]
    found = {
        page["url"].partition(".test")[2]: (page["stored"], "".join(page["flags"]))
        for page in pages
        if "/documents/" in page["url"]
    }
    assert found == {
        path_of(file): (True, file.flag) for file in ZOO if IS_STORM or not file.is_slow
    }
    stored = [page["url"] for page in pages if page["stored"] or page["duplicate_of"]]
    assert len(stored) == len(set(stored))
    assert not truth(WEB).missing_from(stored)
