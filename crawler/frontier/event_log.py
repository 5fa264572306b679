"""The last events of a crawl, for people: orders, processes that came and went, warnings.

The list is in Redis, outlives processes, and is short: KEPT events of TEXT_MAX characters.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from crawler.frontier import keys
from crawler.servers.redis.errors import RedisAway, executed
from crawler.util.secrets import without_secrets

if TYPE_CHECKING:
    from crawler.servers.redis.connection import Client

KEPT = 200
TEXT_MAX = 300
# Kinds of events.
ORDER, PROCESS, WARNING, ERROR = KINDS = ("order", "process", "warning", "error")


@dataclass(frozen=True, slots=True)
class Event:
    """Event of a crawl: an order of people, a process that came or went, a warning, an error."""

    # Seconds since 1970, by the clock of the process that noted it.
    at_s: float
    kind: str
    text: str

    @classmethod
    def now(cls, kind: str, text: str) -> Event:
        """Make an event of this moment; secrets are hidden, a long text is cut."""
        shown = " ".join(without_secrets(text[: 4 * TEXT_MAX]).split())
        if len(shown) > TEXT_MAX:
            shown = f"{shown[: TEXT_MAX - 1]}…"
        return cls(round(time.time(), 3), kind, shown)


async def note(redis: Client, crawl: str, events: Sequence[Event]) -> None:
    """Add events, the oldest first, and drop those beyond KEPT; while Redis is away, they are lost.

    An order is never refused because nobody can note it.
    """
    if not events:
        return
    pipeline = redis.pipeline()
    pipeline.lpush(keys.log(crawl), *(json.dumps(asdict(event)) for event in events[-KEPT:]))
    pipeline.ltrim(keys.log(crawl), 0, KEPT - 1)
    with suppress(*RedisAway):
        await executed(pipeline)


async def recent(redis: Client, crawl: str) -> list[Event]:
    """Return the last events of a crawl, the newest first."""
    found = await redis.lrange(keys.log(crawl), 0, KEPT - 1)
    return [Event(**json.loads(each)) for each in found]
