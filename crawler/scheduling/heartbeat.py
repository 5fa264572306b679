"""Keep a process known to the fleet: beat, follow the fleet's options, clear up after the dead."""

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
from crawler.frontier import Beat, Entry, Frontier, Lease, OwnerDead
from crawler.frontier.lane import KEPT_S
from crawler.frontier.shards import gather, preferred, raise_errors
from crawler.scheduling.lease_pool import LeasePool
from crawler.servers.health import LEASES, GaveUp, ServerHealth
from crawler.servers.redis.errors import RedisAway
from crawler.util.tasks import end

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

_BEAT_S = 2.0
# Calls in a row that take back leases: each is short, and a process may have died with thousands,
# of pages that waited for their store.
_RECLAIMS = 50


@dataclass(frozen=True, slots=True)
class Pulse:
    """How often a process beats, and when another one is taken for dead. Seconds."""

    beat_s: float = _BEAT_S
    lease_ttl_s: float = setting("LEASE_TTL")
    # Delay of a host whose process died in the middle of a fetch.
    reclaim_rest_s: float = setting("DELAY_MIN")
    strategy: str = setting("FLEET_STRATEGY")

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        return fill(cls, settings, beat_s=min(_BEAT_S, value(settings, "LEASE_TTL") / 5))


class Heartbeat:
    """Beats until it is closed."""

    def __init__(
        self,
        frontier: Frontier,
        lease_pool: LeasePool,
        health: ServerHealth,
        pulse: Pulse,
        *,
        about: Callable[[], dict[str, Any]],
        on_beat: Callable[[], Any],
        on_epoch: Callable[[], None],
        on_loss: Callable[[float], None],
    ) -> None:
        self._frontier = frontier
        self._lease_pool = lease_pool
        self._health = health
        self._pulse = pulse
        self._about = about
        # Awaited after each beat: the scheduler looks at memory and lost leases there.
        self._on_beat = on_beat
        # Called when the server restarted and may have forgotten what it acknowledged.
        self._on_epoch = on_epoch
        # Called with the seconds that it lost, if they are more than processes can repeat.
        self._on_loss = on_loss
        # By shard: its epoch, and how many beats in a row it heard.
        self._epochs: list[int] = []
        self._heard = [0] * frontier.shards
        # By shard: when it answered last, by this process's clock and by the shard's time.
        self._answered_s = [0.0] * frontier.shards
        self._answered_ms: list[int] = []
        # By shard: leaps of its clock that are logged.
        self._leaps: list[int] = []
        # Shards that did not hear the last one.
        self._missed: set[int] = set()
        # Shards that do not know the name of this process yet; what it held under the one it had,
        # and which of that was being fetched.
        self._new_to: set[int] = set()
        self._dropped: list[Lease] = []
        self._dropped_flights: list[Lease] = []
        self._turn = 0
        # Fetches that a restarted server was told of, until that is known to have worked.
        self._told: dict[tuple[int, bytes], Lease] = {}
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Register, and beat from now on."""
        until, began = self._alive_until(), monotonic()
        await self._frontier.open(self._about())
        self._epochs = list(self._frontier.epochs)
        self._answered_ms = list(self._frontier.opened_ms)
        self._leaps = list(self._frontier.leaps)
        self._answered_s = [began] * self._frontier.shards
        self._lease_pool.beaten(until)
        await self._order_shards()
        self._task = asyncio.get_running_loop().create_task(self._beat_forever())

    async def close(self) -> None:
        """Sign off."""
        if self._task is not None:
            # Not between a beat and what it found.
            async with self._lease_pool.lock:
                await end(self._task)
        if self._health.given_up:
            # Whoever stops this process waits.
            return
        with suppress(*RedisAway):
            await self._frontier.leave()
            if not self._lease_pool.completion.may_go_on and not self._lease_pool.outbox.is_safe:
                # Nobody is there to repeat its seeds and links when it is gone.
                await self._frontier.sync()

    async def _beat_forever(self) -> None:
        while True:
            await asyncio.sleep(self._pulse.beat_s)
            try:
                await self._beat_or_start_over()
                self._health.worked(LEASES)
            except RedisAway as error:
                with suppress(GaveUp):
                    self._health.failed(LEASES, error)
            except Exception:
                # A process that stops beating is taken for dead with all that it holds.
                logger.exception("A beat failed; trying again")

    async def _beat_or_start_over(self) -> None:
        try:
            await self._beat()
        except OwnerDead:
            await self._start_over()

    async def _beat(self) -> None:
        """Beat all shards, and do for those that answer what there is to do."""
        self._turn += 1
        pool, shards = self._lease_pool, range(self._frontier.shards)
        # Nothing is claimed from these: they need no lock, and one that hangs holds nobody up.
        missed = sorted(self._missed) if len(shards) > 1 else []
        async with pool.lock:
            found = await self._beat_some([shard for shard in shards if shard not in missed])
        if missed:
            found |= await self._beat_some(missed)
        beats = {shard: beat for shard, beat in found.items() if isinstance(beat, Beat)}
        self._missed = found.keys() - beats.keys()
        await self._tell_again({n: b for n, b in beats.items() if b.epoch != self._epochs[n]})
        self._new_to -= {n for n, beat in beats.items() if beat.epoch == self._epochs[n]}
        if not self._new_to:
            self._dropped, self._dropped_flights = [], []
        await self._reclaim([shard for shard in beats if self._heard[shard] % 3 == 0])
        if self._turn % 3 == 0:
            with suppress(*RedisAway):
                await self._order_shards()
        await self._on_beat()
        raise_errors(list(found.values()))

    async def _beat_some(self, shards: Collection[int]) -> dict[int, Beat | BaseException]:
        pool, began, until = self._lease_pool, monotonic(), self._alive_until()
        found = await self._frontier.beat(
            *(shards, pool.known_leases, self._about()),
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
            # Leases of a claim whose reply never came, or of a settlement that was lost.
            await self._frontier.hand_back([(lease, 0) for lease in strays])
        for shard, beat in beats.items():
            self._heard[shard] += 1
            pool.beaten(until, shard)
            self._answered_s[shard] = began
            if beat.epoch == self._epochs[shard]:
                self._answered_ms[shard] = beat.now_ms
                pool.outbox.seen_alive(shard, began)
            if beat.leaps > self._leaps[shard]:
                logger.warning(
                    "The clock of Redis went %s by %.0f s in a leap; the crawl keeps its own time",
                    *("ahead" if beat.leapt_ms > 0 else "back", abs(beat.leapt_ms) / 1000),
                )
            self._leaps[shard] = beat.leaps
        for shard in found.keys() - beats.keys():
            # The others could not beat either: they get the time to do it before a reclaim.
            self._heard[shard] = 0
            pool.missed(shard)
        return found

    async def _tell_again(self, restarted: Mapping[int, Beat]) -> None:
        """These shards have new epochs, and may have forgotten what they acknowledged."""
        if not restarted:
            return
        logger.warning("Redis restarted or failed over; telling it again what is in flight")
        self._on_epoch()
        lost_s = max(self._lost_s(shard, beat) for shard, beat in restarted.items())
        if lost_s > KEPT_S:
            self._on_loss(lost_s)
        # If it goes away again, the next beat finds the same.
        with suppress(*RedisAway):
            await self._frontier.create()
        for shard, beat in restarted.items():
            self._lease_pool.outbox.repeat_adds(shard, self._held_of(shard))
            with suppress(*RedisAway):
                await self._reassert(shard)
                self._epochs[shard] = beat.epoch
                self._answered_ms[shard] = beat.now_ms

    def _lost_s(self, shard: int, beat: Beat) -> float:
        """How much of the time before the last answer the shard has lost."""
        # It began with the first epoch. Of crawls older than that nothing is known.
        survived_ms = beat.survived_ms or self._epochs[shard]
        return (self._answered_ms[shard] - survived_ms) / 1000

    def _held_of(self, shard: int) -> list[Entry]:
        """URLs of a shard that this process has in its hands, or had under another name."""
        dropped = self._dropped if shard in self._new_to else []
        known = (*self._lease_pool.known_leases, *dropped)
        return [lease.entry for lease in known if lease.shard == shard]

    async def _reassert(self, shard: int) -> None:
        pool, frontier = self._lease_pool, self._frontier
        rests = [
            (lease, left) for lease, left in pool.recent_releases.left() if lease.shard == shard
        ]
        # A slot whose release was lost would stay taken for ever.
        await frontier.release(rests, usual=False)
        resting = {lease.entry.host: left_ms for lease, left_ms in rests}
        if shard in self._new_to:
            # Fetches under the name that this process had: nobody would free their slots.
            ttl_ms = round(self._pulse.lease_ttl_s * 1000)
            flights = (each for each in self._dropped_flights if each.shard == shard)
            resting |= {each.entry.host: ttl_ms for each in flights}
        flying = [lease for lease in pool.in_flight if lease.shard == shard]
        self._told |= {lease.key: lease for lease in flying}
        await frontier.reassert(flying, resting)
        await self._free_overtaken(shard)

    async def _free_overtaken(self, shard: int) -> None:
        """Fetches that ended meanwhile may have been released before their slots were taken again.

        Nobody else would ever free them.
        """
        flying = {lease.key for lease in self._lease_pool.in_flight}
        left_ms = {lease.key: left for lease, left in self._lease_pool.recent_releases.left()}
        told = {key: lease for key, lease in self._told.items() if lease.shard == shard}
        # Those that do not rest were handed back unfetched.
        ended = [(lease, left_ms.get(key, 0)) for key, lease in told.items() if key not in flying]
        await self._frontier.release(ended, usual=False)
        for key in told:
            del self._told[key]

    async def _reclaim(self, shards: Sequence[int]) -> None:
        taken = 0
        for _ in range(_RECLAIMS):
            part = await self._frontier.reclaim(
                silence_ms=round(self._pulse.lease_ttl_s * 1000),
                delay_ms=round(self._pulse.reclaim_rest_s * 1000),
                shards=shards,
            )
            if not part:
                break
            taken += part
        if taken:
            logger.info("Took back %d leases of processes that died", taken)
            self._lease_pool.news()

    async def _start_over(self) -> None:
        logger.warning(
            "This process was silent for too long, or Redis forgot it; what it held goes to "
            "others, and it goes on under a new name"
        )
        async with self._lease_pool.lock:
            self._dropped = list(self._lease_pool.known_leases)
            self._dropped_flights = list(self._lease_pool.in_flight)
            # Nothing is claimed from a shard from now on until it knows the new name.
            self._lease_pool.drop_all()
            self._told.clear()
            self._new_to = set(range(self._frontier.shards))
            self._frontier.owner = uuid.uuid4().hex[:16]
        await self._beat()

    def _alive_until(self) -> float:
        """Time to which a beat that is sent now keeps this process from being declared dead."""
        return monotonic() + self._pulse.lease_ttl_s

    async def _order_shards(self) -> None:
        """In which order the shards are asked, by the strategy."""
        shards = self._frontier.shards
        if shards == 1:
            return
        if self._pulse.strategy == "sticky":
            live = await self._frontier.live()
            order = preferred(shards, self._frontier.owner, live)
        elif self._pulse.strategy == "balanced":
            # The fullest first, so that all of them end at the same time.
            sizes = await gather(self._frontier.sizes(shard) for shard in range(shards))
            order = sorted(range(shards), key=lambda shard: -sizes[shard].waiting)
        else:
            order = [(self._turn + shard) % shards for shard in range(shards)]
        self._lease_pool.shard_order = order
