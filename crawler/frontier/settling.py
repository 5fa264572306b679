"""Settlements that wait for the next flush of an outbox, and the calls that make them. No I/O."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from crawler.frontier.entry import Entry
from crawler.frontier.frontier import Frontier
from crawler.frontier.records import PAGE_AGAIN, VISIT_AGAIN, Again, Lease

Call = Callable[[], Awaitable[None]]
# A finished lease, whether it gave a page, and how it comes back.
Finished = tuple[Lease, bool, Again | None]


@dataclass(slots=True)
class Settlements:
    """By the verb that each of them needs."""

    done: list[Finished] = field(default_factory=list)
    retries: list[tuple[Lease, int, Entry]] = field(default_factory=list)
    buried: list[tuple[Lease, str]] = field(default_factory=list)
    handed_back: list[tuple[Lease, int]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.done or self.retries or self.buried or self.handed_back)

    @property
    def leases(self) -> list[Lease]:
        kinds = (self.done, self.retries, self.buried, self.handed_back)
        return [item[0] for kind in kinds for item in kind]

    def calls(self, frontier: Frontier) -> list[Call]:
        """What makes them, a call a verb."""
        calls = self._finishing(frontier)
        if self.retries:
            calls.append(partial(frontier.retry, self.retries))
        if self.buried:
            calls.append(partial(frontier.bury, self.buried))
        if self.handed_back:
            calls.append(partial(frontier.hand_back, self.handed_back))
        return calls

    def _finishing(self, frontier: Frontier) -> list[Call]:
        """Calls for what is finished; guarded, since a server may have lost the links."""
        over = [(lease, page) for lease, page, again in self.done if again is None]
        calls: list[Call] = [partial(frontier.done, over, guarded=True)] if over else []
        for kind, with_page in ((PAGE_AGAIN, True), (VISIT_AGAIN, False)):
            back = [
                (lease, again.wait_ms, again.entry)
                for lease, page, again in self.done
                if again is not None and page is with_page
            ]
            if back:
                calls.append(partial(frontier.retry, back, kind=kind, guarded=True))
        return calls
