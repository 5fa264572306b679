"""Thousands of random steps of a small fleet against a real Redis and a plain account of it.

Workers add, claim, fetch, visit hosts, settle and sweep; they crash between any two calls, stop and
go on as zombies, lose replies, and the server's clock and the server itself fall back. After every
few steps all keys are read: each URL is in one state, each counter and the heap say the same as the
lists.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

import pytest
import redis

from crawler.frontier import Entry, Frontier, Lease, OwnerDead, Tuning, Visit
from crawler.frontier.entry import MAX_ATTEMPTS, QUEUES
from crawler.frontier.frontier import tags
from crawler.frontier.records import PAGE_AGAIN
from crawler.frontier.sweep import Sweeper
from crawler.frontier.tuning import TypeBudget, TypeBudgets
from crawler.servers.redis.connection import connect
from crawler.urls import fingerprint
from tests.chaos import model
from tests.integration.frontier.fleet import beat

T0 = 4_000_000_000_000
CRAWL = "model"
SILENCE_MS = 30_000
GRACE_MS = 10_000
REST_MS = 500
HOSTS = [f"h{i}.test" for i in range(6)]


class _Died(Exception):
    pass


@dataclass(slots=True)
class Worker:
    """One process: its name in the frontier, and what it believes to hold."""

    frontier: Frontier
    epoch: int = 0
    beaten_ms: int = T0
    # Claimed and not yet fetched to the end.
    flights: dict[bytes, Lease] = field(default_factory=dict)
    # Fetched, and not yet settled.
    fetched: dict[bytes, Lease] = field(default_factory=dict)
    # By host.
    visits: dict[str, Visit] = field(default_factory=dict)
    # Ends of fetches that a server may have forgotten: lease or visit, end of its host's rest.
    rests: list[tuple[Lease | Visit, int]] = field(default_factory=list)
    # The id of a claim whose reply was lost, and hosts of visits whose replies were lost.
    open_request: str | None = None
    lost_visits: set[str] = field(default_factory=set)

    @property
    def held(self) -> list[Lease]:
        return [*self.flights.values(), *self.fetched.values()]

    def forget(self) -> None:
        """Forget all that it held: it was declared dead."""
        self.flights, self.fetched, self.visits, self.rests = {}, {}, {}, []
        self.open_request = None
        self.lost_visits.clear()


class Fleet:
    """The system under test, driven by a seed."""

    def __init__(self, client: redis.Redis, seed: int, parallelism: int) -> None:
        self.client = client
        self.parallelism = parallelism
        self.random = random.Random(seed)
        self.now_ms = T0
        # URLs that Redis acknowledged, and those that were settled for good.
        self.known: set[str] = set()
        self.done: set[str] = set()
        self.workers: list[Worker] = []
        # Processes that were stopped; some wake up after they were declared dead.
        self.stopped: list[Worker] = []
        # Next contact of each host, as the fleet was told: nobody may come earlier.
        self.clocks: dict[str, int] = {}
        self.kept: tuple[list[tuple[bytes, int, bytes]], set[str], set[str]] | None = None
        self.restarts = 0
        self.over_budget = 0
        self.visits = 0
        self.made = count()
        self.requests = count()
        self.async_client: object = None
        self.steps: dict[str, tuple[int, Callable[[], Awaitable[None]]]] = {
            "add": (10, self.add),
            "claim": (30, self.claim),
            "fetch": (30, self.fetch),
            "visit": (15, self.visit),
            "visited": (15, self.visited),
            "settle": (30, self.settle),
            "hand_back": (3, self.hand_back),
            "beat": (12, self.beat),
            "reclaim": (5, self.reclaim),
            "promote": (6, self.promote),
            "budget": (1, self.budget),
            "wish": (6, self.wish),
            "sweep": (6, self.sweep),
            "crash": (1, self.crash),
            "stop": (1, self.stop),
            "wake": (2, self.wake),
            "join": (2, self.join),
            "clock": (2, self.turn_clock_back),
            "time": (10, self.pass_time),
            "keep": (1, self.keep),
            "restart": (1, self.restart),
        }

    async def open(self, url: str) -> None:
        self.async_client = await connect(url)
        for _ in range(3):
            await self.join()

    async def step(self) -> None:
        names = list(self.steps)
        weights = [self.steps[name][0] for name in names]
        [name] = self.random.choices(names, weights)
        await self.steps[name][1]()

    def check(self) -> None:
        found = model.read(self.client, CRAWL)
        model.check_states(found, self.known, self.done)
        model.check_counters(found)
        model.check_heap(found, self.parallelism, restarted=self.restarts > 0)
        model.check_visits(found, restarted=self.restarts > 0)

    def worker(self) -> Worker:
        return self.random.choice(self.workers)

    async def twice(self, call: Callable[[], Awaitable[object]]) -> None:
        """Call; sometimes the answer is lost and the call repeated."""
        await call()
        if self.random.random() < 0.15:
            await call()

    # --- the life of a process -----------------------------------------------------------------

    async def join(self) -> None:
        if len(self.workers) >= 5:
            return
        budgets = TypeBudgets(
            TypeBudget(0.2, model.MAX_PER_HOST), TypeBudget(0.1, model.MAX_PER_HOST)
        )
        tuning = Tuning(parallelism=self.parallelism, grace_ms=GRACE_MS, type_budgets=budgets)
        worker = Worker(Frontier(self.async_client, CRAWL, tuning=tuning))
        worker.epoch = await worker.frontier.open()
        await self._beat(worker)
        self.workers.append(worker)

    async def crash(self) -> None:
        if len(self.workers) > 1:
            self.workers.remove(self.worker())

    async def stop(self) -> None:
        if len(self.workers) > 1:
            worker = self.worker()
            self.workers.remove(worker)
            self.stopped.append(worker)

    async def wake(self) -> None:
        """A process that slept for long goes on where it was: with tokens that may be stale."""
        if not self.stopped:
            return
        worker = self.stopped.pop(self.random.randrange(len(self.stopped)))
        before = model.read(self.client, CRAWL)
        leases = worker.held
        # Not if it only has no leases: a restart may have lost those of its fetches.
        owners = f"{tags(CRAWL, 1)[0]}:owners"
        if leases and not self.client.zscore(owners, worker.frontier.owner):
            await worker.frontier.release([(lease, 10) for lease in leases], now_ms=self.now_ms)
            ended = [(visit, 10) for visit in worker.visits.values()]
            await worker.frontier.visited(ended, now_ms=self.now_ms)
            await worker.frontier.done([(lease, True) for lease in leases])
            await worker.frontier.hand_back([(lease, 0) for lease in leases], now_ms=self.now_ms)
            after = model.read(self.client, CRAWL)
            assert after.where == before.where, "a stale token moved a URL"
        try:
            await self._beat(worker)
        except OwnerDead:
            worker.forget()
            worker.epoch = await worker.frontier.register()
            await self._beat(worker)
        self.workers.append(worker)

    async def beat(self) -> None:
        worker = self.worker()
        try:
            await self._beat(worker)
        except OwnerDead:
            # It was silent for too long, in virtual time.
            self.workers.remove(worker)
            self.stopped.append(worker)
            await self.wake()

    async def _beat(self, worker: Worker) -> None:
        known = [*worker.held, *worker.visits.values()]
        epoch, strays = await beat(worker.frontier, known, now_ms=self.now_ms)
        worker.beaten_ms = self.now_ms
        worker.lost_visits.clear()
        if strays:
            worker.open_request = None
            await self.twice(
                lambda: worker.frontier.hand_back(
                    [(lease, 0) for lease in strays], now_ms=self.now_ms
                )
            )
        if epoch != worker.epoch:
            worker.epoch = epoch
            rests = [(fetch, max(0, until - self.now_ms)) for fetch, until in worker.rests]
            await worker.frontier.release(rests, now_ms=self.now_ms)
            await worker.frontier.reassert(
                [*worker.flights.values(), *worker.visits.values()],
                {fetch.host: left_ms for fetch, left_ms in rests},
                now_ms=self.now_ms,
            )

    async def _all_beat(self) -> None:
        for worker in list(self.workers):
            await self._beat(worker)

    # --- URLs ----------------------------------------------------------------------------------

    async def add(self) -> None:
        batch = []
        for _ in range(self.random.randint(1, 12)):
            host = HOSTS[min(int(self.random.expovariate(0.7)), len(HOSTS) - 1)]
            number = next(self.made)
            if number and self.random.random() < 0.3:
                number = self.random.randrange(number)
            url = f"http://{host}/{number}"
            batch.append(Entry(fingerprint(url), url, queue=self.random.randint(1, QUEUES)))
        frontier = self.worker().frontier
        await self.twice(lambda: frontier.add(batch))
        # Again, so that its answers are those of URLs that are known by now, or over a budget.
        added = await frontier.add(batch)
        assert not added.new
        self.over_budget += added.over_budget
        self.known |= {entry.url for i, entry in enumerate(batch) if added.is_taken(i)}

    async def claim(self) -> None:
        worker = self.worker()
        repeated = worker.open_request is not None
        request = worker.open_request or f"r{next(self.requests)}"
        try:
            claim = await worker.frontier.claim(
                self.random.randint(1, 4), request, now_ms=self.now_ms
            )
        except OwnerDead:
            return
        if self.random.random() < 0.1:
            # The reply is lost: the same id is sent again, or the next beat finds the leases.
            worker.open_request = request
            return
        worker.open_request = None
        for lease in claim.leases:
            if not repeated:
                self._may_start(lease.host)
            worker.flights[lease.token] = lease

    def _may_start(self, host: str) -> None:
        assert self.clocks.get(host, 0) <= self.now_ms, f"{host} was contacted too soon"
        in_flight = [
            other
            for worker in self.workers
            if self._alive(worker)
            for other in (*worker.flights.values(), *worker.visits.values())
            if other.host == host
        ]
        assert len(in_flight) < self.parallelism, f"{host} is fetched by {len(in_flight) + 1}"

    def _alive(self, worker: Worker) -> bool:
        return self.now_ms - worker.beaten_ms < SILENCE_MS

    async def fetch(self) -> None:
        worker = self.worker()
        if not worker.flights:
            return
        token = self.random.choice(sorted(worker.flights))
        lease = worker.flights.pop(token)
        rest_ms = self.random.choice((0, 100, REST_MS, 5000))
        worker.fetched[token] = lease
        worker.rests.append((lease, self.now_ms + rest_ms))
        alive = self._alive(worker)
        await self.twice(lambda: worker.frontier.release([(lease, rest_ms)], now_ms=self.now_ms))
        if alive:
            self._set_clock(lease.host, rest_ms)

    def _set_clock(self, host: str, rest_ms: int) -> None:
        self.clocks[host] = max(self.clocks.get(host, 0), self.now_ms + rest_ms)

    async def visit(self) -> None:
        """A host is visited, one with URLs or another."""
        worker, host = self.worker(), self.random.choice((*HOSTS, "parts.test"))
        if host in worker.visits:
            return
        repeated = host in worker.lost_visits
        try:
            found = await worker.frontier.visit(host, now_ms=self.now_ms)
        except OwnerDead:
            return
        if not isinstance(found, Visit):
            return
        if self.random.random() < 0.1:
            # The reply is lost: the next beat ends the visit, unless it is asked for again.
            worker.lost_visits.add(host)
            return
        worker.lost_visits.discard(host)
        if not repeated:
            self._may_start(host)
            self.visits += 1
        worker.visits[host] = found

    async def visited(self) -> None:
        worker = self.worker()
        if not worker.visits:
            return
        visit = worker.visits.pop(self.random.choice(sorted(worker.visits)))
        rest_ms = self.random.choice((0, 100, REST_MS, 5000))
        worker.rests.append((visit, self.now_ms + rest_ms))
        alive = self._alive(worker)
        await self.twice(lambda: worker.frontier.visited([(visit, rest_ms)], now_ms=self.now_ms))
        if alive:
            self._set_clock(visit.host, rest_ms)

    async def settle(self) -> None:
        worker = self.worker()
        if not worker.fetched:
            return
        lease = worker.fetched.pop(self.random.choice(sorted(worker.fetched)))
        frontier, outcome = worker.frontier, self.random.random()
        leases = f"{tags(CRAWL, 1)[0]}:leases:{frontier.owner}"
        record = self.client.hget(leases, lease.token) or b""
        if outcome < 0.6 or lease.entry.attempts >= MAX_ATTEMPTS - 1:
            await self.twice(lambda: frontier.done([(lease, True)]))
            if record.startswith(lease.token + b" "):
                self.done.add(lease.entry.url)
        elif outcome < 0.7:
            again = [(lease, self.random.choice((5000, 4_000_000)), lease.entry)]
            await self.twice(lambda: frontier.retry(again, kind=PAGE_AGAIN, now_ms=self.now_ms))
        elif outcome < 0.9:
            wait_ms = self.random.choice((0, 900, 5000, 4_000_000))
            entry = lease.entry.retried()
            await self.twice(lambda: frontier.retry([(lease, wait_ms, entry)], now_ms=self.now_ms))
        else:
            await self.twice(lambda: frontier.bury([(lease, "gone")], now_ms=self.now_ms))

    async def hand_back(self) -> None:
        """A lease goes back before its fetch, or after it, as when a process closes."""
        worker = self.worker()
        pile = worker.flights or worker.fetched
        if not pile:
            return
        lease = pile.pop(self.random.choice(sorted(pile)))
        rest_ms = self.random.choice((0, REST_MS))
        worker.rests.append((lease, self.now_ms + rest_ms))
        await self.twice(lambda: worker.frontier.hand_back([(lease, rest_ms)], now_ms=self.now_ms))

    async def reclaim(self) -> None:
        await self.worker().frontier.reclaim(
            silence_ms=SILENCE_MS,
            delay_ms=REST_MS,
            limit=self.random.choice((1, 3, 100)),
            now_ms=self.now_ms,
        )

    async def wish(self) -> None:
        """URLs are wanted sooner, in whatever state they are; some are unknown."""
        number = next(self.made)
        urls = [f"http://{host}/{self.random.randrange(number + 1)}" for host in HOSTS]
        wanted = [(fingerprint(url), Entry(0, url).host) for url in urls]
        frontier = self.worker().frontier
        lifts = [(id_, host, self.random.randint(1, 4)) for id_, host in wanted]
        await self.twice(lambda: frontier.lift(lifts))
        forwards = [(id_, host, self.random.choice((0, 1))) for id_, host in wanted]
        await self.twice(lambda: frontier.bring_forward(forwards))

    async def sweep(self) -> None:
        """All calls of a sweep, or the first ones, with other steps in between."""
        sweeper = Sweeper(self.async_client, self.worker().frontier, pause_s=0)
        pause = sweeper._pause

        async def others() -> None:
            if self.random.random() < 0.1:
                raise _Died
            if self.random.random() < 0.3:
                await self.random.choice((self.add, self.claim, self.fetch, self.promote))()
            await pause()

        sweeper._pause = others  # type: ignore[method-assign]
        self.client.delete(f"{tags(CRAWL, 1)[0]}:sweeper")
        with suppress(_Died):
            await sweeper.sweep_all()

    async def promote(self) -> None:
        limit = self.random.choice((1, 5, 1000))
        await self.worker().frontier.promote(limit, now_ms=self.now_ms)

    async def budget(self) -> None:
        """Recrawls take turns from now on, or do not any more, as one process sees it."""
        self.worker().frontier.set_recrawl_budget(self.random.choice((0, 0.1, 5)))

    # --- time and the server -------------------------------------------------------------------

    async def pass_time(self) -> None:
        self.now_ms += self.random.choice((1, 50, 300, 1000, 4000))
        # Processes that run beat often enough not to be declared dead, but for one now and then.
        for worker in list(self.workers):
            late = self.now_ms - worker.beaten_ms > SILENCE_MS // 2
            if late and self.random.random() < 0.95:
                try:
                    await self._beat(worker)
                except OwnerDead:
                    self.workers.remove(worker)
                    self.stopped.append(worker)
        if not self.workers:
            await self.join()

    async def turn_clock_back(self) -> None:
        """The server's clock jumps back for one call; its time does not."""
        now, self.now_ms = self.now_ms, self.now_ms - self.random.choice((1, 1000, 3_600_000))
        try:
            await self.promote()
        finally:
            self.now_ms = now

    async def keep(self) -> None:
        """What the append-only file has now."""
        self.kept = (model.snapshot(self.client), set(self.known), set(self.done))

    async def restart(self) -> None:
        """The server falls back to what it kept, and the live workers tell it what they know."""
        if self.kept is None:
            return
        kept, known, done = self.kept
        self.kept = None
        self.restarts += 1
        model.fall_back(self.client, kept)
        # Unacknowledged for good: a crash of the only server may lose what was not synced.
        self.known, self.done = known, done
        # Workers that joined after the snapshot are not known any more: they take a new name.
        for worker in list(self.workers):
            try:
                await self._beat(worker)
            except OwnerDead:
                worker.forget()
                worker.epoch = await worker.frontier.register()
        self._forget_what_died()
        if self.random.random() < 0.5:
            found = await self.worker().frontier.claim(1, "early", now_ms=self.now_ms)
            assert found.state in ("grace", "ok")
        self.now_ms += GRACE_MS
        await self._all_beat()

    def _forget_what_died(self) -> None:
        """Clocks that only the lost writes and a dead process knew are lost."""
        state = model.read(self.client, CRAWL)
        self.clocks = {
            host: min(until, int(state.hosts.get(host, {}).get("clock", 0)))
            for host, until in self.clocks.items()
        }

    async def drain(self) -> None:
        """Work on without faults until nothing is left."""
        self.stopped.clear()
        for _ in range(500):
            for worker in list(self.workers):
                worker.frontier.set_recrawl_budget(0)
                try:
                    await self._beat(worker)
                except OwnerDead:
                    self.workers.remove(worker)
            await self.join()
            for _ in range(3):
                await self.reclaim()
            await self.promote()
            for worker in self.workers:
                claim = await worker.frontier.claim(
                    50, f"r{next(self.requests)}", now_ms=self.now_ms
                )
                worker.open_request = None
                worker.flights |= {lease.token: lease for lease in claim.leases}
                leases = worker.held
                flights = list(worker.flights.values())
                await worker.frontier.release([(x, 0) for x in flights], now_ms=self.now_ms)
                visits = [(visit, 0) for visit in worker.visits.values()]
                await worker.frontier.visited(visits, now_ms=self.now_ms)
                worker.visits.clear()
                await worker.frontier.done([(lease, True) for lease in leases])
                self.done |= {lease.entry.url for lease in leases}
                worker.flights, worker.fetched = {}, {}
            sizes = await self.workers[0].frontier.sizes()
            if sizes.unfinished == 0:
                return
            # What is left waits for its time only, or for the dead to be found.
            self.now_ms += 10_000 if sizes.waiting or sizes.leased else 1_000_000
        raise AssertionError(f"it does not end: {sizes}")


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as found:
        yield found


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("seed", range(3))
async def test_no_interleaving_loses_a_url_or_hurries_a_host(
    client: redis.Redis, redis_url: str, seed: int, parallelism: int
) -> None:
    fleet = Fleet(client, seed, parallelism)
    await fleet.open(redis_url)
    try:
        for number in range(500):
            await fleet.step()
            if number % 8 == 0:
                fleet.check()
        fleet.check()
        await fleet.drain()
        fleet.check()
        found = model.read(client, CRAWL)
        left = {state for states in found.where.values() for state in states}
        assert left <= {"dead", "delayed"}
        assert found.retries == 0
        assert fleet.over_budget > 0
        assert fleet.visits > 0
        assert fleet.known <= fleet.done | set(found.where)
        assert not any(state.get("tokens") for state in found.hosts.values())
    finally:
        await fleet.async_client.aclose()
