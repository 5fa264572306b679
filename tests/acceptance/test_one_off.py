"""Scrapy's commands for single pages answer in the project, without servers of a crawl."""

import json
from pathlib import Path

import pytest

from demo.process import DemoServer
from demo.web import WebOptions
from tests.acceptance.crawls import scrapy

URL = "http://s0.test/"


@pytest.mark.parametrize(
    ("command", "seen"),
    [
        (("fetch", URL), "<title>"),
        (("parse", "--spider", "web", URL), f"'url': '{URL}'"),
    ],
    ids=["fetch", "parse"],
)
def test_a_page_is_shown(command: tuple[str, ...], seen: str, tmp_path: Path) -> None:
    with DemoServer(WebOptions(hosts=2, pages=2, seed=3, zoo="none"), tmp_path / "log") as web:
        values = {
            "ALLOW_NETWORKS": "127.0.0.0/8",
            "DNS_OVERRIDES": json.dumps(web.overrides),
            "CRAWL_DIR": str(tmp_path / "crawl"),
        }
        given = [part for name, value in values.items() for part in ("-s", f"{name}={value}")]
        run = scrapy(*command, *given)
    assert run.code == 0, run.stderr
    assert seen in run.stdout, run.stderr
    assert not (tmp_path / "crawl").exists()
