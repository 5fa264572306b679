"""The verbs of a crawl at work, one method per Lua script. See lua/ for their contracts."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any

from crawler.frontier import adding
from crawler.frontier.connection import Client
from crawler.frontier.each_shard import each_shard
from crawler.frontier.entry import Entry, encode
from crawler.frontier.errors import OwnerDead
from crawler.frontier.instance import Instance
from crawler.frontier.records import RETRY, Added, Claim, Lease, Sizes
from crawler.frontier.tuning import Tuning
from crawler.policy.turns import turns

# Leases settled by one call.
BATCH_MAX = 1000
# Owners that died with a URL in their hands, until it is taken for what killed them. A slow page
# may be there by chance when processes are killed from outside again and again.
POISON = 5


class Frontier(Instance):
    """One crawl's frontier. Every verb may be repeated after a lost reply."""

    def __init__(
        self,
        redis: Client,
        crawl: str,
        *,
        shards: int = 1,
        tuning: Tuning | None = None,
        spider: str = "",
    ) -> None:
        super().__init__(redis, crawl, shards, tuning or Tuning(), spider)
        # Stays when the owner's changes.
        self._name = uuid.uuid4().hex
        # Set while Redis is nearly full: then discoveries of low priority are refused.
        self.pressed = False
        self.serve(self.tuning.weights, self.tuning.load_weights, self.tuning.load_threshold)

    def serve(
        self, weights: Sequence[int], load_weights: Sequence[int], load_threshold: int
    ) -> None:
        """Serve the queues by these weights from now on, see Tuning."""
        self._order = turns(weights)
        self._load_order = turns(load_weights)
        self._load_threshold = load_threshold

    # --- URLs in -------------------------------------------------------------------------------

    async def add(
        self,
        entries: Sequence[Entry | bytes],
        *,
        mode: str = "new",
        request_id: str = "",
        shard: int | None = None,
    ) -> Added:
        """Put unseen URLs into their front queues; all are of one shard if that is named.

        Mode "force" adds known ones too, for requests with dont_filter; "all" refuses none, for
        seeds and redirects. A forced add that is repeated with its request id adds nothing twice.
        """
        return await adding.add(
            self._run,
            self._tags if shard is None else (self._tags[shard],),
            entries,
            mode=mode,
            seen_argument=self._seen_argument,
            full_at=1 if self.pressed else self.tuning.full_at,
            order=(self._name, request_id or (uuid.uuid4().hex if mode == "force" else "")),
        )

    async def promote(
        self, limit: int = 1000, *, shards: Iterable[int] | None = None, now_ms: int = 0
    ) -> int:
        """Move delayed URLs that are due to their front queues; says how many."""
        args = (now_ms, limit, self.tuning.dead_max)
        return sum(await self._on_some(shards, "promote", *args))

    # --- URLs out ------------------------------------------------------------------------------

    async def claim(
        self,
        n: int,
        request_id: str,
        *,
        shard: int = 0,
        max_pages: int = 0,
        host_pages: int = 0,
        now_ms: int = 0,
    ) -> Claim:
        """Lease up to `n` URLs of a shard. The same request id again brings the same leases."""
        tuning = self.tuning
        state, leases, wait, delayed, more = await self._run(
            "claim",
            self._tags[shard],
            self.owner,
            request_id,
            n,
            now_ms,
            self._order,
            self._load_order,
            self._load_threshold,
            tuning.parallelism,
            max_pages,
            host_pages,
            tuning.grace_ms,
            tuning.dead_max,
            tuning.spacing_ms,
        )
        if state == b"dead":
            raise OwnerDead(self.owner)
        return Claim(
            leases=await self._leases(shard, leases),
            state=state.decode(),
            wait_ms=None if int(wait) < 0 else int(wait),
            delayed_ms=None if int(delayed) < 0 else int(delayed),
            more=bool(more),
        )

    async def release(
        self, fetches: Sequence[tuple[Lease, int]], *, usual: bool = True, now_ms: int = 0
    ) -> None:
        """Fetches ended; their hosts rest for so many milliseconds, as they usually do or not."""
        ended = ((lease.shard, (lease.entry.host, lease.token, rest)) for lease, rest in fetches)
        await self._settle("release", (now_ms, int(usual)), ended)

    async def done(self, leases: Sequence[tuple[Lease, bool]], *, guarded: bool = False) -> None:
        """Settle leases for good; the flag says whether the URL gave a page.

        Guarded: not those claimed before a restart of the server, which may have lost their links.
        """
        grace = self.tuning.grace_ms if guarded else ""
        finished = ((lease.shard, (lease.token, int(page))) for lease, page in leases)
        await self._settle("done", (self.owner, grace), finished)

    async def retry(
        self,
        retries: Sequence[tuple[Lease, int, Entry]],
        *,
        kind: str = RETRY,
        guarded: bool = False,
        now_ms: int = 0,
    ) -> None:
        """Put leased URLs off by so many milliseconds, to come back as the given entry.

        A retry still has to be crawled, a recrawl was; that one may be guarded as done() is.
        """
        grace = self.tuning.grace_ms if guarded else ""
        put_off = (
            (lease.shard, (lease.token, wait, encode(entry))) for lease, wait, entry in retries
        )
        await self._settle("retry", (self.owner, now_ms, kind, grace), put_off)

    async def bury(self, leases: Sequence[tuple[Lease, str]], *, now_ms: int = 0) -> None:
        """Move leased URLs to the dead-letter queue, with the reason."""
        dead = ((lease.shard, (lease.token, reason)) for lease, reason in leases)
        await self._settle("bury", (self.owner, now_ms, self.tuning.dead_max), dead)

    async def hand_back(self, leases: Sequence[tuple[Lease, int]], *, now_ms: int = 0) -> None:
        """Give leases back unfetched; their hosts rest for so many milliseconds."""
        unfetched = ((lease.shard, (lease.token, rest_ms)) for lease, rest_ms in leases)
        await self._settle("hand_back", (self.owner, now_ms), unfetched)

    async def reclaim(
        self,
        *,
        silence_ms: int,
        rest_ms: int,
        limit: int = 100,
        poison: int = POISON,
        shards: Iterable[int] | None = None,
        now_ms: int = 0,
    ) -> int:
        """Take back leases of instances silent for so long; says how many."""
        args = (now_ms, silence_ms, limit, poison, rest_ms, self.tuning.dead_max)
        return sum(await self._on_some(shards, "reclaim", *args))

    async def sizes(self) -> Sizes:
        """How many URLs are in each state, over all shards."""
        parts = await each_shard(partial(self.sizes_of, shard) for shard in range(self.shards))
        return sum(parts[1:], parts[0])

    async def sizes_of(self, shard: int) -> Sizes:
        """The same of one shard."""
        return Sizes.of(await self._run("sizes", self._tags[shard]))

    async def waiting_by_shard(self) -> list[int]:
        """How many URLs wait in each shard."""
        return [Sizes.of(answer).waiting for answer in await self._on_all("sizes")]

    async def _settle(
        self, verb: str, first: tuple[Any, ...], items: Iterable[tuple[int, tuple[Any, ...]]]
    ) -> None:
        """Run a verb on leases of any shards; one call serves many of them."""
        by_shard: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
        for shard, values in items:
            by_shard[shard].append(values)
        batches = (
            (self._tags[shard], chain(first, *leases[start : start + BATCH_MAX]))
            for shard, leases in by_shard.items()
            for start in range(0, len(leases), BATCH_MAX)
        )
        await self._run_each(verb, batches)
