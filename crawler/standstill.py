"""Say once why nothing is claimed: a crawl that stands still without a word looks stuck."""

from __future__ import annotations

import logging
from time import monotonic

from crawler.ending import Round

logger = logging.getLogger(__name__)


class Standstill:
    """Of one process, which may be asked after every round of claims."""

    def __init__(self) -> None:
        self._paused = False
        # Monotonic seconds.
        self._grace_until = 0.0

    def tell(self, round_: Round) -> None:
        """What a round of claims found, if that is news."""
        # Without a state no shard was asked: Redis is away.
        if round_.states and ("paused" in round_.states) != self._paused:
            self._paused = not self._paused
            if self._paused:
                logger.info(
                    "The crawl is paused: nothing new is fetched until it is resumed, by `scrapy "
                    "frontier resume` or on the dashboard"
                )
            else:
                logger.info("The crawl is resumed")
        if "grace" in round_.states and monotonic() > self._grace_until:
            wait_s = max(round_.waits_s, default=0.0)
            # Not of each master of a cluster: the others may have leases meanwhile.
            self._grace_until = monotonic() + wait_s
            logger.info(
                "Redis has restarted: nothing new is fetched for %.0f s, in which processes that "
                "may still be fetching tell it what they have in flight",
                wait_s,
            )
