"""Send Scrapy's signals with less ado: no task for a handler that has nothing to wait for.

Scrapy starts one task a handler for each signal that may be awaited, as `item_scraped` once a page,
and prepares each signal at length, of which most have no handler.
What handlers get and return, in which order they are called and what is logged is as in Scrapy.
"""

from __future__ import annotations

import asyncio
import logging
from inspect import isawaitable
from typing import Any

from pydispatch import dispatcher  # type: ignore[import-untyped]
from pydispatch.dispatcher import getAllReceivers, liveReceivers  # type: ignore[import-untyped]
from pydispatch.robustapply import robustApply  # type: ignore[import-untyped]
from scrapy.signalmanager import SignalManager
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

logger = logging.getLogger(__name__)

Answer = tuple[Any, Any]


class QuickSignals(SignalManager):
    """The signals of a crawl."""

    @classmethod
    def take_over(cls, signals: SignalManager) -> None:
        """Make this the way in which these signals are sent; their handlers stay connected."""
        # Other components have the object already, so it cannot be replaced.
        if type(signals) is SignalManager:
            signals.__class__ = cls

    def send_catch_log(self, signal: Any, **named: Any) -> list[Answer]:
        if not is_heard(signal, named.get("sender", self.sender)):
            return []
        return super().send_catch_log(signal, **named)

    async def send_catch_log_async(self, signal: Any, **named: Any) -> list[Answer]:
        sender = named.pop("sender", self.sender)
        given = named.pop("dont_log", ())
        quiet = tuple(given) if isinstance(given, list | tuple) else (given,)
        answers: list[Answer] = []
        waits: dict[int, Any] = {}
        for receiver in list(liveReceivers(getAllReceivers(sender, signal))):
            try:
                answer = robustApply(receiver, signal=signal, sender=sender, **named)
                if isinstance(answer, Deferred):
                    answer = maybe_deferred_to_future(answer)
                if isawaitable(answer):
                    waits[len(answers)] = answer
            except Exception as error:  # noqa: BLE001 - one handler must not stop the others
                answer = self._failed(receiver, error, quiet, named)
            answers.append((receiver, answer))
        if waits:
            found = await asyncio.gather(*waits.values(), return_exceptions=True)
            for index, answer in zip(waits, found, strict=True):
                receiver = answers[index][0]
                if isinstance(answer, Exception):
                    self._failed(receiver, answer, quiet, named)
                answers[index] = (receiver, answer)
        return answers

    @staticmethod
    def _failed(
        receiver: Any, error: Exception, quiet: tuple[type[Exception], ...], named: dict[str, Any]
    ) -> Exception:
        if not isinstance(error, quiet):
            logger.error(
                "Error caught on signal handler: %(receiver)s",
                {"receiver": receiver},
                exc_info=error,
                extra={"spider": named.get("spider")},
            )
        return error


def is_heard(signal: Any, sender: Any) -> bool:
    """Is there a handler for this signal of this sender, or for any?"""
    for whose in (sender, dispatcher.Any):
        handlers = dispatcher.connections.get(id(whose))
        if handlers and (signal in handlers or dispatcher.Any in handlers):
            return True
    return False
