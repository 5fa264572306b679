"""The figures of this process and of the crawl: for Prometheus, and as JSON."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response

from crawler.admin import queries
from crawler.admin.dependencies import TheCrawl
from crawler.monitoring.ledger import MINUTES_MAX
from crawler.monitoring.prometheus import CONTENT_TYPE, Sheet, add_fleet, add_worker

router = APIRouter(tags=["figures"])


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(crawl: TheCrawl) -> Response:
    """The metrics of the process that is asked, if it crawls, and those of the whole fleet."""
    sheet = Sheet(crawl.name)
    await add_fleet(sheet, crawl.redis, crawl.name)
    if crawl.crawler is not None:
        add_worker(sheet, crawl.crawler)
    return Response(sheet.text(), media_type=CONTENT_TYPE)


@router.get("/vitals")
async def vitals(
    crawl: TheCrawl, minutes: Annotated[int, Query(ge=1, le=MINUTES_MAX)] = 60
) -> dict[str, Any]:
    """Totals, the last hour, each of the last minutes with its latencies, workers, rates, hosts."""
    return await queries.vitals(crawl.name, crawl.redis, await crawl.control(), minutes=minutes)
