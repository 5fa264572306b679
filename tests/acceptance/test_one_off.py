"""Scrapy's commands for single pages answer in the project, without servers of a crawl."""

import json
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from demo.process import DemoServer
from demo.web import WebOptions
from tests.acceptance.crawls import scrapy

URL = "http://s0.test/"


CONTRACT = """
import scrapy


class Mine(scrapy.Spider):
    name = "mine"

    def parse(self, response):
        \"\"\"
        @url {url}
        @returns items 1 1
        @scrapes url
        \"\"\"
        yield {{"{field}": response.url}}
"""
SETTINGS = """
SPIDER_MODULES = ["shop.spiders"]
ADDONS = {"crawler.addon.FrontierAddon": 0}
COMMANDS_MODULE = "crawler.commands"
"""


@pytest.mark.parametrize(("field", "code"), [("url", 0), ("other", 1)])
def test_contracts_of_spiders_are_checked_in_projects_with_the_add_on(
    field: str, code: int, tmp_path: Path
) -> None:
    package = tmp_path / "shop" / "spiders"
    package.mkdir(parents=True)
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = shop.settings\n")
    (tmp_path / "shop" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (tmp_path / "shop" / "settings.py").write_text(SETTINGS)
    (tmp_path / "index.html").write_text("<title>A page</title>")
    serve = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/"
        (package / "mine.py").write_text(CONTRACT.format(field=field, url=url))
        run = scrapy("check", cwd=tmp_path)
        server.shutdown()
        thread.join()
    assert run.code == code, run.stderr
    assert "Ran 2 contracts" in run.stdout + run.stderr
    assert not (tmp_path / ".crawl").exists()


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
