"""Server-sent events: how the crawl stands, each second, while somebody listens."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import StreamingResponse

from crawler.admin import figures
from crawler.admin.crawl import Crawl
from crawler.admin.feed import MAX_LISTENERS, Feed, Full
from crawler.admin.problems import ProblemError

router = APIRouter(tags=["crawl"])


def feed_of(crawl: Crawl) -> Feed:
    """The feed of a crawl's status."""

    async def read() -> str:
        return (await figures.status(crawl.name, await crawl.steering())).model_dump_json()

    return Feed(read)


def _feed(request: Request) -> Feed:
    feed = request.app.state.feed
    assert isinstance(feed, Feed)
    return feed


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(feed: Annotated[Feed, Depends(_feed)]) -> StreamingResponse:
    """Events named `status` with the answer of /status, a second apart; `trouble` with a text.

    Read it with fetch(), which can send the token; without news a comment comes as a heartbeat.
    """
    try:
        stream = feed.listen()
    except Full as error:
        raise ProblemError(
            503, f"There are {MAX_LISTENERS} listeners, no more are let in."
        ) from error
    return StreamingResponse(stream, media_type="text/event-stream")
