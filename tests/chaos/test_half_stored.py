"""A process dies between content-seen and the store, or between the store and content-seen."""

import json
import signal
from pathlib import Path
from typing import Any

import pymongo

from crawler.settings import ITEM_PIPELINES
from demo.process import DemoServer
from demo.truth import truth
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls

WEB = WebOptions(hosts=1, pages=8, seed=3, zoo="none")
SEED = "http://s0.test/"
BEFORE_LINKS, AFTER_STORE = 150, 950


def test_a_page_that_was_lost_on_its_way_is_stored_and_its_links_are_followed(
    tmp_path: Path, redis_url: str, mongo_uri: str, mongo_db_name: str
) -> None:
    crawls = Crawls(tmp_path, redis_url, mongo_uri, mongo_db_name)
    with DemoServer(WEB, tmp_path / "access.log") as web:
        for place in (BEFORE_LINKS, AFTER_STORE):
            pipelines = json.dumps({**ITEM_PIPELINES, "tests.chaos.dying.Dies": place})
            died = crawls.run(SEED, web=web, settings={"ITEM_PIPELINES": pipelines, "LEASE_TTL": 1})
            assert died.code == -signal.SIGKILL, died.stderr
        run = crawls.run(None, web=web, settings={"LEASE_TTL": 1})
    assert run.code == 0, run.stderr
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        database = client[mongo_db_name]
        pages = {page["url"]: page for page in database["pages_metadata"].find()}
        kept = {page["page_id"] for page in database["pages_content"].find()}
    assert set(pages) == truth(WEB).must_fetch
    for page in pages.values():
        assert not page["duplicate_of"]
        assert page["url_hash"] in kept
