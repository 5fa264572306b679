"""The generic spider: every response becomes one Page. Knows nothing of Redis."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, Spider
from scrapy.http import Response, TextResponse

from crawler import assembly, links, seeds
from crawler.download import TYPE_NOT_ACCEPTED
from crawler.errors import ConfigurationError
from crawler.frontier import Entry, Lease
from crawler.items import Page
from crawler.policy.url_filter import SCOPES
from crawler.requests import LEASE
from crawler.scheduler import Scheduler
from crawler.urls import DEFAULT, Urls

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

_SEED_BATCH = 1000
_BAD_SEEDS_SHOWN = 10
_KEPT_HEADERS = ("Content-Type", "Content-Language", "ETag", "Last-Modified", "Server", "Date")
# Reading a page takes about 10 µs a KB: larger ones are read in a thread.
_READ_INLINE_BYTES = 200_000


class WebSpider(Spider):
    """Crawl pages from seeds. Subclass it and override `extract` to add fields of your own."""

    name = "web"
    custom_settings = {  # noqa: RUF012 - declared so by Scrapy
        # Pages with an error status are recorded as well.
        "HTTPERROR_ALLOW_ALL": True,
    }

    def __init__(
        self,
        seeds: str | None = None,
        *,
        scope: str | None = None,
        max_depth: str | int | None = None,
        max_pages: str | int | None = None,
        max_pages_per_host: str | int | None = None,
        crawl: str | None = None,
        **arguments: str,
    ) -> None:
        super().__init__()
        if arguments:
            known = "seeds, scope, max_depth, max_pages, max_pages_per_host, crawl"
            name = min(arguments)
            raise ConfigurationError(f"The spider has no argument {name!r}; it has {known}.")
        if scope is not None and scope not in SCOPES:
            raise ConfigurationError(f"scope is {scope!r}; use one of {', '.join(SCOPES)}.")
        self.seeds = seeds
        # Those the user gave; the others stay as the crawl has them.
        self.options: dict[str, Any] = {}
        if scope is not None:
            self.options["scope"] = scope
        for name, value in (
            ("max_depth", max_depth),
            ("max_pages", max_pages),
            ("max_pages_per_host", max_pages_per_host),
        ):
            if value is not None:
                self.options[name] = _whole_number(name, value)
        self.crawl = crawl
        self.max_outlinks = 0
        self.urls = DEFAULT
        if seeds is not None:
            _check_seeds(seeds)

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.urls = Urls(assembly.url_rules(crawler.settings))
        spider.max_outlinks = crawler.settings.getint("MAX_OUTLINKS")
        return spider

    async def start(self) -> AsyncIterator[Any]:
        """Put the seeds into the frontier, by batches that it has acknowledged."""
        if self.seeds is not None:
            reader = seeds.read(self.seeds, self.urls)
            while batch := await asyncio.to_thread(_next_batch, reader):
                await self._plant(batch)
        nothing: tuple[Request, ...] = ()
        for request in nothing:
            yield request  # an async generator, as Scrapy wants it

    async def _plant(self, batch: list[Entry | seeds.BadSeed]) -> None:
        good = [seed for seed in batch if isinstance(seed, Entry)]
        stats = self.crawler.stats
        for bad in batch:
            if isinstance(bad, seeds.BadSeed):
                stats.inc_value("seeds/rejected")
                if stats.get_value("seeds/rejected") <= _BAD_SEEDS_SHOWN:
                    logger.warning("%s", bad)
        added = await Scheduler.of(self.crawler).add(good, "all")
        stats.inc_value("seeds/added", added.new)
        stats.inc_value("seeds/known", len(added) - added.new)

    async def parse(self, response: Response) -> AsyncIterator[Page]:
        """One response, one page."""
        page = self._page_of(response)
        if isinstance(response, TextResponse) and page.stored:
            if len(response.body) > _READ_INLINE_BYTES:
                document = await asyncio.to_thread(self._read, response)
            else:
                document = self._read(response)
            page.charset = response.encoding
            page.title = document.title
            page.description = document.description
            page.language = document.language
            page.canonical = document.canonical
            page.text = document.text
            page.links = document.links
            page.stored = not document.noindex
        self.extract(response, page)
        yield page

    def extract(self, response: Response, page: Page) -> None:
        """Override to put fields of your own into `page.extra`."""

    def _read(self, response: TextResponse) -> links.Document:
        document = links.read(response.text, response.url, max_links=self.max_outlinks)
        for value in response.headers.getlist("X-Robots-Tag"):
            # With a colon it speaks to another crawler, or of something else.
            if b":" not in value:
                links.obey(document, value.decode("latin-1"))
        return document

    def _page_of(self, response: Response) -> Page:
        meta = response.meta
        lease: Lease | None = meta.get(LEASE)
        redirects = meta.get("redirect_urls", [])
        header = response.headers.get("Content-Type", b"") or b""
        return Page(
            # The frontier's spelling: what its fingerprint was made of.
            url=lease.entry.url if lease is not None else response.url,
            final_url=response.url,
            status=response.status,
            crawled_at=datetime.now(UTC),
            fetch_ms=meta.get("fetch_ms", 0),
            depth=meta.get("depth", 0),
            parent=f"{lease.entry.parent:016x}" if lease is not None else "",
            redirects=list(redirects),
            content_type=header.decode("latin-1").partition(";")[0].strip().lower(),
            headers={
                name.lower(): value.decode("latin-1")
                for name in _KEPT_HEADERS
                if (value := response.headers.get(name)) is not None
            },
            size_bytes=len(response.body),
            stored=200 <= response.status < 300 and TYPE_NOT_ACCEPTED not in response.flags,
            body=response.body,
        )


def _whole_number(name: str, value: str | int) -> int:
    try:
        number = int(value)
    except ValueError:
        number = -1
    if number < 0:
        raise ConfigurationError(f"{name} is {value!r}; give a whole number, 0 for no limit.")
    return number


def _check_seeds(text: str) -> None:
    seeds.check(text)


def _next_batch(
    reader: Iterator[Entry | seeds.BadSeed],
) -> list[Entry | seeds.BadSeed]:
    return list(islice(reader, _SEED_BATCH))
