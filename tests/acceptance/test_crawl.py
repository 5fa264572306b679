"""Whole crawls of the synthetic web, judged by the server's log and by what was stored."""

import json
from pathlib import Path
from typing import Any

import pymongo
import pytest

from demo.access_log import read_log
from demo.judge import judge
from demo.process import DemoServer
from demo.truth import truth
from demo.web import Web, WebOptions
from tests.acceptance.crawls import Crawls, scrapy

OPTIONS = WebOptions(hosts=24, pages=5, seed=3, zoo="demo")
MIN_DELAY_S = 0.02


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "access.log"


def test_a_crawl_fetches_what_it_must_and_nothing_that_robots_forbid(
    tmp_path: Path, redis_url: str, mongo_uri: str, mongo_db_name: str, log: Path
) -> None:
    crawls = Crawls(tmp_path, redis_url, mongo_uri, mongo_db_name)
    # The delay of the judge is the crawl's own; the clocks differ by less than this.
    with DemoServer(OPTIONS, log) as web:
        run = crawls.run(
            Web(OPTIONS).seeds[0],
            web=web,
            arguments={"scope": "any"},
            settings={"DELAY_MIN": MIN_DELAY_S + 0.01},
        )
    assert run.code == 0, run.stderr
    assert run.summary["finished"], run.stderr
    expected = truth(OPTIONS, read_sitemaps=True)
    verdict = judge(log, expected, min_delay_s=MIN_DELAY_S)
    assert verdict.ok, "\n".join(verdict.lines())
    # The case that leaks in Scrapy's own middleware: links to forbidden pages, found all at once.
    assert expected.must_not_fetch
    assert not expected.must_not_fetch & {entry.url for entry in read_log(log)}
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        pages = client[mongo_db_name]
        kept = {page["page_id"] for page in pages["pages_content"].find()}
        records = {page["url"]: page for page in pages["pages_metadata"].find()}
    stored = {url for url, page in records.items() if page["url_hash"] in kept}
    assert not expected.missing_from(stored)
    # What was not fetched is on record too.
    denied = {url for url, page in records.items() if page["reason"] == "robots"}
    assert denied
    assert denied <= expected.must_not_fetch
    assert not any(records[url]["robots_allowed"] for url in denied)
    assert "Traceback" not in run.stderr
    assert "Warning" not in run.stderr
    # What the summary counts can be read back.
    servers = ("-s", f"MONGO_URI={mongo_uri}", "-s", f"MONGO_DATABASE={mongo_db_name}")
    exported = scrapy("pages", "export", "-o", "-", "--no-body", *servers)
    assert exported.code == 0, exported.stderr
    lines = exported.stdout.splitlines()
    assert len(lines) == run.summary["this_run"]["stored"]
    assert {json.loads(line)["url"] for line in lines} == stored


def test_pages_can_go_to_a_file_instead_of_mongodb(
    tmp_path: Path, redis_url: str, log: Path
) -> None:
    options = WebOptions(hosts=2, pages=6, zoo="none")
    feed = tmp_path / "pages.jsonl"
    with DemoServer(options, log) as web:
        run = Crawls(tmp_path, redis_url).run(
            "http://s0.test/", web=web, arguments={"scope": "any"}, options=("-O", str(feed))
        )
    assert run.code == 0, run.stderr
    pages = [json.loads(line) for line in feed.read_text(encoding="utf-8").splitlines()]
    assert {page["url"] for page in pages} == truth(options).must_fetch
    for page in pages:
        assert page["status"] == 200
        assert page["title"]
        assert page["body"].startswith("<!DOCTYPE html>")
        assert len(page["content_hash"]) == 64
        assert page["discovered_at"] <= page["crawled_at"]
        assert "content-length" in page["headers"] or "transfer-encoding" in page["headers"]
    # One process read all parents itself.
    parents = {page["url"]: page["parent_url"] for page in pages}
    assert parents.pop("http://s0.test/") is None
    assert parents
    hashes = {page["url"]: page["url_hash"] for page in pages}
    assert all(hashes[parents[page["url"]]] == page["parent"] for page in pages if page["parent"])
    assert not (tmp_path / "crawl").exists()  # no embedded server was started


def test_duplicates_are_known_without_mongodb_too(
    tmp_path: Path, redis_url: str, log: Path
) -> None:
    options = WebOptions(hosts=24, pages=5, seed=3, zoo="demo")
    feed = tmp_path / "pages.jsonl"
    expected = truth(options, read_sitemaps=True)
    assert expected.exact_groups
    with DemoServer(options, log) as web:
        run = Crawls(tmp_path, redis_url).run(
            "http://s0.test/", web=web, arguments={"scope": "any"}, options=("-O", str(feed))
        )
    assert run.code == 0, run.stderr
    pages = [json.loads(line) for line in feed.read_text(encoding="utf-8").splitlines()]
    marked = {page["url"] for page in pages if page["duplicate_of"]}
    assert any(group & marked for group in expected.exact_groups)
    # Two equals that are fetched at the same time may both be kept, never neither.
    assert all(group - marked for group in expected.exact_groups)
    assert run.summary["this_run"]["duplicates_exact"] > 0


def test_without_a_browser_pages_of_scripts_are_crawled_as_they_are_served(
    tmp_path: Path, redis_url: str, log: Path
) -> None:
    options = WebOptions(hosts=12, pages=6, zoo="browser")
    feed = tmp_path / "pages.jsonl"
    with DemoServer(options, log) as web:
        run = Crawls(tmp_path, redis_url).run(
            "http://s0.test/",
            web=web,
            arguments={"scope": "any"},
            settings={"DELAY_MIN": MIN_DELAY_S + 0.01},
            options=("-O", str(feed)),
        )
    assert run.code == 0, run.stderr
    expected = truth(options)
    verdict = judge(log, expected, min_delay_s=MIN_DELAY_S)
    assert verdict.ok, "\n".join(verdict.lines())
    pages = [json.loads(line) for line in feed.read_text(encoding="utf-8").splitlines()]
    assert {page["url"] for page in pages} >= expected.must_store
    # What only a browser shows is not there.
    shown = truth(options, renders=True).shown
    texts = {page["url"]: page["text"] for page in pages if page["url"] in shown}
    assert texts
    assert not any(text in texts[url] for url in texts for text in shown[url].texts)


def test_a_host_in_a_private_network_is_given_up_at_once(tmp_path: Path, redis_url: str) -> None:
    with DemoServer(WebOptions(hosts=1, pages=1), tmp_path / "access.log") as web:
        run = Crawls(tmp_path, redis_url).run(
            "http://s0.test/", web=web, settings={"ALLOW_NETWORKS": ""}
        )
    assert run.code == 0, run.stderr
    assert run.summary["finished"]
    assert run.summary["this_run"]["dead"] == {"private_address": 1}
    assert list(read_log(tmp_path / "access.log")) == []


def test_a_second_run_has_nothing_left_to_do(tmp_path: Path, redis_url: str, log: Path) -> None:
    options = WebOptions(hosts=2, pages=3, zoo="none")
    crawls = Crawls(tmp_path, redis_url)
    with DemoServer(options, log) as web:
        first = crawls.run("http://s0.test/", web=web, arguments={"scope": "any"})
        second = crawls.run("http://s0.test/", web=web, arguments={"scope": "any"})
    assert first.summary["this_run"]["pages"] == len(truth(options).must_fetch)
    assert second.summary["this_run"]["pages"] == 0
    assert second.summary["this_run"]["seeds_known"] == 1
    urls = [entry.url for entry in read_log(log)]
    assert len(urls) == len(set(urls))
