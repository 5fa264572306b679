"""The log of a whole crawl: lines for people or for programs, and no secret in it."""

import json
from pathlib import Path

from demo.process import DemoServer
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls

TOKEN = "a-token-that-nobody-may-see"


def test_every_line_is_json_and_lines_about_urls_are_for_debugging(
    tmp_path: Path, redis_url: str
) -> None:
    crawls = Crawls(tmp_path, redis_url)
    with DemoServer(WebOptions(hosts=2, pages=3), tmp_path / "access.log") as web:
        run = crawls.run(
            "http://s0.test/",
            web=web,
            settings={"LOG_JSON": 1, "ADMIN_TOKEN": TOKEN, "PROGRESS": "plain"},
            options=("-L", "DEBUG", "--logfile", str(tmp_path / "crawl.log")),
        )
    assert run.code == 0, run.stderr
    text = (tmp_path / "crawl.log").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines[0]["message"].startswith("Scrapy ")
    assert TOKEN not in text + run.stderr + run.stdout
    urls = [line for line in lines if "http://s0.test/" in line["message"]]
    assert urls
    shown = [line for line in urls if line["level"] != "DEBUG"]
    assert not [line for line in shown if "seeds" not in line["message"].lower()], shown
