"""DNS that fails or lies while a crawl runs.

All names of the web are asked for at a DNS server of the storm's own, with times to live of two
seconds. They lead to a loopback address where the web also has port 80, so this needs the right to
bind it.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import closing
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Final

from chaos.faults import Cost, Fault
from tests.support.dns_server import DnsServer

if TYPE_CHECKING:
    from chaos.storm import Storm

_OWN: Final = "names"
_PORT: Final = 80
_LONGEST_S: Final = 5.0
# Failures of the whole server; "slow" has answers that come too late for most.
_OUTAGES: Final = ("servfail", "silent", "truncated", "garbage", "slow")
_SLOW_S: Final = 2.5
# Lies about some names: URLs fail by them, and are retried.
_LIES: Final = ("nxdomain", "wrong")
_NAMES_MOST: Final = 5


class NameServer:
    """Context manager: a DNS server in a thread, by which all names have one address."""

    def __init__(self, address: str) -> None:
        self.dns = DnsServer()
        self.dns.set("*", address, ttl=2)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> NameServer:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.dns.start(), self._loop).result(10)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self.dns.stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _own_address(seed: int) -> str:
    """Return a loopback address for this storm: several may run on a machine."""
    chance = Random(seed)
    return f"127.{chance.randint(64, 127)}.{chance.randint(0, 255)}.{chance.randint(1, 254)}"


def _missing() -> str:
    with closing(socket.socket()) as sock:
        try:
            sock.bind((_own_address(0), _PORT))
        except OSError as error:
            return f"no port {_PORT} of a loopback address: {error.strerror}"
    return ""


def _prepare(storm: Storm) -> None:
    if _OWN in storm.own:
        return
    address = _own_address(storm.web.port)
    storm.web.listen(address, _PORT)
    names = storm.stack.enter_context(NameServer(address))
    storm.own[_OWN] = names
    storm.settings.update(
        {
            "DNS_OVERRIDES": "{}",
            "DNS_SERVERS": names.dns.address,
            "DNS_TTL_MIN": 2,
            "DNS_TTL_MAX": 2,
            "DNS_TIMEOUT": 3,
            "DNS_RETRY_WAIT": 1,
            # "No such name" is kept for a minute.
            "RETRY_TIMES": 60,
            "RETRY_MAX": 5,
        }
    )


def fail(storm: Storm, chance: Random) -> str:
    """Let DNS answer nothing that is of use."""
    dns, how = storm.own[_OWN].dns, chance.choice(_OUTAGES)
    try:
        if how == "slow":
            dns.delay_s = _SLOW_S
        else:
            dns.mood = how
        storm.rest(chance.uniform(0.5, _LONGEST_S))
    finally:
        dns.mood, dns.delay_s = "answers", 0.0
    return f"names: {how}"


def lie(storm: Storm, chance: Random) -> str:
    """Let DNS deny some names, or give addresses of nobody for them."""
    dns, how = storm.own[_OWN].dns, chance.choice(_LIES)
    hosts = range(storm.web.options.hosts)
    names = [f"s{number}.test" for number in chance.sample(hosts, min(_NAMES_MOST, len(hosts)))]
    try:
        dns.moods.update(dict.fromkeys(names, how))
        storm.rest(chance.uniform(0.5, _LONGEST_S))
    finally:
        dns.moods.clear()
    return f"names: {how} for {' '.join(names)}"


FAULTS = (
    Fault("dns fails", "names", fail, Cost(), prepare=_prepare, missing=_missing),
    Fault("dns lies", "names", lie, Cost(), prepare=_prepare, missing=_missing),
)
