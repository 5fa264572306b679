"""The dead-letter queue: look at it, and give URLs another life."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from crawler.admin import queries
from crawler.admin.dependencies import TheControl, note
from crawler.admin.models import DeadLetters, Requeue, Requeued

Word = Annotated[str, Query(max_length=500)]

router = APIRouter(tags=["dead letters"])


@router.get("/dead")
async def dead(
    control: TheControl,
    reason: Word = "",
    host: Word = "",
    before: Annotated[Word, Query(description="`next` of the page before")] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> DeadLetters:
    """The newest dead letters, by reason and host."""
    found = await control.dead(reason=reason, host=host, before=before, limit=limit)
    sizes = await control.sizes()
    return DeadLetters(
        letters=[queries.dead_letter(letter) for letter in found],
        total=max(0, sizes.dead - sizes.trimmed),
        next=found[-1].cursor if len(found) == limit else "",
    )


@router.post("/dead/requeue")
async def requeue(request: Request, control: TheControl, body: Requeue | None = None) -> Requeued:
    """Let dead letters be crawled once more, with no attempt on record."""
    chosen = body or Requeue()
    number = await control.requeue(reason=chosen.reason, host=chosen.host)
    note(request, f"({number} requeued)")
    return Requeued(requeued=number)
