"""Single URLs: where one is, what happened to it; and forget one, so that it is crawled again."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from crawler.admin import queries
from crawler.admin.dependencies import CrawlContext, TheControl, TheCrawl
from crawler.admin.errors import ProblemError
from crawler.admin.models import Forgotten, UrlState
from crawler.discovery import seeds
from crawler.errors import CrawlerError
from crawler.urls import Rejected

Url = Annotated[str, Query(min_length=1, max_length=10_000, description="https://example.com/page")]

router = APIRouter(tags=["URLs"])


@router.get("/urls")
async def url_state(crawl: TheCrawl, control: TheControl, url: Url) -> UrlState:
    """Where a URL is in the crawl, its failures, and its record in MongoDB."""
    spelled = _spelled(crawl, url)
    page, why = await crawl.pages.of(spelled)
    return queries.url_state(spelled, await control.status(spelled), page, why)


@router.delete("/urls")
async def forget(crawl: TheCrawl, control: TheControl, url: Url) -> Forgotten:
    """Forget that a URL was seen: it is crawled again when it is added or found again."""
    spelled = _spelled(crawl, url)
    try:
        forgotten = await control.forget(spelled)
    except CrawlerError as error:
        raise ProblemError(409, str(error)) from error
    if not forgotten:
        raise ProblemError(404, f"The crawl does not know {spelled}, or its URL-seen keeps all.")
    return Forgotten(url=spelled, forgotten=True)


def _spelled(crawl: CrawlContext, url: str) -> str:
    found = crawl.urls.canonical(url)
    if isinstance(found, Rejected):
        raise ProblemError(422, f"{url[:200]!r}: {seeds.why(found.reason)}.")
    return found
