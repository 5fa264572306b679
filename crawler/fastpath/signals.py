"""Send Scrapy's signals at less cost: no task for a handler that has nothing to wait for.

Scrapy starts a task for each handler of a signal that may be awaited, such as `item_scraped`, and
prepares every signal even if it has no handler. The arguments and results of handlers, their order
and the log lines are the same here as in Scrapy.
"""

import asyncio
import logging
from functools import lru_cache
from inspect import CO_VARKEYWORDS, isawaitable
from types import CodeType, FunctionType, MethodType
from typing import Any

from pydispatch import dispatcher  # type: ignore[import-untyped]
from pydispatch.dispatcher import (  # type: ignore[import-untyped]
    WEAKREF_TYPES,
    getAllReceivers,
    liveReceivers,
)
from pydispatch.robustapply import robustApply  # type: ignore[import-untyped]
from scrapy.exceptions import StopDownload
from scrapy.signalmanager import SignalManager
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

logger = logging.getLogger(__name__)

# A handler, and what it returned or raised.
Result = tuple[Any, Any]


class QuickSignals(SignalManager):
    """Signals of a crawl, sent without preparing those that have no handler."""

    @classmethod
    def take_over(cls, signals: SignalManager) -> None:
        """Change the class of this signal manager; its handlers stay connected."""
        # Other components hold the object already, so it cannot be replaced.
        if type(signals) is SignalManager:
            signals.__class__ = cls

    def send_catch_log(self, signal: Any, **named: Any) -> list[Result]:
        sender = named.pop("sender", self.sender)
        receivers = _receivers(signal, sender)
        if not receivers:
            return []
        quiet = (*_quiet(named), StopDownload)
        results: list[Result] = []
        for receiver in receivers:
            try:
                result = _call(receiver, signal, sender, named)
            except Exception as error:  # noqa: BLE001 - one handler must not stop the others
                result = Failure()  # type: ignore[no-untyped-call]
                self._failed(receiver, error, quiet, named)
            if isinstance(result, Deferred):
                logger.error(
                    "%s returned a Deferred, which nobody waits for", receiver, extra=_extra(named)
                )
            results.append((receiver, result))
        return results

    async def send_catch_log_async(self, signal: Any, **named: Any) -> list[Result]:
        sender = named.pop("sender", self.sender)
        quiet = _quiet(named)
        results: list[Result] = []
        waits: dict[int, Any] = {}
        for receiver in _receivers(signal, sender):
            try:
                result = _call(receiver, signal, sender, named)
                if isinstance(result, Deferred):
                    result = maybe_deferred_to_future(result)
                if isawaitable(result):
                    waits[len(results)] = result
            except Exception as error:  # noqa: BLE001 - one handler must not stop the others
                result = self._failed(receiver, error, quiet, named)
            results.append((receiver, result))
        if waits:
            found = await asyncio.gather(*waits.values(), return_exceptions=True)
            for index, result in zip(waits, found, strict=True):
                receiver = results[index][0]
                if isinstance(result, Exception):
                    self._failed(receiver, result, quiet, named)
                results[index] = (receiver, result)
        return results

    @staticmethod
    def _failed(
        receiver: Any, error: Exception, quiet: tuple[type[Exception], ...], named: dict[str, Any]
    ) -> Exception:
        if not isinstance(error, quiet):
            logger.error(
                "Error caught on signal handler: %(receiver)s",
                {"receiver": receiver},
                exc_info=error,
                extra=_extra(named),
            )
        return error


def _quiet(named: dict[str, Any]) -> tuple[type[Exception], ...]:
    """Take the errors that are not to be logged out of a signal's arguments."""
    given = named.pop("dont_log", ())
    return tuple(given) if isinstance(given, list | tuple) else (given,)


def _extra(named: dict[str, Any]) -> dict[str, Any]:
    return {"spider": named.get("spider")}


def _receivers(signal: Any, sender: Any) -> list[Any]:
    """List the handlers of a signal in the order in which they were connected."""
    connections = dispatcher.connections
    handlers = connections.get(id(sender), {})
    if id(dispatcher.Any) in connections or dispatcher.Any in handlers:
        return list(liveReceivers(getAllReceivers(sender, signal)))
    found = []
    for receiver in handlers.get(signal, ()):
        live = receiver() if isinstance(receiver, WEAKREF_TYPES) else receiver
        if live is not None:
            found.append(live)
    return found


def _call(receiver: Any, signal: Any, sender: Any, named: dict[str, Any]) -> Any:
    """Call a handler with the values that it has parameters for."""
    if isinstance(receiver, MethodType) and isinstance(receiver.__func__, FunctionType):
        names = _parameters(receiver.__func__.__code__)
        if names is not None:
            return receiver(**{name: named[name] for name in names if name in named})
    return robustApply(receiver, signal=signal, sender=sender, **named)


@lru_cache(maxsize=1000)
def _parameters(code: CodeType) -> tuple[str, ...] | None:
    """List the parameters of a method; None if it takes more than the signal's own values."""
    names = code.co_varnames[1 : code.co_argcount]
    takes_all = code.co_flags & CO_VARKEYWORDS
    return None if takes_all or "signal" in names or "sender" in names else names
