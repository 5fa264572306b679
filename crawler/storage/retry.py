"""Retry writes to MongoDB while it is away; give up only when the crawl ends.

A circuit breaker (util/breaker.py) decides when fetching should pause. Fetched pages wait in
memory, and the heartbeat keeps their leases.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any, TypeVar

from pymongo.errors import NetworkTimeout, PyMongoError

from crawler.errors import NotStored
from crawler.servers.health import ServerHealth
from crawler.servers.mongo import may_pass
from crawler.util.backoff import Backoff
from crawler.util.breaker import Breaker
from crawler.util.tasks import abandon

logger = logging.getLogger(__name__)

# Scrapy does not tell pipelines that the crawl ends while they have items: it is polled.
_POLL_S = 0.5
# With the polls before and after it, and closing the connections, below 10 s.
_GIVE_UP_S = 6.0
# Spread, so that a fleet does not come back all at once.
_BACKOFF = Backoff(0.1, 5.0, jitter=-0.5)

Result = TypeVar("Result")
Send = Callable[[], Coroutine[Any, Any, Result]]


class RetryingWriter:
    """Writer that repeats failed writes. `what` names what waits for them, for the log.

    `on_failure` is called for each failed write, `on_change` for each new state of the breaker.
    """

    def __init__(
        self,
        what: str,
        is_closing: Callable[[], bool],
        health: ServerHealth,
        *,
        timeout_s: float,
        on_failure: Callable[[], None] = lambda: None,
        on_change: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._what = what
        self._is_closing = is_closing
        self._health = health
        # A write that takes longer has failed, however many messages it consists of.
        self._timeout_s = timeout_s
        self._on_failure = on_failure
        self._on_change = on_change
        # Few attempts count: each takes seconds to fail, and what is fetched meanwhile waits.
        self._breaker = Breaker(2, among=4, backoff=_BACKOFF)
        self._state = self._breaker.state
        self._give_up_at: float | None = None
        self._given_up = False

    async def write(self, send: Send[Result]) -> Result:
        """Call `send` until it works; raises NotStored if the crawl ends first.

        `send` is repeated after errors that may pass, and raises all others.
        """
        while True:
            self._check_end()
            try:
                result = await self._attempt(send)
            except PyMongoError as error:
                if not may_pass(error):
                    raise
                self._on_failure()
                self._health.failed(self._what, error)
                self._breaker.failed(monotonic(), random.random())
                await self._wait(self._breaker.retry_at)
            else:
                self._breaker.worked()
                self._report_state()
                # The end of a crawl may have more to write than fits into its time.
                self._give_up_at = None
                self._health.worked(self._what)
                return result

    async def _attempt(self, send: Send[Result]) -> Result:
        task = asyncio.get_running_loop().create_task(send())
        try:
            until_s = monotonic() + self._timeout_s
            while not (await asyncio.wait({task}, timeout=_POLL_S))[0]:
                self._check_end()
                if monotonic() > until_s:
                    raise NetworkTimeout(f"no answer within {self._timeout_s:g} s")
            return task.result()
        finally:
            abandon(task)

    async def _wait(self, until_s: float) -> None:
        self._report_state()
        while (left_s := until_s - monotonic()) > 0:
            await asyncio.sleep(min(left_s, _POLL_S))
            self._check_end()
        self._breaker.enter(monotonic())
        self._report_state()

    def _check_end(self) -> None:
        """Raise NotStored when the crawl ends and MongoDB had time to answer."""
        if self._given_up:
            raise NotStored("MongoDB was given up on.")
        if not self._is_closing():
            return
        if self._give_up_at is None:
            self._give_up_at = monotonic() + _GIVE_UP_S
        elif monotonic() > self._give_up_at:
            self._given_up = True
            logger.error(
                "MongoDB does not answer and the crawl ends: pages that are not stored go back to "
                "the frontier"
            )
            raise NotStored("MongoDB does not answer.")

    def _report_state(self) -> None:
        if self._state != self._breaker.state:
            self._state = self._breaker.state
            self._on_change(self._state)
