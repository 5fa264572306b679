"""Pages are visited again on time, by the process that found them or by a later one."""

import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pymongo
import pytest

from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import Process, sizes
from tests.support.archives import audit
from tests.support.threaded_server import running
from tests.support.waiting import wait_until

LETTERS = [chr(97 + number % 26) + "x" * (number // 26) for number in range(300)]
OFTEN = {"RECRAWL": '{"min_s": 0.5}', "CRAWL_IDLE": "wait"}
KEPT = ("/", "/same", "/clock", "/news", "/new", "/listed")
SITEMAP = "/map.xml"


def body_of(path: str, hit: int, site: str) -> str:
    """The page at its `hit`-th visit, from 0 on; later ones have links that were not there."""
    if path == SITEMAP:
        page = "<url><loc>/listed</loc><changefreq>daily</changefreq></url>" if hit else ""
        return f"<urlset>{page}</urlset>"
    if path == "/robots.txt":
        return f"Sitemap: {site}{SITEMAP}"
    links = {"/": "/same /clock /news /gone", "/news": "/new" if hit else ""}.get(path, "")
    word = path[1:] or "home"
    if path == "/news":
        word += "s" * hit
    # A text of its own: no page is another's duplicate.
    text = " ".join(f"{word}{letters}" for letters in LETTERS)
    if path == "/clock":
        text += f" It is {hit:02}:{hit:02}."
    anchors = "".join(f'<a href="{link}">{link}</a>' for link in links.split())
    return f"<html><body><p>{text}</p>{anchors}</body></html>"


class Site(ThreadingHTTPServer):
    """Pages that stay the same, show a clock, have news, go away; and a sitemap that grows."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[tuple[str, int]] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def hits(self, status: int | None = None) -> Counter[str]:
        with self.lock:
            return Counter(path for path, code in self.answers if status in (None, code))


class Handler(BaseHTTPRequestHandler):
    server: Site
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path, site = self.path, self.server
        hit = site.hits()[path]
        etag = f'"{path}"' if path in ("/", "/same") else ""
        status = 200 if path in (*KEPT, "/gone", SITEMAP, "/robots.txt") else 404
        if path == "/gone" and hit:
            status = 410
        if etag and self.headers.get("If-None-Match") == etag:
            status = 304
        with site.lock:
            site.answers.append((path, status))
        body = body_of(path, hit, site.url).encode() if status == 200 else b""
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        if etag:
            self.send_header("ETag", etag)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def site() -> Iterator[Site]:
    with running(Site()) as server:
        yield server


def test_pages_are_visited_again_and_their_changes_are_known(
    tmp_path: Path, site: Site, redis_url: str, mongo_uri: str, mongo_db_name: str
) -> None:
    crawls = Crawls(tmp_path, redis_url, mongo_uri, mongo_db_name)
    archived = {**OFTEN, "SINKS": f"mongo warc:{tmp_path / 'archive'}"}
    command = crawls.command(site.url, arguments={"recrawl": "fixed:1s"}, settings=archived)
    process = Process(command, tmp_path / "process.log")
    try:
        wait_until(lambda: min(site.hits()[path] for path in KEPT) >= 2, deadline_s=60.0)
        process.send(signal.SIGINT)
        assert process.wait() == 0, process.log
        ended = time.time()
    finally:
        process.kill()
    assert "Traceback" not in process.log
    first = site.hits()
    # What stays the same is not sent again; what is gone for good is not asked for again.
    assert site.hits(304)["/same"] == first["/same"] - 1
    assert first["/gone"] == 2
    after = sizes(redis_url)
    # Some may have been due when it ended.
    assert after.recrawls + after.waiting == len(KEPT) + 1
    assert (after.leased, after.retries, after.dead) == (0, 0, 0)
    # Every visit that was answered with a page counts once.
    assert after.pages == sum(site.hits(200)[path] for path in (*KEPT, "/gone"))

    with pymongo.MongoClient[dict[str, Any]](mongo_uri, tz_aware=True) as client:
        database = client[mongo_db_name]
        found = {
            page["url"].removeprefix(site.url): page for page in database["pages_metadata"].find()
        }
        content = {page["page_id"] for page in database["pages_content"].find()}
    assert set(found) == {*KEPT, "/gone"}
    for path in KEPT:
        page = found[path]
        assert (page["visits"], page["status"]) == (first[path], 200), path
        assert page["next_crawl"] > page["crawled_at"]
        assert page["url_hash"] in content
        assert not page["duplicate_of"]
    assert found["/news"]["changes"] == first["/news"] - 1
    assert len(found["/news"]["versions"]) == min(20, first["/news"])
    assert {found[path]["changes"] for path in ("/", "/same", "/clock", "/listed")} == {0}
    assert (found["/gone"]["status"], found["/gone"]["next_crawl"]) == (410, None)

    # The archive has every visit once; those that changed nothing are revisits.
    captures = audit(tmp_path / "archive").lines
    for path in KEPT:
        visits = [line["visit"] for line in captures if line["url"] == f"{site.url}{path}"]
        assert len(set(visits)) == len(visits) == first[path]
    unchanged = [line for line in captures if line["url"] == f"{site.url}/same"]
    assert [line["status"] for line in unchanged[1:]] == ["304"] * (first["/same"] - 1)
    assert {line["mime"] for line in unchanged[1:]} == {"warc/revisit"}

    # A crawl that has all the pages it may have fetches nothing, though they are due.
    wait_until(lambda: time.time() > ended + 2.1)
    limited = crawls.run(arguments={"max_pages": 1})
    assert limited.summary["reason"] == "max_pages", limited.stderr
    assert site.hits() == first

    # A later process goes on with what is due, and does not wait for the next time.
    before = datetime.now(UTC)
    later = crawls.run(arguments={"max_pages": 0})
    assert later.summary["finished"], later.stderr
    assert site.hits() == first + Counter(dict.fromkeys((*KEPT, SITEMAP), 1))
    assert later.summary["this_run"]["recrawled"] == {"unchanged": len(KEPT) - 1, "changed": 1}
    assert later.summary["this_run"]["not_modified"] == 2
    assert later.summary["this_run"]["pages"] == len(KEPT) - 2
    assert later.summary["this_run"]["success_rate"] == 1.0
    assert later.summary["whole_crawl"]["recrawls"] == len(KEPT) + 1
    assert "will be visited again by later runs" in later.summary["why"]
    with pymongo.MongoClient[dict[str, Any]](mongo_uri, tz_aware=True) as client:
        page = client[mongo_db_name]["pages_metadata"].find_one({"url": f"{site.url}/same"})
    assert page is not None
    assert page["crawled_at"] >= before.replace(microsecond=0)
    # RECRAWL was not given this time: an hour is the least.
    assert (page["next_crawl"] - page["crawled_at"]).total_seconds() == 3600
