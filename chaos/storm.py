"""A storm: servers, the synthetic web and crawlers, and the faults that are done to them."""

from __future__ import annotations

import json
import os
import queue
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any

from chaos.crawlers import Crawler, Crawlers
from chaos.faults import Fault
from chaos.proxy import Proxy
from chaos.schedule import Happened, Planned, to_line
from chaos.servers import S3, Kafka, Messages, Mongo, Postgres, Redis, Server
from demo.process import DemoServer
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls
from tests.support import s3_server

SINKS = ("mongo", "warc", "s3", "postgresql", "kafka")
# The crawl is given a delay so much longer than the one that it is judged by.
_MARGIN_S = 0.03
_SEED = "http://s0.test/"
# Between two looks whether a storm is over.
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class Plan:
    """What a storm is: its web, its crawlers and sinks. Faults come from a schedule."""

    seed: int
    web: WebOptions
    crawlers: int = 3
    sinks: tuple[str, ...] = SINKS
    spool: bool = False
    # Whether pages that need a browser are opened in one; the web has some in its zoo `browser`.
    renders: bool = False
    # Seconds in which the crawl must end after the last fault, and without a request of it.
    end_s: float = 600.0
    idle_s: float = 120.0
    latency_s: float = 0.1
    # Of hosts, between two fetches, as the crawl is judged by.
    delay_s: float = 0.3
    lease_ttl_s: float = 10.0
    settings: Mapping[str, Any] = field(default_factory=dict)


class Storm:
    """Context manager of a running storm; what faults get, see chaos/faults/__init__.py."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        # Logs, the access log, archives; whoever runs the storm may keep it.
        self.folder = folder
        self.seed = plan.seed
        # Short: the path of a socket may have about 100 characters.
        self._data = Path(tempfile.mkdtemp(prefix="storm-"))
        self.web = DemoServer(
            plan.web, folder / "access.log", arguments=(f"--latency={plan.latency_s}",)
        )
        self.redis: Any = Redis(self._data / "redis")
        # "mongo", "postgresql", "s3", "kafka": those that this storm has.
        self.servers: dict[str, Any] = {}
        # In front of servers, by their names ("redis", "mongo" …). Kafka has none: a broker tells
        # its clients its own address.
        self.proxies: dict[str, Proxy] = {}
        self.messages: Messages | None = None
        # Given to crawlers as -s and -a, and their environment beyond the usual: with any of it
        # they start in full, which takes each a second or two.
        self.settings: dict[str, Any] = {}
        self.arguments: dict[str, Any] = {"scope": "any"}
        if plan.renders:
            self.arguments["render"] = "auto"
        self.environment: dict[str, str] = {}
        # For kinds of faults, by names of their own.
        self.own: dict[str, Any] = {}
        # What is entered here is ended after the audit.
        self.stack = ExitStack()
        # Set when faults have to end.
        self.over = threading.Event()
        self.fleet = Crawlers(plan.crawlers, self._start_crawler)

    # --- for faults ------------------------------------------------------------------------------

    @property
    def lease_ttl_s(self) -> float:
        """Seconds without a sign of life after which the leases of a crawler go to others."""
        return self.plan.lease_ttl_s

    @property
    def crawlers(self) -> list[Crawler]:
        """Those that should run now; whoever ends has a successor at once."""
        return self.fleet.running

    def choose(self, chance: Random) -> Crawler:
        """Choose one of the crawlers."""
        return chance.choice(self.crawlers)

    def rest(self, seconds: float) -> None:
        """Wait; returns early when the storm has to end."""
        self.over.wait(seconds)

    # --- life ------------------------------------------------------------------------------------

    def __enter__(self) -> Storm:
        try:
            self._open()
        except BaseException:
            self._close()
            raise
        return self

    def _open(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        sinks = self.plan.sinks
        if "mongo" in sinks:
            self.servers["mongo"] = Mongo()
        if "postgresql" in sinks:
            self.servers["postgresql"] = Postgres()
        if "s3" in sinks:
            self.servers["s3"] = S3(self._data / "s3")
        if "kafka" in sinks:
            self.servers["kafka"] = Kafka()
        self.stack.enter_context(self.web)

    def prepare(self, kinds: Sequence[Fault]) -> None:
        """Let kinds of faults prepare themselves, start all servers, and then the crawlers."""
        for kind in kinds:
            kind.prepare(self)
        servers: dict[str, Server] = {"redis": self.redis, **self.servers}
        for name, server in servers.items():
            server.start()
            self.stack.callback(server.end)
            if name != "kafka":
                proxy = Proxy(("127.0.0.1", server.port))
                self.proxies[name] = self.stack.enter_context(proxy)
        if "kafka" in self.servers:
            self.messages = self.stack.enter_context(Messages(self.servers["kafka"].servers))
        self.fleet.open()

    def fetched(self) -> int:
        """Return how many requests the web has answered."""
        log = self.folder / "access.log"
        return log.read_bytes().count(b"\n") if log.exists() else 0

    def _start_crawler(self, name: str) -> Crawler:
        mongo = f"mongodb://{self.proxies['mongo'].address}/" if "mongo" in self.proxies else None
        redis_url = self.own.get("redis_url") or f"redis://{self.proxies['redis'].address}/0"
        crawls = Crawls(self.folder, redis_url, mongo)
        values = {
            "SINKS": " ".join(self._sinks()) or "none",
            "DELAY_MIN": self.plan.delay_s + _MARGIN_S,
            "LEASE_TTL": self.plan.lease_ttl_s,
            "MONGO_TIMEOUT": 8,
            "POSTGRES_TIMEOUT": 8,
            "KAFKA_TIMEOUT": 8,
            "KAFKA_DISCOVERED": "kafka" in self.plan.sinks,
            # Fewer pages that wait for a sink: they are fetched again when Redis restarts.
            "SCRAPER_SLOT_MAX_ACTIVE_SIZE": 10_000_000,
            "BREAKER_REST": 2,
            "ROBOTS_ERROR_TTL": 2,
            "RETRY_BASE": 0.5,
            "CRAWL_MAX_WAIT": 120,
            "WARC_MAX_BYTES": 50_000_000,
            "HTTPPROXY_ENABLED": False,
            # So the access log says who asked.
            "USER_AGENT": f"crawler/0.1 (+https://example.org/crawler; {name})",
            "SUMMARY_FILE": self.folder / f"{name}.json",
            **self.plan.settings,
            **self.settings,
        }
        if self.plan.renders:
            # Whatever is killed is tried again.
            values |= {"RENDER_TIMEOUT": 6, "RETRY_TIMES": 20}
        if self.plan.spool:
            values["SPOOL_DIR"] = self.folder / "spool"
        command = crawls.command(_SEED, web=self.web, arguments=self.arguments, settings=values)
        variables = {**self._keys_of_objects(), **self.environment}
        return Crawler(name, command, self.folder, variables, cold=bool(self.environment))

    def _sinks(self) -> list[str]:
        address = {name: proxy.address for name, proxy in self.proxies.items()}
        found = {
            "mongo": "mongo",
            "warc": f"warc:{self.folder / 'archive'}",
            "s3": f"s3://{s3_server.BUCKET}/storm",
            "postgresql": f"postgresql://crawler@{address.get('postgresql')}/postgres",
            "kafka": self.servers["kafka"].url if "kafka" in self.servers else "",
        }
        return [found[name] for name in self.plan.sinks]

    def _keys_of_objects(self) -> dict[str, str]:
        """Return the variables by which crawlers reach the S3 server."""
        if "s3" not in self.proxies:
            return {}
        return {
            "AWS_ENDPOINT_URL": f"http://{self.proxies['s3'].address}",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": s3_server.KEY,
            "AWS_SECRET_ACCESS_KEY": s3_server.SECRET,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }

    def end_crawl(self) -> list[str]:
        """Let the crawl end, while it goes on; return the names of crawlers that did not."""
        until_s = time.monotonic() + self.plan.end_s
        fetched, seen_s = self.fetched(), time.monotonic()
        while not self.fleet.is_over.wait(1.0):
            now_s, before, fetched = time.monotonic(), fetched, self.fetched()
            if fetched != before:
                seen_s = now_s
            if now_s > until_s or now_s > seen_s + self.plan.idle_s:
                break
        return self.fleet.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def _close(self) -> None:
        self.over.set()
        self.fleet.close()
        self.stack.close()
        shutil.rmtree(self._data, ignore_errors=True)


# --- doing faults ---------------------------------------------------------------------------------


class Places:
    """Turns of faults: one at a time at each place, and some that overlap with none."""

    def __init__(self) -> None:
        self._free = threading.Condition()
        self._busy: set[str] = set()
        # The fault that nobody may overlap with: it waits until nobody is busy, or goes on.
        self._lonely: Fault | None = None

    def enter(self, fault: Fault, over: threading.Event) -> bool:
        """Wait for the turn of a fault; False: the storm is over."""
        with self._free:
            while not over.is_set():
                if fault.alone and self._lonely is None:
                    self._lonely = fault
                blocking = self._busy if fault.alone else self._busy & {fault.place}
                if self._lonely in (None, fault) and not blocking:
                    self._busy.add(fault.place)
                    return True
                self._free.wait(_LOOK_S)
        return False

    def leave(self, fault: Fault) -> None:
        """Let others go on."""
        with self._free:
            self._busy.discard(fault.place)
            if self._lonely is fault:
                self._lonely = None
            self._free.notify_all()


def blow(
    storm: Storm,
    schedule: Sequence[Planned],
    kinds: Mapping[str, Fault],
    *,
    length_s: float,
    said: Callable[[str], None] = lambda _line: None,
) -> list[Happened]:
    """Do all faults of a schedule; return those that were done, in the order of their ends.

    Each place has a thread. The storm is over after `length_s`, or when the crawl is.
    """
    done: list[Happened] = []
    places, began = Places(), time.monotonic()
    waiting: dict[str, queue.SimpleQueue[Planned | None]] = {}
    threads: list[threading.Thread] = []

    def work(planned_faults: queue.SimpleQueue[Planned | None]) -> None:
        while (planned := planned_faults.get()) is not None:
            fault = kinds[planned.kind]
            if not places.enter(fault, storm.over):
                continue
            happened = _do(storm, planned, fault)
            places.leave(fault)
            done.append(happened)
            said(to_line(happened))

    for planned in schedule:
        left_s = began + min(planned.at_s, length_s) - time.monotonic()
        if _ends(storm, left_s) or planned.at_s > length_s:
            break
        place = kinds[planned.kind].place
        if place not in waiting:
            waiting[place] = queue.SimpleQueue()
            threads.append(threading.Thread(target=work, args=(waiting[place],), daemon=True))
            threads[-1].start()
        waiting[place].put(planned)
    _ends(storm, began + length_s - time.monotonic())
    storm.over.set()
    for each in waiting.values():
        each.put(None)
    for thread in threads:
        thread.join()
    return done


def _ends(storm: Storm, seconds: float) -> bool:
    """Wait for so long; return whether the crawl is over."""
    return storm.fleet.is_over.wait(max(0.0, seconds))


def _do(storm: Storm, planned: Planned, fault: Fault) -> Happened:
    began_s, target, error = time.time(), "", ""
    try:
        target = fault.inject(storm, Random(planned.seed))
    except Exception as problem:  # noqa: BLE001 - it is a finding, and the storm goes on
        error = f"{type(problem).__name__}: {problem}"
    return Happened(planned, began_s, time.time(), target, error)


def describe(plan: Plan) -> str:
    """Return one line about a storm."""
    web = plan.web
    return (
        f"seed {plan.seed}: {plan.crawlers} crawlers, {web.hosts} hosts with {web.pages} pages, "
        f"sinks {' '.join(plan.sinks)}{', with a spool' if plan.spool else ''}, settings "
        f"{json.dumps({name: str(value) for name, value in plan.settings.items()})}"
    )
