"""The world of one schedule: the account of what is true, what is wrong, and what happened when."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redis.exceptions import NoScriptError

from crawler.errors import SinkAway
from crawler.frontier import Frontier, Lease, frontier
from crawler.frontier.entry import decode
from crawler.frontier.frontier import tags
from crawler.frontier.tuning import Tuning
from crawler.items import Page
from simulation import scenario as kinds
from simulation.clock import MONOTONIC_S
from simulation.loop import Lane, Stuck, VirtualLoop
from simulation.process import CRAWL, DELAY_MIN_S, Process
from simulation.scenario import Fault, Scenario
from simulation.server import Command, Cut, Link, RealRedis, SimulatedRedis, SimulatedServer
from simulation.web import OK, REDIRECT, Web
from tests.chaos import model

if TYPE_CHECKING:
    from simulation.clock import CrawlerClock

# Simulated seconds after the last fault by which every schedule has ended.
_ENDS_S = 80.0
# Processes begin within this time.
_BEGIN_S = 0.3
_SINKS = ("bodies", "records")
_SETTLING = ("done", "retry", "bury")


@cache
def scripts() -> dict[str, str]:
    """Return the texts of all scripts, by verb."""
    parts = {frontier.PRELUDE, *(part for found in frontier.PARTS.values() for part in found)}
    names = (Path(file.name) for file in files("crawler.frontier").joinpath("lua").iterdir())
    found = sorted(name.stem for name in names if name.suffix == ".lua")
    return {
        verb: frontier.script(verb)[0]
        for verb in found
        if verb not in parts and not verb.startswith("seen_")
    }


@cache
def verbs() -> dict[str, str]:
    """Return the verbs by the hashes of their scripts."""
    return {frontier.script(verb)[1]: verb for verb in scripts()}


class Wrong(Exception):
    """Something happened that must never happen."""


@dataclass(slots=True)
class Fetch:
    """One fetch of a URL, as its server saw it."""

    url: str
    host: str
    process: Process
    owner: str
    shard: int
    from_s: float
    until_s: float
    claimed_s: float
    end: str


@dataclass(slots=True)
class Notes:
    """What the server has executed; it goes back with the server."""

    known: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    # Host → when it may be contacted again, as releases said.
    next_contact_s: dict[str, float] = field(default_factory=dict)

    def copy(self) -> Notes:
        """Return one that does not change with this one."""
        return Notes(set(self.known), set(self.done), dict(self.next_contact_s))


class World:
    """Everything around the processes of one schedule."""

    def __init__(self, scenario: Scenario, real: RealRedis, clock: CrawlerClock) -> None:
        self.scenario = scenario
        self.web = Web(scenario)
        self.loop = VirtualLoop(f"loop-{scenario.seed}", starts_s=MONOTONIC_S)
        self.loop.on_death = self._died
        clock.begin(self.loop.time, f"crawler-{scenario.seed}")
        self.notes = Notes()
        self.server = SimulatedServer(
            *(real, self.loop, clock.wall_s),
            scripts=tuple(scripts().values()),
            before=self._before,
            after=self._after,
            take_notes=lambda: self.notes.copy(),  # noqa: PLW0108 - of those that are there then
            go_back=self._go_back,
        )
        self.processes: list[Process] = []
        # When, who, what; the last may be a verb with its arguments and reply.
        self.history: list[tuple[float, str, Any]] = []
        self._wrong: str | None = None
        self._chance = random.Random(f"world-{scenario.seed}")
        self._fetches: list[Fetch] = []
        self._durable: tuple[set[str], set[str]] = (set(), set())
        self._away_until_s = [0.0, 0.0]
        self._slow_until_s = [0.0, 0.0]
        self._torn_until_s = [0.0, 0.0]
        self._restarts_s: list[float] = []
        # Faults that wait for their moments, and how often each moment came.
        self._awaited: list[Fault] = []
        self._moments: Counter[str] = Counter()
        # Shard's tag and token → URL, and when Redis gave the lease: its reply may be read later.
        self._urls: dict[tuple[str, bytes], str] = {}
        self._claimed_s: dict[tuple[str, bytes], float] = {}
        self._tags = tags(CRAWL, scenario.shards)

    # --- the course of a schedule ----------------------------------------------------------------

    def run(self) -> str | None:
        """Run the schedule; return what went wrong, or None."""
        handler = _Lines(self)
        log = logging.getLogger("crawler")
        log.addHandler(handler)
        try:
            self._run()
        except Wrong as error:
            self._wrong = self._wrong or str(error)
        except Stuck as error:
            self._wrong = self._wrong or f"the crawl does not end: {error}"
        except AssertionError as error:
            self._wrong = self._wrong or f"the frontier is damaged: {error}"
        finally:
            log.removeHandler(handler)
            self.loop.close()
        return self._wrong

    def _run(self) -> None:
        for _ in range(self.scenario.processes):
            begin_s = self._chance.random() * _BEGIN_S
            self.loop.at(MONOTONIC_S + begin_s, self._begin)
        for fault in self.scenario.faults:
            self._plan(fault)
        last_s = max((_end_of(fault) for fault in self.scenario.faults), default=0.0)
        until_s = MONOTONIC_S + last_s + _ENDS_S
        self._run_until_ended(until_s)
        if not any(process.reason == "finished" for process in self.processes):
            # All died, or were stopped: another one goes on.
            self._begin()
            self._run_until_ended(until_s)
        self._check_end()

    def _run_until_ended(self, until_s: float) -> None:
        self.loop.run(until_s)
        if self._wrong:
            raise Wrong(self._wrong)

    def _check_over(self) -> None:
        """End the run when all processes have ended."""
        if len(self.processes) >= self.scenario.processes and all(
            process.is_over for process in self.processes
        ):
            self.loop.finish()

    def _begin(self) -> None:
        name = f"p{len(self.processes)}"
        process = Process(self, name, self.loop.lane(name))
        self.processes.append(process)
        self.log(name, "begins")
        task = self.loop.start(process.lane, process.run())
        task.add_done_callback(
            lambda done: self._ended(process, done), context=self.loop.world.context
        )

    def _ended(self, process: Process, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.wrong(f"{process.name} failed: {type(error).__name__}: {error}")
        self._check_over()

    def log(self, who: str, what: Any) -> None:
        """Add a line to the history."""
        self.history.append((self.seconds, who, what))

    def wrong(self, what: str) -> None:
        """Note the first thing that must not happen."""
        if self._wrong is None:
            self._wrong = what
            self.log("WRONG", what)
            self.loop.finish()

    @property
    def seconds(self) -> float:
        """Simulated time that has passed."""
        return self.loop.time() - MONOTONIC_S

    # --- faults ----------------------------------------------------------------------------------

    def _plan(self, fault: Fault) -> None:
        if fault.moment:
            self._awaited.append(fault)
        else:
            self.loop.at(MONOTONIC_S + fault.at_s, lambda: self._begin_fault(fault, None))

    def _moment(self, name: str, who: Process | str) -> None:
        """Begin the faults that wait for this moment."""
        if not self._awaited:
            return
        self._moments[name] += 1
        for fault in [each for each in self._awaited if each.moment == name]:
            if self._moments[name] == fault.nth:
                self._awaited.remove(fault)
                process = who if isinstance(who, Process) else self._named(who)
                begin = partial(self._begin_fault, fault, process)
                self.loop.at(self.loop.time() + fault.at_s, begin)

    def _named(self, name: str) -> Process | None:
        return next((each for each in self.processes if each.name == name), None)

    def _keep(self) -> None:
        # A server that loses the beginning of a crawl does not know that anybody works on it.
        if self.server.is_up and self.notes.known:
            self.server.keep()

    def _begin_fault(self, fault: Fault, process: Process | None) -> None:
        now_s = self.loop.time()
        end_s = now_s + fault.for_s
        if fault.kind in (kinds.KILL, kinds.PAUSE, kinds.STOP, kinds.CUT):
            if process is None and fault.target < len(self.processes):
                process = self.processes[fault.target]
            # Whoever goes on when all others are dead is spared.
            if process in self.processes[: self.scenario.processes] and not process.is_over:
                self._hit(process, fault)
            return
        self.log("world", str(fault))
        match fault.kind:
            case kinds.HANG:
                self.server.hang(fault.for_s)
            case kinds.RESTART:
                self._keep()
                self.loop.at(now_s + fault.lost_s, partial(self._crash, fault))
            case kinds.SINK_AWAY:
                self._away_until_s[fault.target % 2] = end_s
            case kinds.SINK_SLOW:
                self._slow_until_s[fault.target % 2] = end_s
            case kinds.SINK_TORN:
                self._torn_until_s[fault.target % 2] = end_s

    def _hit(self, process: Process, fault: Fault) -> None:
        now_s = self.loop.time()
        self.log(process.name, str(fault))
        match fault.kind:
            case kinds.KILL:
                if fault.depth:
                    process.lane.fuse = fault.depth
                else:
                    self.loop.kill(process.lane)
            case kinds.PAUSE:
                process.lane.stopped = True
                self.loop.at(now_s + fault.for_s, lambda: self._resume(process))
            case kinds.STOP:
                self.loop.start(process.lane, _call(process.stop))
            case kinds.CUT:
                process.link.cuts.append(Cut(now_s, now_s + fault.for_s))

    def _died(self, lane: Lane) -> None:
        self.log(lane.name, "is dead")
        now_s = self.loop.time()
        for fetch in self._fetches:
            # Its connections are closed with it.
            if fetch.process.lane is lane:
                fetch.until_s = min(fetch.until_s, now_s)
        self._check_over()

    def _resume(self, process: Process) -> None:
        if process.lane.stopped:
            process.lane.stopped = False
            if not process.lane.dead:
                self.log(process.name, "goes on")

    def _crash(self, fault: Fault) -> None:
        if self.server.is_up:
            self.log("world", "redis is away")
            self.server.stop()
            self.loop.at(self.loop.time() + fault.for_s, self._restart)

    def _restart(self) -> None:
        self.server.restart()
        self._restarts_s.append(self.loop.time())
        self.log("world", "redis is back")
        self._check_states()

    # --- the servers of pages --------------------------------------------------------------------

    async def gate(self, process: Process) -> int:
        """Pass a gate, such as the look-up of a name or of robots.txt; return ms to put off."""
        chance, wait_s = self._chance.random(), self._chance.random()
        self._moment(kinds.GATE, process)
        if chance < 0.4:
            # In steps, as for an address, a connection and robots.txt: one that was stopped
            # meanwhile does not come to the end at once.
            for _ in range(1 if chance < 0.2 else 4):
                await asyncio.sleep(0.4 * wait_s)
        return 200 if chance > 0.93 else 0

    async def fetch(self, process: Process, lease: Lease) -> str:
        """Fetch a URL; return how that ends."""
        now_s, url, host = self.loop.time(), lease.entry.url, lease.host
        before = [fetch for fetch in self._fetches if fetch.url == url]
        end = self.web.sites[url].end(len(before))
        took_s = 0.01 + self._chance.random() ** 3
        owner = process.scheduler.frontier.owner
        self.log(process.name, f"fetches {url} ({end}, {took_s:.2f} s)")
        self._check_lease(lease, owner)
        self._check_host(url, host)
        if before:
            self._check_cause(before[-1])
        fetch = Fetch(
            *(
                url,
                host,
                process,
                owner,
                lease.shard,
                now_s,
                now_s + took_s,
                self._claim_of(lease),
                end,
            )
        )
        self._fetches.append(fetch)
        self._moment(kinds.FETCH, process)
        await asyncio.sleep(took_s)
        return end

    def _check_lease(self, lease: Lease, owner: str) -> None:
        """The URL belongs to the process that fetches it."""
        if not self.server.is_up or self._has_restarted(self._claim_of(lease)):
            return
        key = f"{self._tags[lease.shard]}:leases:{owner}"
        if not self.server.real.call("HEXISTS", key, lease.token):
            self.wrong(f"{lease.entry.url} is fetched without a lease")

    def _claim_of(self, lease: Lease) -> float:
        return self._claimed_s[self._tags[lease.shard], lease.token]

    def _has_restarted(self, since_s: float) -> bool:
        # It may have lost the second before.
        return any(at_s >= since_s - 1 for at_s in self._restarts_s)

    def _check_host(self, url: str, host: str) -> None:
        """One fetch per host at a time, and its delay between two."""
        now_s = self.loop.time()
        for fetch in self._fetches:
            if fetch.host == host and now_s < fetch.until_s:
                self.wrong(f"{url} is fetched while {fetch.process.name} fetches {fetch.url}")
            elif fetch.host == host and now_s < fetch.until_s + DELAY_MIN_S - 0.001:
                self.wrong(
                    f"{url} is fetched {now_s - fetch.until_s:.3f} s after {fetch.url}: too soon"
                )
        early_s = self.notes.next_contact_s.get(host, 0.0) - now_s
        # Redis counts whole milliseconds.
        if early_s > 0.002:
            self.wrong(f"{url} is fetched {early_s:.3f} s before its host's delay is over")

    def _check_cause(self, last: Fetch) -> None:
        """No URL is fetched again without a cause."""
        if last.end != OK or last.process.is_over:
            return
        if last.process.scheduler.frontier.owner != last.owner:
            return
        if self._has_restarted(last.claimed_s):
            return
        if last.process.engine._slot.closing is not None:
            # It may have handed the page back, as its sink was away.
            return
        if not self.server.real.call("ZSCORE", f"{self._tags[last.shard]}:owners", last.owner):
            # It was declared dead, and does not know yet.
            return
        self.wrong(f"{last.url} is fetched again, though {last.process.name} had its page")

    # --- sinks -----------------------------------------------------------------------------------

    async def write(self, process: Process, number: int, batch: Sequence[Page]) -> Any:
        """Write pages to the server of a sink, which does not know whether its client lives."""
        done: asyncio.Future[None] = self.loop.create_future()
        now_s = self.loop.time()
        wait_s = 0.002 + 0.02 * self._chance.random()
        if now_s < self._slow_until_s[number]:
            wait_s += 1.5 * self._chance.random()
        is_away = now_s < self._away_until_s[number]
        is_torn = now_s < self._torn_until_s[number]
        kept = batch[: self._chance.randrange(len(batch) + 1)] if is_torn else batch
        urls = [page.url for page in kept]

        def arrive() -> None:
            if not is_away:
                self._durable[number].update(urls)
                self.log(_SINKS[number], f"has {' '.join(urls)}")
                if number == 1:
                    self._moment(kinds.STORED, process)
            if is_away or is_torn:
                if not done.done():
                    done.set_exception(SinkAway("the simulated sink is away"))
            elif not done.done():
                done.set_result(None)

        self.loop.at(now_s + wait_s, arrive)
        await done
        return {i: {"number": i} for i in range(len(batch))} if number == 0 else None

    # --- what Redis executes ---------------------------------------------------------------------

    def _before(self, commands: Sequence[Command]) -> list[Any]:
        """Return the tokens that each settlement will find."""
        found: list[Any] = []
        for command in commands:
            verb = verb_of(command)
            if verb == "release":
                found.append(self._in_flight(command))
                continue
            if verb not in _SETTLING:
                found.append(None)
                continue
            tag, owner = command[3], command[4]
            first, step = {"done": (6, 2), "retry": (8, 3), "bury": (7, 2)}[verb]
            tokens = command[first::step]
            key = f"{tag}:leases:{owner}"
            held = self.server.real.call("HMGET", key, *tokens) if tokens else []
            found.append([token for token, each in zip(tokens, held, strict=True) if each])
        return found

    def _in_flight(self, command: Command) -> list[tuple[str, int]]:
        """Return the hosts that a release will free, and their delays."""
        hosts, tokens, delays = command[6::3], command[7::3], command[8::3]
        keys = [f"{command[3]}:host:{host}" for host in hosts]
        held = self.server.real.run([("HGET", key, "tokens") for key in keys])
        return [
            (host, int(delay))
            for host, token, delay, flying in zip(hosts, tokens, delays, held, strict=True)
            if token in (flying or b"").split()
        ]

    def _after(
        self, who: str, commands: Sequence[Command], before: list[Any], replies: Sequence[Any]
    ) -> None:
        for command, held, reply in zip(commands, before, replies, strict=True):
            verb = verb_of(command)
            if verb is None or isinstance(reply, NoScriptError):
                continue
            self.history.append((self.seconds, who, (verb, command, reply)))
            if isinstance(reply, Exception):
                self.wrong(f"{verb} of {who} is an error: {reply}")
                continue
            if verb != "claim" or reply[1]:
                self._moment(verb, who)
            if verb == "add":
                self._added(command, reply)
            elif verb == "claim":
                self._leased(command[3], reply[1])
            elif verb == "beat":
                self._leased(command[3], reply[2])
            elif verb == "release":
                self._released(held)
            elif held:
                self._settled(verb, command, held)

    def _added(self, command: Command, reply: bytes) -> None:
        for data, answer in zip(_entries(command), reply.decode(), strict=True):
            if answer in "10":
                self.notes.known.add(decode(data).url)

    def _leased(self, tag: str, leases: Sequence[bytes]) -> None:
        for lease in leases:
            token, _, data = lease.split(b" ", 2)
            self._urls[tag, token] = decode(data).url
            self._claimed_s.setdefault((tag, token), self.loop.time())

    def _released(self, released: Sequence[tuple[str, int]]) -> None:
        contacts = self.notes.next_contact_s
        for host, delay_ms in released:
            next_s = self.loop.time() + delay_ms / 1000
            contacts[host] = max(next_s, contacts.get(host, 0.0))

    def _settled(self, verb: str, command: Command, tokens: list[bytes]) -> None:
        tag = command[3]
        is_recrawl = verb == "retry" and command[6] != "r"
        if verb == "retry" and not is_recrawl:
            return
        trusted = int(self.server.real.call("HGET", f"{tag}:stats", "trusted_from") or 0)
        for token in tokens:
            url = self._urls[tag, token]
            if verb == "done" and int(token) <= trusted:
                continue
            if verb == "done":
                self.notes.done.add(url)
                missing = [each for each in self.web.children(url) if each not in self.notes.known]
                if missing:
                    self.wrong(f"{url} is done before Redis has its link {missing[0]}")
            if self.web.sites[url].ends[-1] == REDIRECT:
                continue
            for name, durable in zip(_SINKS, self._durable, strict=True):
                if url not in durable:
                    self.wrong(f"{url} is settled by {verb} before the sink {name} has it")

    def _go_back(self, notes: Notes) -> None:
        self.notes = notes

    # --- checks of the frontier ------------------------------------------------------------------

    def _contents(self) -> list[model.Contents]:
        return [model.read_shard(self.server.real.client, tag) for tag in self._tags]

    def _check_states(self) -> list[model.Contents]:
        """Every known URL is in exactly one state, and counters are right."""
        contents = self._contents()
        where: dict[str, list[str]] = {}
        for found in contents:
            model.check_counters(found)
            model.check_heap(found, 1, restarted=bool(self._restarts_s))
            for url, states in found.where.items():
                where.setdefault(url, []).extend(states)
        model.check_states(model.Contents(where=where), self.notes.known, self.notes.done)
        return contents

    def _check_end(self) -> None:
        contents = self._check_states()
        self._check_truth(contents)
        if any(found.leases or _tokens(found) for found in contents):
            self._take_back()
            contents = self._check_states()
        for found in contents:
            if any(found.leases.values()):
                raise Wrong(f"leases are left: {found.leases}")
            if _tokens(found):
                raise Wrong(f"slots of hosts are left: {_tokens(found)}")
            if any(found.visits.values()):
                raise Wrong(f"visits are left: {found.visits}")

    def _check_truth(self, contents: Sequence[model.Contents]) -> None:
        wanted = self.web.reachable()
        if lost := wanted - self.notes.known:
            raise Wrong(f"lost: {' '.join(sorted(lost))}")
        left = {
            url: states
            for found in contents
            for url, states in found.where.items()
            if states != ["dead"]
        }
        if left:
            raise Wrong(f"the crawl is over, and these wait: {left}")
        for url in sorted(wanted):
            if self.web.gives_page(url):
                if url not in self.notes.done:
                    raise Wrong(f"{url} was given up on")
                for name, durable in zip(_SINKS, self._durable, strict=True):
                    if url not in durable:
                        raise Wrong(f"the sink {name} lacks {url}")

    def _take_back(self) -> None:
        """Let a process look after those that died, as the next one of the crawl would."""
        lane = self.loop.lane("last")
        task = self.loop.start(lane, self._reclaim())
        task.add_done_callback(lambda _: self.loop.finish())
        self.loop.run(self.loop.time() + _ENDS_S)
        task.result()

    async def _reclaim(self) -> None:
        link = Link(self.server, "last", "last", 0.0, timeout_s=1.0)
        own = Frontier(
            SimulatedRedis(link),
            CRAWL,
            shards=self.scenario.shards,
            tuning=Tuning(grace_ms=round(self.scenario.lease_ttl_s * 1000)),
        )
        await own.open()
        for _ in range(4):
            await asyncio.sleep(self.scenario.lease_ttl_s)
            await own.beat(range(self.scenario.shards))
            silence_ms = round(self.scenario.lease_ttl_s * 1000) + 1
            await own.reclaim(silence_ms=silence_ms, delay_ms=0)
        await own.leave()


async def _call(function: Any) -> None:
    function()


def _end_of(fault: Fault) -> float:
    return fault.at_s + fault.for_s


def _tokens(found: model.Contents) -> dict[str, str]:
    return {host: state["tokens"] for host, state in found.hosts.items() if state.get("tokens")}


def verb_of(command: Command) -> str | None:
    """Return the verb of a script's call; None for another command."""
    if command[0] == "EVALSHA":
        return verbs().get(command[1])
    if command[0] == "EVAL":
        text = command[1].encode()
        return verbs().get(hashlib.sha1(text, usedforsecurity=False).hexdigest())
    return None


def _entries(command: Command) -> list[bytes]:
    data, lengths = command[4], command[5]
    found, at = [], 0
    for length in struct.unpack(f">{len(lengths) // 4}I", lengths):
        found.append(data[at : at + length])
        at += length
    return found


class _Lines(logging.Handler):
    """Log lines of the crawler, which belong to the history. An unexpected error is wrong."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.WARNING)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        self._world.log("log", f"{record.levelname} {text}")
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            self._world.wrong(f"{text}: {type(error).__name__}: {error}")
