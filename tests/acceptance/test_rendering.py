"""Whole crawls of hosts that need a browser, in a real one, judged by the server's log."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from demo.judge import judge
from demo.process import DemoServer
from demo.truth import Truth, truth
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls, Run
from tests.acceptance.test_addon import Project
from tests.support.browser import PROGRAM
from tests.support.threaded_server import running

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium on PATH")

MIN_DELAY_S = 0.02
# The web's API answers after two seconds at most; fatal pages take all of their time, twice.
SETTINGS: dict[str, Any] = {
    "DELAY_MIN": MIN_DELAY_S + 0.01,
    "RENDER_TIMEOUT": 6,
    "RENDER_NICE": 0,
    "RETRY_TIMES": 1,
    "CRAWL_MAX_WAIT": 30,
}


def crawl(folder: Path, redis_url: str, options: WebOptions, **arguments: str) -> Run:
    """Crawl to `pages.jsonl`, with the log of the server in `access.log`."""
    with DemoServer(options, folder / "access.log") as web:
        run = Crawls(folder, redis_url).run(
            "http://s0.test/",
            web=web,
            arguments={"scope": "any", **arguments},
            settings=SETTINGS,
            options=("-O", str(folder / "pages.jsonl")),
        )
    assert run.code == 0, run.stderr
    assert run.summary["finished"], run.stderr
    return run


def pages_of(folder: Path) -> dict[str, dict[str, Any]]:
    lines = (folder / "pages.jsonl").read_text(encoding="utf-8").splitlines()
    return {page["url"]: page for page in map(json.loads, lines)}


def check_texts(expected: Truth, pages: dict[str, dict[str, Any]], *, share: float) -> None:
    """Check that pages have the texts that only browsers show."""
    texts = [
        (url, text)
        for url, shown in expected.shown.items()
        if url in expected.must_store
        for text in shown.texts
    ]
    missing = [url for url, text in texts if text not in pages.get(url, {}).get("text", "")]
    assert len(missing) <= (1 - share) * len(texts), missing


def test_hosts_that_need_a_browser_are_crawled_like_any_other(
    tmp_path: Path, redis_url: str
) -> None:
    options = WebOptions(hosts=24, pages=8, zoo="browser")
    run = crawl(tmp_path, redis_url, options, render="auto")
    expected = truth(options, renders=True, read_sitemaps=True)
    verdict = judge(tmp_path / "access.log", expected, min_delay_s=MIN_DELAY_S)
    assert verdict.ok, "\n".join(verdict.lines())
    pages = pages_of(tmp_path)
    check_texts(expected, pages, share=0.95)
    others = [url for url in pages if url.split("/")[2] not in expected.needs_browser]
    rendered = [url for url in others if pages[url]["rendered"]]
    assert len(rendered) <= 0.05 * len(others), rendered
    assert "Traceback" not in run.stderr
    # Pages that kill browsers are kept as they were fetched.
    fatal = [page for url, page in pages.items() if url.endswith(("/heavy/memory", "/heavy/loop"))]
    assert len(fatal) == 2
    for page in fatal:
        assert any(flag.startswith("unrendered:") for flag in page["flags"]), page


SPIDER = """
    import scrapy


    class Mine(scrapy.Spider):
        name = "mine"

        async def start(self):
            yield scrapy.Request("http://s1.test/", meta={"render": True})
            yield scrapy.Request("http://s2.test/")

        def parse(self, response):
            rendering = response.meta.get("rendering")
            yield {
                "url": response.url,
                "rendered": rendering is not None,
                "parts": rendering.parts if rendering else 0,
                "text": " ".join(response.css("body p::text").getall()),
            }
"""


def test_any_spider_asks_for_a_browser_by_the_meta_of_its_requests(
    tmp_path: Path, redis_url: str
) -> None:
    options = WebOptions(hosts=3, pages=2, zoo="browser")
    with DemoServer(options, tmp_path / "access.log") as web:
        project = Project(tmp_path, SPIDER, redis_url=redis_url, address=web.address)
        project.crawl()
    shown = truth(options, renders=True).shown
    rendered, plain = sorted(project.items, key=lambda item: not item["rendered"])
    assert rendered["rendered"]
    assert rendered["parts"] >= 2
    assert all(text in rendered["text"] for text in shown["http://s1.test/"].texts)
    assert not plain["rendered"]
    assert not any(text in plain["text"] for text in shown["http://s2.test/"].texts)


BESIDE = """
    import scrapy


    class Mine(scrapy.Spider):
        name = "mine"

        async def start(self):
            site = "http://127.0.0.1:{port}"
            yield scrapy.Request(site + "/a", meta={{"playwright": True}})
            yield scrapy.Request(site + "/b", meta={{"render": True}})
            yield scrapy.Request(site + "/c")

        def parse(self, response):
            yield {{
                "path": response.url[-1],
                "text": response.css("p::text").get(),
                "rendered": "rendering" in response.meta,
            }}
"""


class ScriptedSite(BaseHTTPRequestHandler):
    """Site of pages whose text is a script's."""

    paths: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.paths.append(self.path)
        body = b"<p>sent</p><script>document.querySelector('p').textContent = 'shown'</script>"
        self.send_response(404 if self.path == "/robots.txt" else 200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_scrapy_playwright_works_beside_the_add_on(tmp_path: Path, redis_url: str) -> None:
    pytest.importorskip("scrapy_playwright", reason="scrapy-playwright is not installed")
    handler = "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"
    paths: list[str] = []
    site = type("Site", (ScriptedSite,), {"paths": paths})
    with running(ThreadingHTTPServer(("127.0.0.1", 0), site)) as server:
        spider = BESIDE.format(port=server.server_port)
        project = Project(tmp_path, spider, redis_url=redis_url, address="127.0.0.1")
        project.add_settings(
            DOWNLOAD_HANDLERS={"http": handler, "https": handler},
            PLAYWRIGHT_LAUNCH_OPTIONS={"executable_path": PROGRAM, "args": ["--no-sandbox"]},
            # Chromium takes its time to start on a busy machine.
            DOWNLOAD_TIMEOUT=120,
            PLAYWRIGHT_DEFAULT_NAVIGATION_TIMEOUT=120_000,
        )
        run = project.crawl()
    shown = {item["path"]: item["text"] for item in project.items}
    assert shown == {"a": "shown", "b": "sent", "c": "sent"}, run.stderr
    assert paths[0] == "/robots.txt"
    # Ours renders nothing then, and says so.
    assert not any(item["rendered"] for item in project.items)
    assert run.stderr.count("are not rendered, whatever RENDER") == 1


def test_a_crawl_that_renders_without_a_browser_does_not_start(
    tmp_path: Path, redis_url: str
) -> None:
    run = Crawls(tmp_path, redis_url).run(
        "http://s0.test/",
        arguments={"render": "auto"},
        settings={"RENDER_BROWSER": "/no/such/program"},
    )
    assert run.code == 2, run.stderr
    assert "RENDER_BROWSER is '/no/such/program'" in run.stderr
    assert "Traceback" not in run.stderr
