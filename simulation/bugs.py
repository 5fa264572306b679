"""Bugs that are planted on purpose, to see that the simulation finds them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from crawler.frontier import Added, Beat, Frontier, frontier
from crawler.frontier.outbox import Lane, UrlAdder
from crawler.scheduling.lease_pool import LeasePool
from crawler.storage.storage import SinkWriter
from simulation import world

Bug = Callable[[ExitStack], None]


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant a bug during the block; none without a name."""
    if name and name not in BUGS:
        raise SystemExit(f"There is no bug {name}; there are {', '.join(BUGS)}.")
    with ExitStack() as stack:
        if name:
            BUGS[name](stack)
        yield


def _done_before_links(stack: ExitStack) -> None:
    """A page is settled while its links are on their way, and settlements are sent first."""
    add_unknown = UrlAdder.add_unknown

    async def begin(self: UrlAdder, ids: Sequence[int], entries: Sequence[Any]) -> Added:
        asyncio.ensure_future(add_unknown(self, ids, entries))  # noqa: RUF006 - the loop keeps it
        return Added("1" * len(ids))

    async def flush(self: Lane) -> None:
        try:
            while self._adds or self._waiting:
                await self._pace.next()
                await self._send_settlements()
                for call in self._take_adds():
                    await self._insist(call)
                await self._send_releases()
                self._on_flushed()
        finally:
            self.task = None

    stack.enter_context(patch.object(UrlAdder, "add_unknown", begin))
    stack.enter_context(patch.object(Lane, "_flush", flush))


def _kept_leases(stack: ExitStack) -> None:
    """A process that was declared dead keeps its leases."""
    stack.enter_context(patch.object(LeasePool, "drop_all", lambda _: None))


def _never_doubts(stack: ExitStack) -> None:
    """A process that was stopped for long goes on as if nothing had happened."""
    stack.enter_context(patch.object(LeasePool, "is_alive", lambda _, __: True))


def _lost_claims(stack: ExitStack) -> None:
    """A claim without an answer is not repeated, and its leases are not handed back."""
    claim, beat = LeasePool._claim, Frontier.beat

    async def claim_anew(self: LeasePool, *args: Any) -> Any:
        self._claim_ids.clear()
        return await claim(self, *args)

    async def beat_only(self: Frontier, *args: Any, **more: Any) -> Any:
        found = await beat(self, *args, **more)
        return {n: replace(b, strays=[]) if isinstance(b, Beat) else b for n, b in found.items()}

    stack.enter_context(patch.object(LeasePool, "_claim", claim_anew))
    stack.enter_context(patch.object(Frontier, "beat", beat_only))


def _stored_late(stack: ExitStack) -> None:
    """A page counts as stored when it is passed to its sink."""
    put = SinkWriter.put

    def begin(self: SinkWriter, page: Any) -> Any:
        put(self, page)
        done = asyncio.get_running_loop().create_future()
        done.set_result({"number": 0})
        return done

    stack.enter_context(patch.object(SinkWriter, "put", begin))


def _trusted_after_restart(stack: ExitStack) -> None:
    """A lease of the time before a restart of Redis is settled, although its links may be lost."""
    stack.enter_context(patch.object(Frontier, "_grace", lambda _, __: ""))


def _in_lua(name: str, right: str, wrong: str) -> Bug:
    """Return a bug in a file of Lua."""
    read = frontier.read_part

    def read_wrong(part: str) -> str:
        text = read(part)
        if part != name:
            return text
        assert right in text, f"{name}.lua has changed: {right}"
        return text.replace(right, wrong)

    def plant(stack: ExitStack) -> None:
        stack.callback(_forget_scripts)
        stack.enter_context(patch.object(frontier, "read_part", read_wrong))
        _forget_scripts()

    return plant


def _forget_scripts() -> None:
    frontier.script.cache_clear()
    world.scripts.cache_clear()
    world.verbs.cache_clear()


BUGS: dict[str, Bug] = {
    "done-before-links": _done_before_links,
    "kept-leases": _kept_leases,
    "never-doubts": _never_doubts,
    "lost-claims": _lost_claims,
    "stored-late": _stored_late,
    "trusted-after-restart": _trusted_after_restart,
    # The host of a process that died stays occupied.
    "slot-of-the-dead": _in_lua("reclaim", "free_slot(host, token, now + delay, delay)", ""),
}
