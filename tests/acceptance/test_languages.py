"""A crawl that keeps to a language, and stores what its site says about the use of its pages."""

import json
from pathlib import Path

from demo.answer import Answer, whole
from demo.server import serving_thread
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


class Site:
    def answer(self, _host: str, target: str, _validators: object = None) -> Answer:
        if target == "/robots.txt":
            return whole(200, ROBOTS.encode(), {"Content-Type": "text/plain"})
        more = {"TDM-Reservation": "0"} if target == "/e2" else {}
        body = f"<title>t</title><body>{PAGES[target]}".encode()
        return whole(200, body, {"Content-Type": "text/html", **more})


def test_pages_in_another_language_are_recorded_and_followed_and_rights_are_kept(
    tmp_path: Path, redis_url: str
) -> None:
    crawl = Crawls(tmp_path, redis_url)
    feed = tmp_path / "pages.jsonl"
    with serving_thread(Site()) as port:
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
