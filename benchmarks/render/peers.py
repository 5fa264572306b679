"""The same pages by scrapy-playwright and by Crawlee, as their documentation has it.

Run as `python -m benchmarks.render.peers NAME SEEDS`: a file of URLs. Both wait for the last
element of a page, and read its HTML. All pages share one profile of the browser. With `-like-ours`
at the end of its name a peer gives each page a profile of its own and leaves out images, in the
ways that it has for that.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from crawlee import ConcurrencySettings
from crawlee.crawlers import (
    PlaywrightCrawler,
    PlaywrightCrawlingContext,
    PlaywrightPreNavCrawlingContext,
)
from crawlee.storage_clients import MemoryStorageClient
from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import Response
from scrapy_playwright.page import PageMethod

from benchmarks.render.count import Pages
from benchmarks.render.crawls import AT_ONCE, LIKE_OURS, SCRAPY
from crawler.rendering.browsers import find_browser

_END = "#end"
_HANDLER = "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"
_LAUNCH = {
    "executable_path": find_browser(None),
    # As ours: Chromium's own does not work for root.
    "chromium_sandbox": os.geteuid() != 0,
    # Every name is this machine.
    "args": ["--host-resolver-rules=MAP *.test 127.0.0.1"],
}
_SETTINGS: dict[str, Any] = {
    "DOWNLOAD_HANDLERS": {"http": _HANDLER, "https": _HANDLER},
    "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
    "PLAYWRIGHT_LAUNCH_OPTIONS": _LAUNCH,
    "PLAYWRIGHT_MAX_PAGES_PER_CONTEXT": AT_ONCE,
    "CONCURRENT_REQUESTS": AT_ONCE,
    "DOWNLOAD_DELAY": 0,
    "COOKIES_ENABLED": False,
    "RETRY_ENABLED": False,
    "LOG_LEVEL": "WARNING",
}


def is_image(request: Any) -> bool:
    """Tell whether a request of a page is for an image."""
    return bool(request.resource_type == "image")


class PagesSpider(Spider):
    """Open each page, and count it."""

    name = "pages"

    def __init__(self, seeds: list[str], *, like_ours: bool, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._seeds = seeds
        self._like_ours = like_ours
        self._pages = Pages()

    async def start(self) -> AsyncIterator[Any]:
        for number, url in enumerate(self._seeds):
            meta: dict[str, Any] = {
                "playwright": True,
                "playwright_page_methods": [PageMethod("wait_for_selector", _END)],
            }
            if self._like_ours:
                meta |= {"playwright_context": f"page{number}", "playwright_include_page": True}
            yield Request(url, meta=meta)

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        if self._like_ours:
            await response.meta["playwright_page"].context.close()
        yield {"url": response.url, "title": response.css("title::text").get()}
        self._pages.add(response.url, response.text)


def scrapy(seeds: list[str], *, like_ours: bool) -> None:
    """Open the pages by scrapy-playwright."""
    settings = dict(_SETTINGS)
    if like_ours:
        settings["PLAYWRIGHT_ABORT_REQUEST"] = is_image
    process = AsyncCrawlerProcess(settings)
    process.crawl(PagesSpider, seeds=seeds, like_ours=like_ours)
    process.start()


async def crawlee(seeds: list[str], *, like_ours: bool) -> None:
    """Open the pages by Crawlee."""
    pages = Pages()
    crawler = PlaywrightCrawler(
        browser_type="chromium",
        headless=True,
        browser_launch_options=_LAUNCH,
        use_incognito_pages=like_ours,
        storage_client=MemoryStorageClient(),
        max_request_retries=0,
        concurrency_settings=ConcurrencySettings(
            min_concurrency=AT_ONCE, max_concurrency=AT_ONCE, desired_concurrency=AT_ONCE
        ),
        configure_logging=False,
    )

    async def block_images(context: PlaywrightPreNavCrawlingContext) -> None:
        await context.block_requests(url_patterns=["*.png"])

    if like_ours:
        crawler.pre_navigation_hook(block_images)

    @crawler.router.default_handler
    async def handle(context: PlaywrightCrawlingContext) -> None:
        await context.page.wait_for_selector(_END)
        html = await context.page.content()
        await context.push_data({"url": context.request.url, "title": await context.page.title()})
        pages.add(context.request.url, html)

    await crawler.run(seeds)


def main(name: str, seeds: str) -> None:
    """Open the pages."""
    urls = Path(seeds).read_text(encoding="utf-8").split()
    like_ours = name.endswith(LIKE_OURS)
    if name.startswith(SCRAPY):
        scrapy(urls, like_ours=like_ours)
    else:
        logging.basicConfig(level=logging.WARNING)
        asyncio.run(crawlee(urls, like_ours=like_ours))


if __name__ == "__main__":
    main(*sys.argv[1:])
