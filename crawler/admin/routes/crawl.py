"""The crawl as a whole: its status, its workers, pause and resume."""

from __future__ import annotations

from fastapi import APIRouter

from crawler.admin import queries
from crawler.admin.dependencies import TheControl, TheCrawl
from crawler.admin.models import Paused, SchedulerStatus, Status, Worker
from crawler.monitoring.ledger import read

router = APIRouter(tags=["crawl"])


@router.get("/status")
async def status(crawl: TheCrawl, control: TheControl) -> Status:
    """How the whole crawl stands."""
    return await queries.status(crawl.name, control)


@router.get("/scheduler/status")
async def scheduler_status(crawl: TheCrawl, control: TheControl) -> SchedulerStatus:
    """The frontier at work: sizes, shards, rates, delays, caches."""
    fleet = await read(crawl.redis, crawl.name, minutes=queries.RATE_MINUTES)
    return await queries.scheduler_status(crawl.name, control, fleet)


@router.get("/workers")
async def workers(control: TheControl) -> list[Worker]:
    """The live processes, with their shards."""
    return await queries.workers(control)


@router.post("/crawl/pause")
async def pause(crawl: TheCrawl, control: TheControl) -> Paused:
    """Fetch nothing new until resumed; what is in flight finishes."""
    await control.pause()
    return Paused(crawl=crawl.name, paused=True)


@router.post("/crawl/resume")
async def resume(crawl: TheCrawl, control: TheControl) -> Paused:
    """Go on."""
    await control.resume()
    return Paused(crawl=crawl.name, paused=False)
