"""Send Scrapy's signals with less ado: no task for a handler that has nothing to wait for.

Scrapy starts one task a handler for each signal that may be awaited, as `item_scraped` once a page,
and prepares each signal at length, of which most have no handler.
What handlers get and return, in which order they are called and what is logged is as in Scrapy.
"""

from __future__ import annotations

import asyncio
import logging
from functools import lru_cache
from inspect import CO_VARKEYWORDS, isawaitable
from types import CodeType, FunctionType, MethodType
from typing import Any

from pydispatch import dispatcher  # type: ignore[import-untyped]
from pydispatch.dispatcher import getAllReceivers, liveReceivers  # type: ignore[import-untyped]
from pydispatch.robustapply import robustApply  # type: ignore[import-untyped]
from scrapy.exceptions import StopDownload
from scrapy.signalmanager import SignalManager
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

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
        sender = named.pop("sender", self.sender)
        receivers = _receivers(signal, sender)
        if not receivers:
            return []
        quiet = (*_quiet(named), StopDownload)
        answers: list[Answer] = []
        for receiver in receivers:
            try:
                answer = _call(receiver, signal, sender, named)
            except Exception as error:  # noqa: BLE001 - one handler must not stop the others
                answer = Failure()  # type: ignore[no-untyped-call]
                self._failed(receiver, error, quiet, named)
            if isinstance(answer, Deferred):
                logger.error(
                    "%s returned a Deferred, which nobody waits for", receiver, extra=_of(named)
                )
            answers.append((receiver, answer))
        return answers

    async def send_catch_log_async(self, signal: Any, **named: Any) -> list[Answer]:
        sender = named.pop("sender", self.sender)
        quiet = _quiet(named)
        answers: list[Answer] = []
        waits: dict[int, Any] = {}
        for receiver in _receivers(signal, sender):
            try:
                answer = _call(receiver, signal, sender, named)
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
                extra=_of(named),
            )
        return error


def _quiet(named: dict[str, Any]) -> tuple[type[Exception], ...]:
    """Errors that are no news to whoever sends the signal."""
    given = named.pop("dont_log", ())
    return tuple(given) if isinstance(given, list | tuple) else (given,)


def _of(named: dict[str, Any]) -> dict[str, Any]:
    return {"spider": named.get("spider")}


def _receivers(signal: Any, sender: Any) -> list[Any]:
    """Those of a signal, in the order in which they were connected."""
    handlers = dispatcher.connections.get(id(sender), {})
    if dispatcher.Any in handlers or id(dispatcher.Any) in dispatcher.connections:
        return list(liveReceivers(getAllReceivers(sender, signal)))
    return list(liveReceivers(handlers.get(signal, ())))


def _call(receiver: Any, signal: Any, sender: Any, named: dict[str, Any]) -> Any:
    """Call a receiver with those of the values that it has arguments for."""
    if isinstance(receiver, MethodType) and isinstance(receiver.__func__, FunctionType):
        names = _names_of(receiver.__func__.__code__)
        if names is not None:
            return receiver(**{name: named[name] for name in names if name in named})
    return robustApply(receiver, signal=signal, sender=sender, **named)


@lru_cache(maxsize=1000)
def _names_of(code: CodeType) -> tuple[str, ...] | None:
    """Arguments of a method; None where more than the signal's values may be asked for."""
    names = code.co_varnames[1 : code.co_argcount]
    takes_all = code.co_flags & CO_VARKEYWORDS
    return None if takes_all or "signal" in names or "sender" in names else names
