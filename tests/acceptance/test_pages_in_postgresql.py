"""What `scrapy pages` reads of a crawl in PostgreSQL and WARC files, alone and beside MongoDB."""

import argparse
import gzip
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pyarrow.parquet
import pymongo
import pytest

from crawler.commands import pages
from demo.process import DemoServer
from demo.truth import truth
from demo.web import Web, WebOptions
from tests.acceptance.crawls import Crawls, scrapy
from tests.support.crawlers import project_crawler
from tests.support.postgres_server import PostgresServer

# With duplicates, redirects, pages that fail, that forbid their storage, and of odd types.
OPTIONS = WebOptions(hosts=12, pages=4, seed=3, zoo="demo")
# Fields of pages that PostgreSQL has for URLs that ever gave one.
OF_PAGES = set("headers size_bytes charset etag last_modified links links_count places".split())


@dataclass
class Crawled:
    """A crawl with its settings; `run` is a command in this process, which is faster."""

    settings: dict[str, Any]
    folder: Path
    capture: pytest.CaptureFixture[str] | None = None

    def run(self, *arguments: str, expected: int = 0) -> str:
        assert self.capture is not None
        command = pages.Command()
        command.settings = project_crawler(**self.settings).settings
        self.capture.readouterr()
        command.run(list(arguments), argparse.Namespace())
        sys.stdout.flush()
        found = self.capture.readouterr()
        assert command.exitcode == expected, found.err
        return found.out if not expected else found.err

    def lines(self, *arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run(*arguments).splitlines()]


@pytest.fixture(scope="module")
def crawled(
    tmp_path_factory: pytest.TempPathFactory,
    redis_server: str,
    mongo_server: str,
    postgres_server: PostgresServer,
) -> Iterator[Crawled]:
    """One crawl into both stores, and WARC files."""
    name, folder = f"test_{uuid4().hex}", tmp_path_factory.mktemp("both")
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        crawls = Crawls(folder, redis_server, mongo_server, name)
        sinks = f"mongo {postgres_server.url(name)}?schema=pages warc:{folder / 'warc'}"
        settings = {"SINKS": sinks, "CRAWL": "both"}
        with DemoServer(OPTIONS, folder / "access.log") as web:
            run = crawls.run(
                Web(OPTIONS).seeds[0], web=web, arguments={"scope": "any"}, settings=settings
            )
        assert run.code == 0, run.stderr
        assert "Traceback" not in run.stderr
        kept = ("REDIS_URL", "CRAWL_DIR", "MONGO_URI", "MONGO_DATABASE")
        known = {name: str(value) for name, value in crawls.settings().items() if name in kept}
        yield Crawled({**known, **settings}, folder)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    with pymongo.MongoClient[dict[str, Any]](mongo_server) as client:
        client.drop_database(name)


@pytest.fixture
def both(crawled: Crawled, capfd: pytest.CaptureFixture[str]) -> Crawled:
    return Crawled(crawled.settings, crawled.folder, capfd)


@pytest.fixture
def alone(both: Crawled) -> Crawled:
    """The same crawl for commands that know of no MongoDB."""
    known = {name: both.settings[name] for name in ("REDIS_URL", "CRAWL_DIR", "CRAWL")}
    sinks = both.settings["SINKS"].removeprefix("mongo ")
    return Crawled({**known, "SINKS": sinks}, both.folder, both.capture)


def test_every_page_is_found_without_mongodb(alone: Crawled) -> None:
    found = alone.lines("find", "--json", "--limit", "0")
    assert not (alone.folder / "crawl" / "mongo").exists()
    expected = truth(OPTIONS, read_sitemaps=True)
    urls = {page["url"] for page in found if page["status"] == 200 and not page["reason"]}
    assert not expected.missing_from(urls)
    assert len({(page["crawl"], page["url_hash"]) for page in found}) == len(found)
    assert {page["status"] for page in found} >= {0, 200}
    stats = json.loads(alone.run("stats", "--json"))
    assert (stats["urls"], stats["crawls"]) == (len(found), {"both": len(found)})
    assert stats["duplicates"] == sum(bool(page["duplicate_of"]) for page in found) > 0
    assert "pages with content" in alone.run("stats")


def test_pages_are_shown_with_html_text_and_headers(alone: Crawled) -> None:
    pages = alone.lines("find", "--json", "--status", "200", "--limit", "0")
    kept = next(page for page in pages if not page["reason"] and not page["duplicate_of"])
    shown = json.loads(alone.run("get", kept["url"], "--json"))
    assert shown == kept
    assert shown["headers"]["content-type"].startswith("text/html")
    assert len(alone.run("get", kept["url"], "--body")) > 100
    text = alone.run("get", kept["url"], "--text").strip()
    assert text[:200] in alone.run("get", kept["url"])
    copy = next(page for page in pages if page["duplicate_of"])
    original = next(page for page in pages if page["url_hash"] == copy["duplicate_of"])
    told = json.loads(alone.run("get", copy["url"], "--body", "--json"))
    assert told["content_url"] == original["url"]
    hidden = next(page for page in pages if page["reason"] == "noindex")
    assert "asks not to be kept" in alone.run("get", hidden["url"], "--body", expected=1)


def test_all_formats_are_exported(alone: Crawled, tmp_path: Path) -> None:
    count = json.loads(alone.run("stats", "--json"))["pages"]
    for name in ("p.jsonl", "p.csv", "p.parquet", "p.warc.gz"):
        alone.run("export", "-o", str(tmp_path / name))
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert len(lines) == count
    html = [line for line in lines if line["content_type"] == "text/html" and line["size_bytes"]]
    assert all(line["body"] for line in html)
    assert sum(bool(line["text"]) for line in html) > len(html) * 0.9
    table = pyarrow.parquet.read_table(tmp_path / "p.parquet").to_pylist()
    assert [len(row["body"]) for row in table] == [row["size_bytes"] for row in table]
    assert [row["url"] for row in table] == [line["url"] for line in lines]
    assert (tmp_path / "p.csv").read_text().startswith("crawl,url,url_hash")
    records = gzip.decompress((tmp_path / "p.warc.gz").read_bytes())
    assert records.count(b"\r\nWARC-Type: response\r\n") == count
    printed = alone.lines("export", "-o", "-", "--columns", "url,title", "--all")
    assert len(printed) == json.loads(alone.run("stats", "--json"))["urls"]


def test_what_is_for_mongodb_alone_is_refused_in_one_line(alone: Crawled) -> None:
    alone.run("repair")
    tiers = {"PAGES_KEEP": "7d/180d/5y", "PAGES_TIER_URL": alone.folder.as_uri()}
    alone.settings = {**alone.settings, **tiers}
    for arguments in (["tier"], ["migrate", "--crawl", "x"]):
        error = alone.run(*arguments, expected=2)
        assert "This is for pages in MongoDB, and SINKS is postgresql://" in error
    assert not (alone.folder / "crawl" / "mongo").exists()


def test_the_doctor_and_the_end_of_a_crawl_do_not_ask_for_mongodb(alone: Crawled) -> None:
    options = [part for item in alone.settings.items() for part in ("-s", "=".join(item))]
    done = scrapy("doctor", *options)
    assert "MongoDB" not in done.stdout + done.stderr
    assert "PostgreSQL 18" in done.stdout
    assert not (alone.folder / "crawl" / "mongo").exists()


# --- beside MongoDB -------------------------------------------------------------------------------


def same(page: dict[str, Any]) -> dict[str, Any]:
    """What both stores have alike. MongoDB keeps times in milliseconds."""
    left_out = {"compression_ratio"} | (set() if page["content_hash"] else OF_PAGES)
    found = {name: value for name, value in page.items() if name not in left_out}
    for version in found["versions"]:
        version["at"] = milliseconds(version["at"])
    for name in ("discovered_at", "first_seen", "crawled_at", "next_crawl"):
        found[name] = milliseconds(found[name])
    return found


def milliseconds(text: str | None) -> datetime | None:
    at = datetime.fromisoformat(text) if text else None
    return None if at is None else at.replace(microsecond=at.microsecond // 1000 * 1000)


def test_both_stores_have_the_same_pages_field_by_field(both: Crawled) -> None:
    found = [
        {
            page["url"]: page
            for page in both.lines("find", "--json", "--limit", "0", "--store", store)
        }
        for store in ("mongo", "postgresql")
    ]
    assert found[0].keys() == found[1].keys()
    for url, page in found[0].items():
        assert same(found[1][url]) == same(page), url


def test_both_stores_export_the_same_content(both: Crawled) -> None:
    columns = "url,title,charset,text,body"
    found = [
        {
            page["url"]: page
            for page in both.lines("export", "-o", "-", "--columns", columns, "--store", store)
        }
        for store in ("mongo", "postgresql")
    ]
    assert len(found[0]) > 50
    assert found[0].keys() == found[1].keys()
    for url, page in found[0].items():
        assert found[1][url] == page, url


def test_both_stores_have_the_same_figures(both: Crawled) -> None:
    found = [json.loads(both.run("stats", "--json", "--store", s)) for s in ("mongo", "postgresql")]
    for stats in found:
        assert stats.pop("disk_bytes") > 0
        for name in ("first_crawled", "last_crawled"):
            stats[name] = milliseconds(stats[name])
    assert found[0] == found[1]
