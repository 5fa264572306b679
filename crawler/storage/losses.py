"""Notice that a store or the frontier has lost what a crawl had, and stop it with words.

A crawl whose frontier is empty would fetch everything again; one whose store was made anew would
end with success and a part of its pages. People have to decide, so both end with DataLost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from crawler.errors import CrawlerError, DataLost

if TYPE_CHECKING:
    from crawler.frontier.stores import KnownStores
    from crawler.storage.sink import Sink

logger = logging.getLogger(__name__)

T = TypeVar("T")

# A store that does not answer within this has lost nothing yet: its writer waits for it.
_ASK_S = 10.0
_RESTORED = (
    "Restore a backup and start again, or crawl all of it again with --fresh; see Catastrophes in "
    "docs/operations.md"
)


class Losses:
    """Comparison of the frontier of a crawl with its stores, at the start and later."""

    def __init__(self, crawl: str, known: KnownStores, sinks: Mapping[str, Sink]) -> None:
        self._crawl = crawl
        self._known = known
        self._sinks = sinks
        # By sink: what told its store from one that was made anew, when this process began.
        self._identities: dict[str, str] = {}

    async def check_start(self, is_begun: Callable[[], Awaitable[bool]]) -> None:
        """Raise DataLost if the frontier or a store is not the one that the crawl had.

        `is_begun` tells whether URLs of the frontier are done. Sinks are open.
        """
        if await self._known.is_rebuilt():
            raise DataLost(
                f"The frontier of the crawl {self._crawl!r} is being made anew, or that was "
                "interrupted: wait for its end, or run `scrapy frontier rebuild --crawl "
                f"{self._crawl}` again."
            )
        for name, sink in self._sinks.items():
            identity = await self._ask(name, sink.identity()) or ""
            has_pages = bool(identity) and await self._ask(name, sink.has_pages(self._crawl))
            # After its pages: other processes may begin the crawl now, and note it before them.
            known = (await self._known.all()).get(name)
            if known is None and has_pages:
                await self._check_frontier(sink, is_begun)
            elif known not in (None, identity) and await is_begun():
                raise DataLost(
                    f"The crawl {self._crawl!r} in this Redis has stored its pages elsewhere than "
                    f"in {sink.store_place}: that was dropped or made anew, or its address or "
                    f"REDIS_URL leads to another server. {_RESTORED}."
                )
            if identity and identity != known:
                await self._known.note(name, identity)
            self._identities[name] = identity

    async def _check_frontier(self, sink: Sink, is_begun: Callable[[], Awaitable[bool]]) -> None:
        """Raise DataLost if a store has pages of a crawl that the frontier does not know."""
        # Crawls that earlier versions began have noted no stores.
        if await self._known.is_begun_anew() or await is_begun():
            return
        crawl = self._crawl
        raise DataLost(
            f"The crawl {crawl!r} is not in this Redis, but {sink.store_place} has pages of it: "
            "Redis lost the frontier (FLUSHALL, no append-only file, a replica without data), or "
            "REDIS_URL leads to another server. `scrapy frontier rebuild --crawl "
            f"{crawl}` makes the frontier anew from these pages; --fresh crawls all of it again; "
            "-s CRAWL=NAME begins another crawl."
        )

    async def found(self) -> str:
        """Return what people have to know if a store was lost since the start; else empty."""
        for name, identity in self._identities.items():
            now = await self._ask(name, self._sinks[name].identity()) if identity else None
            if now is not None and now != identity:
                sink = self._sinks[name]
                return (
                    f"{sink.store_name} has lost pages of the crawl {self._crawl!r}: "
                    f"{sink.store_place} was dropped or made anew while the crawl ran, so this run "
                    f"ends. {_RESTORED}"
                )
        return ""

    async def _ask(self, name: str, answer: Coroutine[Any, Any, T]) -> T | None:
        """Await the answer of a store; None if it does not answer."""
        try:
            async with asyncio.timeout(_ASK_S):
                return await answer
        except CrawlerError:
            raise
        except Exception as error:  # noqa: BLE001 - of any client; its writer logs what is wrong
            logger.debug("The sink %s did not say whether it is whole: %s", name, error)
            return None
