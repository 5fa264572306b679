"""A crawl that keeps to a language, and stores what its site says about the use of its pages."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.acceptance.crawls import Crawls

ENGLISH = "Everyone has the right to freedom of thought, conscience and religion in this world."
GERMAN = "Jeder hat das Recht auf Gedankens-, Gewissens- und Religionsfreiheit in dieser Welt."
PAGES = {
    "/": f"<p>{ENGLISH}</p><a href=/de>d</a> <a href=/e1>e</a>",
    "/de": f"<p>{GERMAN}</p><a href=/e2>e</a>",
    "/e1": f"<html lang=de><meta name=robots content=noai><p>{ENGLISH * 2}</p>",
    "/e2": f"<p>{ENGLISH * 3}</p>",
}
ROBOTS = """User-agent: *
Content-Signal: search=yes, ai-train=no
Content-Usage: /e2 train-ai=y
Allow: /
"""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        is_robots = self.path == "/robots.txt"
        body = (ROBOTS if is_robots else f"<title>t</title><body>{PAGES[self.path]}").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain" if is_robots else "text/html")
        self.send_header("Content-Length", str(len(body)))
        if self.path == "/e2":
            self.send_header("TDM-Reservation", "0")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_given: Any) -> None:
        pass


@contextmanager
def serving() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as site:
        thread = threading.Thread(target=site.serve_forever, daemon=True)
        thread.start()
        yield site.server_address[1]
        site.shutdown()
        thread.join()


def test_pages_in_another_language_are_recorded_and_followed_and_rights_are_kept(
    tmp_path: Path, redis_url: str
) -> None:
    crawl = Crawls(tmp_path, redis_url)
    feed = tmp_path / "pages.jsonl"
    with serving() as port:
        run = crawl.run(
            f"http://127.0.0.1:{port}/", arguments={"languages": "en"}, options=("-o", str(feed))
        )
    assert run.code == 0, run.stderr
    lines = [json.loads(line) for line in feed.read_text(encoding="utf-8").splitlines()]
    pages = {page["url"].removeprefix(f"http://127.0.0.1:{port}"): page for page in lines}
    assert {path: page["text_language"] for path, page in pages.items()} == {
        "/": "en",
        "/de": "de",
        "/e1": "en",
        "/e2": "en",
    }
    # The text decides, not what the page declares.
    assert {path: page["reason"] for path, page in pages.items() if page["reason"]} == {
        "/de": "language"
    }
    signal = "Content-Signal: search=yes, ai-train=no"
    assert pages["/"]["rights"] == {"robots.txt": [signal]}
    assert pages["/e1"]["rights"] == {"robots.txt": [signal], "html": ["robots: noai"]}
    assert pages["/e2"]["rights"] == {
        "robots.txt": [signal, "Content-Usage: /e2 train-ai=y"],
        "headers": ["TDM-Reservation: 0"],
    }


def test_an_unknown_language_is_refused_by_name(tmp_path: Path, redis_url: str) -> None:
    run = Crawls(tmp_path, redis_url).run("http://h.test/", arguments={"languages": "en,klingon"})
    assert run.code != 0
    assert "languages has 'klingon'" in run.stderr
