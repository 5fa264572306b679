"""Keep this process known to the fleet, and take over the leases of processes that died.

A process that sends no beat for LEASE_TTL is declared dead by any other one, which makes its leases
available again. A dead process that comes back takes a new name and starts over. When a server
restarted or failed over, it may have lost the last moments: each process repeats what it had added
and what it has in flight.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from crawler.config.values import fill, setting, value
from crawler.errors import DataLost
from crawler.frontier import Beat, Entry, Frontier, Lease, OwnerDead, Visit
from crawler.frontier.frontier import raise_errors
from crawler.frontier.outbox import KEPT_S
from crawler.scheduling.lease_pool import LeasePool
from crawler.scheduling.shards import own_shards
from crawler.servers.health import LEASES, GaveUp, ServerHealth
from crawler.servers.redis.errors import RedisAway
from crawler.util.tasks import end

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

_BEAT_S = 2.0
# Beats that a process misses before it counts as dead for those that end.
_DEAD_BEATS = 5
# Calls in a row that take over leases. Each is short, and a process may have died with thousands of
# leases, of pages that waited for their store.
_RECLAIMS = 50


@dataclass(frozen=True, slots=True)
class Pulse:
    """Times of the heartbeat, in seconds: between two beats, and until a process counts as dead."""

    beat_s: float = _BEAT_S
    lease_ttl_s: float = setting("LEASE_TTL")
    # Delay of a host whose process died in the middle of a fetch.
    reclaim_delay_s: float = setting("DELAY_MIN")
    strategy: str = setting("FLEET_STRATEGY")

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        return fill(cls, settings, beat_s=min(_BEAT_S, value(settings, "LEASE_TTL") / 5))


class Heartbeat:
    """Beats of this process to all shards, until it is closed."""

    def __init__(
        self,
        frontier: Frontier,
        leases: LeasePool,
        health: ServerHealth,
        pulse: Pulse,
        *,
        about: Callable[[], dict[str, Any]],
        on_beat: Callable[[], Any],
        on_epoch: Callable[[], None],
        on_loss: Callable[[float], None],
        on_other: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._frontier = frontier
        self._leases = leases
        self._health = health
        self._pulse = pulse
        self._about = about
        # Awaited after each beat.
        self._on_beat = on_beat
        # Called when the server restarted and may have forgotten what it acknowledged.
        self._on_epoch = on_epoch
        # Called with the seconds that the server lost, if they are more than processes can repeat.
        self._on_loss = on_loss
        # Called with the words for it when Redis has another crawl of this name.
        self._on_other = on_other
        # By shard: its epoch, and how many beats in a row it answered.
        self._epochs: list[int] = []
        self._answers = [0] * frontier.shards
        # By shard: when it answered last, by this process's clock and by the shard's time.
        self._answered_s = [0.0] * frontier.shards
        self._answered_ms: list[int] = []
        # By shard: leaps of its clock that are logged.
        self._leaps: list[int] = []
        # Shards that did not answer to the last beat.
        self._missed: set[int] = set()
        # After a new start: shards that do not know the new name of this process yet, the leases
        # that it held under its old name, and those of them, and visits, that occupied a host.
        self._new_to: set[int] = set()
        self._dropped: list[Lease] = []
        self._dropped_flights: list[Lease | Visit] = []
        self._turn = 0
        # Leases and visits that were repeated to a restarted server, until that surely worked.
        self._repeated: dict[tuple[int, bytes], Lease | Visit] = {}
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Register this process, and start beating."""
        began = monotonic()
        await self._frontier.open(self._about())
        self._epochs = list(self._frontier.epochs)
        self._answered_ms = list(self._frontier.opened_ms)
        self._leaps = list(self._frontier.leaps)
        self._answered_s = [began] * self._frontier.shards
        self._leases.keep_alive(began + self._pulse.lease_ttl_s)
        await self._order_shards()
        self._task = asyncio.get_running_loop().create_task(self._beat_forever())

    async def close(self) -> None:
        """Stop beating, and sign off."""
        if self._task is not None:
            # Not between a beat and its handling.
            async with self._leases.lock:
                await end(self._task)
        if self._health.given_up:
            # The user waits for the end of this process.
            return
        with suppress(*RedisAway):
            await self._frontier.leave()
            if not self._leases.completion.may_go_on and not self._leases.outbox.is_safe:
                # After its end nobody could repeat its seeds and links.
                await self._frontier.sync()

    async def conclude(self) -> bool:
        """Return, after `close`, whether this was the last process of the crawl.

        Of several that end together, one gets True. A process that was killed is not waited for
        longer than _DEAD_BEATS. Raises RedisAway.
        """
        silence_ms = round(_DEAD_BEATS * self._pulse.beat_s * 1000)
        verdict, first_ms = await self._frontier.conclude(silence_ms=silence_ms)
        while verdict < 0:
            await asyncio.sleep(self._pulse.beat_s / 4)
            verdict, _ = await self._frontier.conclude(silence_ms=silence_ms, first_ms=first_ms)
        return verdict > 0

    async def _beat_forever(self) -> None:
        while True:
            await asyncio.sleep(self._pulse.beat_s)
            try:
                try:
                    await self._beat()
                except OwnerDead:
                    await self._start_over()
                self._health.worked(LEASES)
            except RedisAway as error:
                with suppress(GaveUp):
                    self._health.failed(LEASES, error)
            except Exception:
                # A process that stops beating is declared dead.
                logger.exception("A beat failed; trying again")

    async def _beat(self) -> None:
        """Beat all shards, and handle the answers."""
        self._turn += 1
        pool, shards = self._leases, range(self._frontier.shards)
        # Nothing is claimed from these. So they need no lock, and one that hangs delays nobody.
        missed = [] if self._frontier.has_one_server else sorted(self._missed)
        async with pool.lock:
            found = await self._beat_some([shard for shard in shards if shard not in missed])
        if missed:
            found |= await self._beat_some(missed)
        beats = {shard: beat for shard, beat in found.items() if isinstance(beat, Beat)}
        self._missed = found.keys() - beats.keys()
        await self._repeat({n: b for n, b in beats.items() if b.epoch != self._epochs[n]})
        self._new_to -= {n for n, beat in beats.items() if beat.epoch == self._epochs[n]}
        if not self._new_to:
            self._dropped, self._dropped_flights = [], []
        await self._reclaim([shard for shard in beats if self._answers[shard] % 3 == 0])
        if self._turn % 3 == 0:
            with suppress(*RedisAway):
                await self._order_shards()
        await self._on_beat()
        raise_errors(list(found.values()))

    async def _beat_some(self, shards: Collection[int]) -> dict[int, Beat | BaseException]:
        pool, began = self._leases, monotonic()
        known: list[Lease | Visit] = [*pool.known_leases, *pool.known_visits]
        found = await self._frontier.beat(
            *(shards, known, self._about()),
            unsuspected=pool.unsuspected,
            new=self._new_to,
            silent_ms={n: round((began - self._answered_s[n]) * 1000) for n in shards},
            epochs=self._epochs,
        )
        beats = {shard: beat for shard, beat in found.items() if isinstance(beat, Beat)}
        if not all(beat.alive for beat in beats.values()):
            raise OwnerDead(self._frontier.owner)
        strays = [lease for beat in beats.values() for lease in beat.strays]
        if strays:
            # Leases of a claim whose reply was lost, or of a settlement that was lost.
            await self._frontier.hand_back([(lease, 0) for lease in strays])
        for shard, beat in beats.items():
            self._answers[shard] += 1
            # The server may have got the beat right after it was sent.
            pool.keep_alive(began + self._pulse.lease_ttl_s, shard)
            self._answered_s[shard] = began
            if beat.epoch == self._epochs[shard]:
                self._answered_ms[shard] = beat.now_ms
                pool.outbox.seen_alive(shard, began)
        self._log_leaps(beats)
        for shard in found.keys() - beats.keys():
            # Other processes could not beat either: give them time for it before a reclaim.
            self._answers[shard] = 0
            pool.missed(shard)
        return found

    def _log_leaps(self, beats: Mapping[int, Beat]) -> None:
        """Log that the clock of Redis jumped: once, however many of its shards have seen it."""
        leapt_ms = [
            beat.leapt_ms for shard, beat in beats.items() if beat.leaps > self._leaps[shard]
        ]
        for shard, beat in beats.items():
            self._leaps[shard] = beat.leaps
        if leapt_ms:
            most_ms = max(leapt_ms, key=abs)
            logger.warning(
                "The clock of Redis jumped %s by %.0f s; the crawl keeps its own time",
                *("ahead" if most_ms > 0 else "back", abs(most_ms) / 1000),
            )

    async def _repeat(self, restarted: Mapping[int, Beat]) -> None:
        """Repeat adds and leases to shards with a new epoch: they may have lost them."""
        if not restarted:
            return
        try:
            await self._frontier.create()
        except DataLost as error:
            # Nothing of this crawl is repeated there.
            self._on_other(str(error))
            return
        except RedisAway:
            # On a cluster, of another master.
            pass
        logger.warning("Redis restarted or failed over; repeating what is in flight")
        self._on_epoch()
        # The time between what survived in a shard and its last answer. If what survived is not
        # known, as in crawls of former versions, the shard's old epoch counts.
        lost_s = max(
            (self._answered_ms[shard] - (beat.survived_ms or self._epochs[shard])) / 1000
            for shard, beat in restarted.items()
        )
        if lost_s > KEPT_S:
            self._on_loss(lost_s)
        # If Redis goes away again, the next beat repeats all of this.
        for shard, beat in restarted.items():
            self._leases.outbox.repeat_adds(shard, self._held_of(shard))
            with suppress(*RedisAway):
                await self._reassert(shard)
                self._epochs[shard] = beat.epoch
                self._answered_ms[shard] = beat.now_ms

    def _held_of(self, shard: int) -> list[Entry]:
        """Return the URLs of a shard that this process holds, or held under its old name."""
        dropped = self._dropped if shard in self._new_to else []
        known = (*self._leases.known_leases, *dropped)
        return [lease.entry for lease in known if lease.shard == shard]

    async def _reassert(self, shard: int) -> None:
        pool, frontier = self._leases, self._frontier
        released = pool.recent_releases.left(shard)
        # A host whose release was lost would stay occupied forever.
        await frontier.release(released, usual=False)
        delays = {lease.host: left_ms for lease, left_ms in released}
        if shard in self._new_to:
            # Fetches under the old name of this process: nobody would release their hosts.
            ttl_ms = round(self._pulse.lease_ttl_s * 1000)
            flights = (each for each in self._dropped_flights if each.shard == shard)
            delays |= {each.host: ttl_ms for each in flights}
        flying = [each for each in pool.in_flight if each.shard == shard]
        self._repeated |= {each.key: each for each in flying}
        await frontier.reassert(flying, delays)
        await self._free_overtaken(shard)

    async def _free_overtaken(self, shard: int) -> None:
        """Release the hosts of fetches that ended while they were repeated.

        Their release may have come before the repetition, which occupied the host again.
        """
        flying = {each.key for each in self._leases.in_flight}
        released = self._leases.recent_releases.left(shard)
        left = {lease.key: left_ms for lease, left_ms in released}
        repeated = {key: each for key, each in self._repeated.items() if each.shard == shard}
        # Those without a delay were handed back unfetched.
        ended = [(each, left.get(key, 0)) for key, each in repeated.items() if key not in flying]
        await self._frontier.release(ended, usual=False)
        for key in repeated:
            del self._repeated[key]

    async def _reclaim(self, shards: Sequence[int]) -> None:
        taken = 0
        for _ in range(_RECLAIMS):
            part = await self._frontier.reclaim(
                silence_ms=round(self._pulse.lease_ttl_s * 1000),
                delay_ms=round(self._pulse.reclaim_delay_s * 1000),
                shards=shards,
            )
            if not part:
                break
            taken += part
        if taken:
            logger.info("Took over %d leases of processes that died", taken)
            self._leases.claim_soon()

    async def _start_over(self) -> None:
        logger.warning(
            "This process sent no beat for too long, or Redis lost it: its leases go to others, "
            "and it continues under a new name"
        )
        async with self._leases.lock:
            self._dropped = list(self._leases.known_leases)
            self._dropped_flights = list(self._leases.in_flight)
            # From now on nothing is claimed from a shard until it knows the new name.
            self._leases.drop_all()
            self._repeated.clear()
            self._new_to = set(range(self._frontier.shards))
            self._frontier.owner = uuid.uuid4().hex[:16]
        await self._beat()

    async def _order_shards(self) -> None:
        """Choose the shards that this process claims from, by the strategy."""
        frontier, strategy = self._frontier, self._pulse.strategy
        if frontier.shards == 1:
            return
        live = await frontier.live() if strategy in ("sticky", "hash") else []
        sizes = await frontier.sizes_by_shard() if strategy == "balanced" else []
        own = own_shards(strategy, frontier.shards, frontier.owner, live=live, sizes=sizes)
        self._leases.shards.use(strategy, own)
