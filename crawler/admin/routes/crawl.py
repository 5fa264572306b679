"""The crawl as a whole: its status, its workers, pause and resume."""

from __future__ import annotations

from fastapi import APIRouter

from crawler.admin import figures
from crawler.admin.models import Paused, SchedulerStatus, Status, Worker
from crawler.admin.questions import TheCrawl, TheSteering
from crawler.vitals import read

router = APIRouter(tags=["crawl"])


@router.get("/status")
async def status(crawl: TheCrawl, steering: TheSteering) -> Status:
    """How the whole crawl stands."""
    return await figures.status(crawl.name, steering)


@router.get("/scheduler/status")
async def scheduler_status(crawl: TheCrawl, steering: TheSteering) -> SchedulerStatus:
    """The frontier at work: sizes, shards, rates, delays, caches."""
    fleet = await read(crawl.redis, crawl.name, minutes=figures.RATE_MINUTES)
    return await figures.scheduler_status(crawl.name, steering, fleet)


@router.get("/workers")
async def workers(steering: TheSteering) -> list[Worker]:
    """The live processes, with their shards."""
    return await figures.workers(steering)


@router.post("/crawl/pause")
async def pause(crawl: TheCrawl, steering: TheSteering) -> Paused:
    """Fetch nothing new until resumed; what is in flight finishes."""
    await steering.pause()
    return Paused(crawl=crawl.name, paused=True)


@router.post("/crawl/resume")
async def resume(crawl: TheCrawl, steering: TheSteering) -> Paused:
    """Go on."""
    await steering.resume()
    return Paused(crawl=crawl.name, paused=False)
