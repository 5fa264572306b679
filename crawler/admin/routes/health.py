"""Is the process alive, and can it do its work?"""

from __future__ import annotations

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse

from crawler.admin.dependencies import BEARER, TheCrawl
from crawler.admin.errors import problem
from crawler.admin.models import Health
from crawler.errors import CrawlerError
from crawler.servers.redis.errors import RedisAway

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> Health:
    """The process lives; needs no token and asks no server."""
    return Health(ok=True)


@router.get("/readyz", response_model=Health, dependencies=[Depends(BEARER)])
async def readyz(crawl: TheCrawl) -> Health | JSONResponse:
    """Redis answers, and has the crawl."""
    try:
        await crawl.control()
    except CrawlerError as error:
        return problem(503, str(error))
    except RedisAway as error:
        return problem(503, f"Redis does not answer: {error}")
    return Health(ok=True, parts={"redis": "ok", "crawl": crawl.name})
