"""Server-sent events: how the crawl stands, each second, while somebody listens."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import StreamingResponse

from crawler.admin import queries
from crawler.admin.dependencies import CrawlContext
from crawler.admin.errors import ProblemError
from crawler.admin.event_stream import MAX_LISTENERS, EventSource, EventStream, Full

_VITALS_S = 5.0

router = APIRouter(tags=["crawl"])


def feed_of(crawl: CrawlContext) -> EventStream:
    """The feed of a crawl's status and, as they cost more, less often of its figures."""

    async def status() -> str:
        return (await queries.status(crawl.name, await crawl.control())).model_dump_json()

    async def vitals() -> str:
        found = await queries.vitals(crawl.name, crawl.redis, await crawl.control())
        return json.dumps(found)

    return EventStream(EventSource("status", status), EventSource("vitals", vitals, _VITALS_S))


def _feed(request: Request) -> EventStream:
    feed = request.app.state.feed
    assert isinstance(feed, EventStream)
    return feed


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(feed: Annotated[EventStream, Depends(_feed)]) -> StreamingResponse:
    """Events `status` with the answer of /status, each second; `vitals` with that of /vitals, each
    five; `trouble` with a text.

    Read it with fetch(), which can send the token; without news a comment comes as a heartbeat.
    """
    try:
        stream = feed.listen()
    except Full as error:
        raise ProblemError(
            503, f"There are {MAX_LISTENERS} listeners, no more are let in."
        ) from error
    return StreamingResponse(stream, media_type="text/event-stream")
