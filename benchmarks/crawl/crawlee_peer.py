"""The same crawl by Crawlee for Python, as its documentation has it.

Run as `python -m benchmarks.crawl.crawlee_peer SEEDS PAGES`. Its ParselCrawler with its own HTTP
client, storage in memory, robots.txt respected, 100 requests at a time, all links followed. The
client cannot be told what names lead to, so requests go to an address of each host with its name in
`Host`; outside Linux, where hosts have no addresses of their own, to the same one. No page of this
web redirects.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

from crawlee import ConcurrencySettings, Request
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.http_clients import HttpCrawlingResult, ImpitHttpClient
from crawlee.storage_clients import MemoryStorageClient
from yarl import URL

from benchmarks.crawl.meter import Stopwatch
from benchmarks.crawl.pages import address_of

_AT_ONCE = 100


class LoopbackClient(ImpitHttpClient):
    """Crawlee's default client, for which every name is this machine's."""

    async def crawl(self, request: Request, **options: Any) -> HttpCrawlingResult:
        found = await super().crawl(request, **options)
        # Crawlee has the address there, and would resolve relative links against it.
        request.loaded_url = request.url
        return found

    async def _request_with_redirects(
        self, *, url: str, headers: dict[str, str], **options: Any
    ) -> Any:
        there = URL(url, encoded=True)
        address = address_of(there.host or "") if sys.platform == "linux" else "127.0.0.1"
        return await super()._request_with_redirects(
            url=str(there.with_host(address)),
            headers={**headers, "Host": there.authority},
            **options,
        )


async def crawl(seeds: list[str], pages: int) -> None:
    """Fetch so many pages."""
    crawler = ParselCrawler(
        http_client=LoopbackClient(verify=False),
        storage_client=MemoryStorageClient(),
        respect_robots_txt_file=True,
        max_requests_per_crawl=pages,
        max_request_retries=0,
        concurrency_settings=ConcurrencySettings(
            min_concurrency=_AT_ONCE, max_concurrency=_AT_ONCE, desired_concurrency=_AT_ONCE
        ),
        configure_logging=False,
    )

    @crawler.router.default_handler
    async def handle(context: ParselCrawlingContext) -> None:
        title = context.selector.css("title::text").get()
        await context.push_data({"url": context.request.url, "title": title})
        await context.enqueue_links(strategy="all")

    watch = Stopwatch()
    await crawler.run(seeds)
    watch.stop()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    start = Path(sys.argv[1]).read_text(encoding="utf-8").split()
    asyncio.run(crawl(start, int(sys.argv[2])))
