"""Send URLs to the frontier, except those that are known to be there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from crawler.frontier import Added, Entry
from crawler.frontier.outbox import Outbox
from crawler.servers.health import GaveUp

# Single URLs that may wait for Redis; with more, start() waits too.
_SENT_MAX = 1000


class UrlAdder:
    """Way of URLs into the outbox, past a cache of those that are known."""

    def __init__(self, outbox: Outbox, known: SeenCache, count: Callable[[str, int], None]) -> None:
        self._outbox = outbox
        self._known = known
        self._count = count
        # Single URLs that Redis has not acknowledged.
        self._sent: set[asyncio.Future[Added]] = set()
        self._some_room = asyncio.Event()

    def known_among(self, fingerprints: Sequence[int]) -> set[int]:
        """Return those of the URLs that are surely in the frontier: they need not be added."""
        return self._known.among(fingerprints)

    def met_again(self, number: int) -> None:
        """Count URLs that were found again, and not added."""
        if number:
            self._count("frontier/discovered", number)
            self._count("frontier/cached", number)

    def forget(self) -> None:
        """Forget the known URLs: Redis may have lost some of them."""
        self._known.clear()

    async def add(self, entries: Sequence[Entry], mode: str) -> Added:
        """Add URLs, see Frontier.add. Returns when Redis has answered."""
        unknown = self._unknown(entries, mode)
        answers = ["0"] * len(entries)
        if unknown:
            sent = [entries[i] for i in unknown]
            added = await self._send([entry.id for entry in sent], sent, mode)
            for place, index in enumerate(unknown):
                answers[index] = added.answers[place]
        return Added("".join(answers))

    async def add_unknown(self, ids: Sequence[int], entries: Sequence[Entry | bytes]) -> Added:
        """Add URLs with these fingerprints in the mode "new". None of them is in the cache."""
        self._count("frontier/discovered", len(ids))
        return await self._send(ids, entries, "new")

    def send(
        self, entry: Entry, mode: str, done: Callable[[], None]
    ) -> asyncio.Future[Added] | None:
        """Pass one URL to the outbox, and call `done` when Redis has it. None: it has it."""
        if not self._unknown([entry], mode):
            return None
        future = self._send([entry.id], [entry], mode)
        self._sent.add(future)
        future.add_done_callback(lambda sent: self._arrived(sent, done))
        return future

    def _arrived(self, sent: asyncio.Future[Added], done: Callable[[], None]) -> None:
        self._sent.discard(sent)
        self._some_room.set()
        done()

    async def arrival(self) -> bool:
        """Wait until Redis has all that was sent; return False if it was given up on."""
        sent = list(self._sent)
        if sent:
            await asyncio.wait(sent)
        return not any(one.cancelled() or isinstance(one.exception(), GaveUp) for one in sent)

    async def room(self) -> None:
        """Wait until there is room for more URLs that wait for Redis."""
        while len(self._sent) >= _SENT_MAX:
            self._some_room.clear()
            await self._some_room.wait()

    def _unknown(self, entries: Sequence[Entry], mode: str) -> list[int]:
        self._count("frontier/discovered", len(entries))
        unknown = [
            i for i, entry in enumerate(entries) if mode == "force" or entry.id not in self._known
        ]
        self._count("frontier/cached", len(entries) - len(unknown))
        return unknown

    def _send(
        self, ids: Sequence[int], entries: Sequence[Entry | bytes], mode: str
    ) -> asyncio.Future[Added]:
        future = self._outbox.add(entries, mode=mode)
        future.add_done_callback(lambda done: self._remember(ids, done))
        return future

    def _remember(self, ids: Sequence[int], future: asyncio.Future[Added]) -> None:
        if future.cancelled() or future.exception() is not None:
            return
        added = future.result()
        # Only now: a URL that Redis does not have must not count as known.
        if added.refused:
            ids = [id_ for index, id_ in enumerate(ids) if not added.is_refused(index)]
        self._known.update(ids)
        self._count("frontier/added", added.new)


class SeenCache:
    """Set of fingerprints that forgets its older half when it is full."""

    def __init__(self, size: int) -> None:
        self._half = max(1, size // 2)
        self._young: set[int] = set()
        self._old: set[int] = set()

    def __contains__(self, fingerprint: int) -> bool:
        return fingerprint in self._young or fingerprint in self._old

    def among(self, fingerprints: Sequence[int]) -> set[int]:
        """Return those that are remembered, for all links of a page at once."""
        return self._young.intersection(fingerprints) | self._old.intersection(fingerprints)

    def add(self, fingerprint: int) -> None:
        """Remember a URL that Redis has acknowledged."""
        if len(self._young) >= self._half:
            self._old, self._young = self._young, set()
        self._young.add(fingerprint)

    def update(self, fingerprints: Sequence[int]) -> None:
        """Remember many."""
        if len(self._young) + len(fingerprints) <= self._half:
            self._young.update(fingerprints)
            return
        for fingerprint in fingerprints:
            self.add(fingerprint)

    def clear(self) -> None:
        """Forget all."""
        self._young, self._old = set(), set()
