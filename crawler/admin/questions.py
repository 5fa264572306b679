"""What routes are given by the application: the crawl, and what steers it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPBearer

from crawler.admin.crawl import Crawl
from crawler.frontier import Steering

# The gate has checked it by then; this is for the document.
BEARER = HTTPBearer(auto_error=False, description="From admin.token in CRAWL_DIR, or ADMIN_TOKEN")


def _crawl(request: Request) -> Crawl:
    found = request.app.state.crawl
    assert isinstance(found, Crawl)
    return found


TheCrawl = Annotated[Crawl, Depends(_crawl)]


async def _steering(crawl: TheCrawl) -> Steering:
    return await crawl.steering()


TheSteering = Annotated[Steering, Depends(_steering)]


def note(request: Request, text: str) -> None:
    """Add to the audit line of this request what it did."""
    request.state.audit = text
