"""Gather the figures of the whole crawl for the API's answers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from crawler.admin.models import Dropped, Status, Worker
from crawler.frontier import Steering


async def status(crawl: str, steering: Steering) -> Status:
    """How the crawl stands."""
    sizes = await steering.sizes()
    return Status(
        crawl=crawl,
        at=datetime.now(UTC),
        paused=sizes.paused > 0,
        waiting=sizes.waiting,
        waiting_by_queue=list(sizes.front),
        waiting_by_host=sizes.back,
        leased=sizes.leased,
        retries=sizes.retries,
        recrawls=sizes.recrawls,
        found=sizes.added,
        done=sizes.done,
        pages=sizes.pages,
        dead=sizes.dead,
        unfinished=sizes.unfinished,
        dropped=Dropped(
            excluded=sizes.dropped_excluded,
            purged=sizes.dropped_purged,
            budget=sizes.dropped_budget,
            refused=sizes.refused,
        ),
        hosts=sizes.hosts,
        workers=await workers(steering),
        options=await steering.options(),
        memory_share=await steering.memory_share(),
    )


async def workers(steering: Steering) -> list[Worker]:
    """The live processes, by machine and pid."""
    found = [worker(name, about) for name, about in (await steering.instances()).items()]
    return sorted(found, key=lambda each: (each.machine, each.pid, each.id))


def worker(name: str, about: dict[str, Any]) -> Worker:
    """One process; an older one may say less of itself."""
    known = {field: about[field] for field in ("machine", "pid", "pages", "held") if field in about}
    return Worker(id=name, shards=list(about.get("shards", [])), about=about, **known)
