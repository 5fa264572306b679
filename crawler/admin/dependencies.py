"""What routes get from the application: the crawl, its servers, and what controls it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPBearer

from crawler.admin.queries import Pages
from crawler.frontier import CrawlControl
from crawler.servers.redis.connection import Client
from crawler.urls import DEFAULT, Urls

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


@dataclass(frozen=True)
class CrawlContext:
    """One crawl by its name; whether it exists is found out with each question."""

    name: str
    redis: Client = field(repr=False)
    urls: Urls = DEFAULT
    # The process that serves the API, if it crawls as well.
    crawler: Crawler | None = field(default=None, repr=False)
    pages: Pages = field(default_factory=Pages, repr=False)

    async def control(self) -> CrawlControl:
        """What steers it, or NotFound when there is no such crawl (yet, or any more)."""
        return await CrawlControl.of(self.redis, self.name, self.urls)


# The gate has checked it by then; this is for the document.
BEARER = HTTPBearer(auto_error=False, description="From admin.token in CRAWL_DIR, or ADMIN_TOKEN")


def _crawl(request: Request) -> CrawlContext:
    found = request.app.state.crawl
    assert isinstance(found, CrawlContext)
    return found


TheCrawl = Annotated[CrawlContext, Depends(_crawl)]


async def _control(crawl: TheCrawl) -> CrawlControl:
    return await crawl.control()


TheControl = Annotated[CrawlControl, Depends(_control)]


def note(request: Request, text: str) -> None:
    """Add to the audit line of this request what it did."""
    request.state.audit = text
